/* SPDX-License-Identifier: BSD-3-Clause */
/* The page: the selection, and the parts that show it. */

const MOMENTS = {peak: "At the peak", oom: "When memory lacked", exit: "At the end", time: "At a chosen time",
	view: "Allocated in the view"};

const page = {
	log: null,
	device: null, /* null: no device was used */
	moment: null,
	stacks: null,
	lives: null, /* null: no events, or no block */
	groups: [], /* its call sites */
	kind: "stacks", /* rows of the table: stacks, blocks, sites */
	tree: {inverted: false, folded: true}, /* of the flame graph */
	search: new Search(""),
	timeline: new Timeline(byId("timeline"), byId("tooltip")),
	flame: new Flame(byId("flame"), byId("flame-value")),
};
page.map = new AddressMap(byId("map"), page.timeline);
page.frag = new FragCurve(byId("frag"), page.timeline);

/* --- choices --- */

/* Radio buttons: choices are [value, text]. */
function choiceMake(container, choices, chosen, choose) {
	container.replaceChildren(...choices.map(([value, text]) => {
		const radio = make("input", {type: "radio", name: container.id, value, checked: value === chosen});
		radio.addEventListener("change", () => choose(value));
		return make("label", {}, radio, text);
	}));
}

/* A single choice needs no list. */
function selectMake(select, label, texts, choose) {
	select.replaceChildren(...texts.map((text, i) => make("option", {value: i}, text)));
	label.hidden = texts.length < 2;
	select.onchange = () => choose(Number(select.value));
}

/* --- one log --- */

function headShow(log) {
	const facts = [
		log.rank === null ? null : `rank ${log.rank}`,
		log.job ? `job ${log.job}` : null,
		`process ${log.pid} on ${log.host}`,
		dateText(new Date(log.start_ms)),
		timeText(log.length_ns),
		log.end,
		log.mode === "trace" ? "only watched: all memory was the driver's" : null,
	];
	byId("program").textContent = log.program || "gpumem report";
	byId("run").textContent = facts.filter((fact) => fact).join(" · ");
	byId("command").textContent = byId("command").title = log.command;
	document.title = `${log.program}: gpumem report`;
	const records = pluralText(log.records, "record") + (log.complete ? "" : ", not all events")
		+ (log.dropped ? `, ${countText(log.dropped)} lost` : "");
	byId("footer").textContent = `gpumem ${report.version} · ${log.path} · ${records}`;
}

/* Remedies for a reader of the page; the tool's own name commands of a terminal. */
const REMEDIES = {
	oom_limit_pieces: "Raise GPUMEM_LIMIT.",
	oom_fragmented: "Allocate what lives long first.",
	torch_oom_line: "Free some of it sooner, or ask for less at a time.",
	oom_in_use: "Free some of it sooner, or ask for less at a time.",
	in_pieces: "Allocate what lives long first.",
	torch_tensors: "The blocks below are these tensors.",
	oom_unsized: "The counters of the device have who had the memory.",
	heap_null_place: "The details have the other places.",
	heap_freed_twice: "The details have the other places.",
	heap_invalid_free: "The details have the other places.",
	heap_leaks: "The details have the other places.",
	kernels_native: "GPUMEM_VERBOSE=3 says so as it happens.",
	not_ordered: "The device's counters ordered_* have the reasons; "
		+ "GPUMEM_FREE=defer does the same at less cost.",
};

/* The moment whose blocks belong to a finding, and the text of its link. */
const SHOWN = {
	never_freed: ["exit", "Show their call stacks"],
	torch_oom_pieces: ["oom", "Show the tensors alive then"],
	torch_oom_fraction: ["oom", "Show the tensors alive then"],
	torch_oom_limit: ["oom", "Show the tensors alive then"],
	torch_oom_others: ["oom", "Show the tensors alive then"],
	torch_oom_line: ["oom", "Show the tensors alive then"],
	oom_limit_pieces: ["oom", "Show the blocks alive then"],
	oom_fragmented: ["oom", "Show the blocks alive then"],
	oom_limit: ["oom", "Show the blocks alive then"],
	oom_in_use: ["oom", "Show the blocks alive then"],
};

function findingText({rule, text, remedy}) {
	const here = REMEDIES[rule] ?? remedy;
	return here ? `${text} ${here}` : text;
}

/* The devices that had blocks at the moment. */
function devicesWith(at) {
	return page.log.devices.filter(({moments}) =>
		moments.some((moment) => moment.at === at && moment.blocks > 0));
}

/* Choose a moment of a device in the list, and go there. */
function momentGo(at, device) {
	if (device !== page.device) {
		byId("device").value = String(page.log.devices.indexOf(device));
		deviceShow(device);
	}
	byId("moments").querySelector(`input[value=${at}]`).click();
	byId("alive-title").scrollIntoView();
}

/* A finding is about the whole run: there is a link for each device. */
function findingMake(level, sentences, at, link) {
	const text = make("span", {}, sentences);
	const devices = at ? devicesWith(at) : [];
	for (const device of devices) {
		const name = devices.length > 1 ? `${link} on device ${device.ordinal}` : link;
		const button = make("button", {type: "button"}, name);
		button.addEventListener("click", () => momentGo(at, device));
		text.append(" ", button);
	}
	return make("li", {class: level}, make("span", {class: "level"}, level), text);
}

function findingsShow(log) {
	const list = log.findings.map((finding) =>
		findingMake(finding.level, findingText(finding), ...(SHOWN[finding.rule] ?? [])));
	/* A finding tells of damage. */
	if (log.contradiction && !log.findings.some(({rule}) => rule.endsWith("_unreadable")))
		list.unshift(findingMake("error", `The log contradicts itself: ${log.contradiction}.`));
	byId("findings").replaceChildren(...(list.length ? list : [findingMake("note", "Nothing stands out.")]));
}

function tileMake(title, value, more, bad) {
	return make("div", {}, make("dt", {}, title), make("dd", {class: bad ? "value bad" : "value"}, value),
		make("dd", {class: "faint"}, more));
}

/* What GPUMEM_LEND did; nothing if it is not set and nothing was lent. */
function lendingNotes(log, count) {
	const on = log.knobs.some((knob) => /^GPUMEM_LEND=(1|always) /.test(knob));
	if (!on && !count("lend_bytes") && !count("lend_off"))
		return [];
	return [`${bytesText(count("lend_bytes"))} taken`,
		`${pluralText(count("lend_returned"), "chunk")} mapped again in ${timeText(count("lend_ns"))}`,
		`${bytesText(count("lend_vacant"))} vacant ${log.running ? "now" : "at the end"}`,
		count("lend_host_peak") && `${bytesText(count("lend_host_peak"))} in memory of the host at most`,
		count("lend_refused") && `${pluralText(count("lend_refused"), "tensor")} without memory`,
		count("lend_off") && "ended"].filter((note) => note);
}

function tilesShow(log, device) {
	const count = (name) => device?.counters[name] ?? 0;
	const at = (ns) => (ns === null || ns === undefined ? "" : `at ${timeText(ns)}`);
	const trace = log.mode === "trace";
	const peak = device?.requested_peak ?? log.requested_peak;
	const mapped = device?.mapped_peak ?? 0;
	const live = trace ? count("foreign_driver") : count("requested");
	const refused = count("allocate_failed") + count("refused_calls");
	const lending = lendingNotes(log, count);
	const lent = device ? page.timeline.data.series.lent.most.reduce((a, b) => Math.max(a, b), 0) : 0;
	const tiles = [
		tileMake("peak requested", bytesText(peak), trace ? "" : at(device?.requested_peak_ns)),
		!trace && tileMake("peak mapped", bytesText(mapped), at(device?.mapped_peak_ns)),
		!trace && tileMake("utilisation", shareText(peak, mapped), "of the peak mapped"),
		count("tensor_peak") > 0 && tileMake("peak of tensors", bytesText(count("tensor_peak")), "of PyTorch"),
		lent > 0 && tileMake("heaps of kernels", bytesText(lent),
			`mapped at most, ahead too; ${bytesText(count("heap_mapped_peak"))} for their blocks`),
		tileMake(log.running ? "requested now" : "requested at the end", bytesText(live),
			trace ? "" : `in ${pluralText(count("live_blocks"), "block")}`),
		tileMake("allocations", countText(count("allocate_calls")),
			`${countText(count("allocate_driver"))} served by the driver`),
		tileMake("refused", countText(refused), device?.total ? `device of ${bytesText(device.total)}` : "",
			refused > 0),
		lending.length > 0 && tileMake("saved by lending", bytesText(count("lend_vacant_peak")), lending.join(", "),
			count("lend_refused") + count("lend_off") > 0),
	];
	byId("tiles").replaceChildren(...tiles.filter((tile) => tile));
}

function detailsShow() {
	const {log, device, search} = page;
	const parts = [
		...(device?.sites.length ? [["malloc and free in kernels", kernelsTable(device, search)]] : []),
		...(device?.heap_kernels.length ? [["Heaps of kernels", heapsTable(device, search)]] : []),
		["Calls", callsTable(log, search)],
		[device ? `Counters of device ${device.ordinal}` : "Counters of a device",
			countersTable(device?.counters ?? {}, search)],
		["Counters of the process", countersTable(log.counters, search)],
		["Knobs", knobsTable(log, search)],
	];
	byId("details").replaceChildren(...parts.map(([title, content]) =>
		partMake(title, content, search.active && content[0].tagName === "TABLE")));
}

/* --- one moment --- */

const TITLES = {stacks: "Largest", blocks: "Largest", sites: "Call sites of the run",
	diff: "Difference to another run"};

/* The shown moment beside that of another log, on its device of the same number; its first moment, if it
 * has no such one. The log that comes first on the page is the old one. */
function diffShow(search) {
	const {log, moment, stacks, device} = page;
	const other = report.logs[Number(byId("other").value)];
	const there = other.devices.find(({ordinal}) => ordinal === device.ordinal) ?? other.devices[0];
	const moments = there?.moments ?? [];
	const its = moments.find(({at}) => at === moment.at) ?? moments[0];
	const sides = [{log, moment, stacks}, {log: other, moment: its, stacks: new Stacks(other)}]
		.sort((a, b) => report.logs.indexOf(a.log) - report.logs.indexOf(b.log));
	return diffTable(...sides, search);
}

function blocksShow() {
	const {moment, groups, stacks, search} = page;
	const tables = {
		diff: () => diffShow(search),
		stacks: () => stacksTable(moment, stacks, search),
		blocks: () => blocksTable(moment, stacks, search),
		sites: () => sitesTable(groups, stacks, search),
	};
	byId("blocks-title").textContent = TITLES[page.kind];
	byId("other-label").hidden = page.kind !== "diff";
	byId("blocks").replaceChildren(...tables[page.kind]());
}

/* The time of a moment, in words. */
function momentText({at, ns, from}) {
	if (at !== "view")
		return `at ${timeText(ns)}`;
	return `allocated after ${timeText(from)} and alive at ${timeText(ns)}`;
}

function sumShow() {
	const {log, moment, search, flame} = page;
	const sum = byId("alive-sum");
	if (!moment) {
		const none = page.device ? "No block was alive at any time." : "The program used no device.";
		sum.textContent = log.missing ? `Not known: ${log.missing}.` : none;
		return;
	}
	const found = search.active ? flame.bytesFound() : 0;
	const foundText = `Found: ${bytesText(found)}, ${shareText(found, moment.bytes)}.`;
	byId("alive-title").textContent = moment.level === "tensor" ? "Tensors of PyTorch alive" : "Blocks alive";
	sum.replaceChildren(`${bytesText(moment.bytes)} in ${pluralText(moment.blocks, moment.level)} of `
		+ `${pluralText(moment.stacks, "call stack")}, ${momentText(moment)}.`,
		...(search.active ? [" ", make("mark", {}, foundText)] : []));
	if ((moment.at === "time" || moment.at === "view") && page.lives.tick > 1)
		sum.append(` This page knows what was alive at every ${timeText(page.lives.tick)} of the run: this is the`
			+ ` state at ${timeMark(moment.ns, page.lives.tick / 10)}.`);
	if (moment.at === "time" && moment.ns < log.since_ns)
		sum.append(` The events of the log begin at ${timeText(log.since_ns)}.`);
	if (!log.older_known)
		sum.append(" Older blocks are not known: the log lacks their events.");
}

function momentShow(moment) {
	page.moment = moment;
	byId("alive-parts").hidden = !moment;
	byId("owners").replaceChildren(...ownersTable(moment));
	if (moment) {
		page.flame.show(treeMake(moment, page.stacks, page.tree));
		blocksShow();
	}
	sumShow();
}

/* --- a chosen time, or the view --- */

/* What was alive at a time, with the largest blocks of those that the report has by address. */
function momentAt(ns) {
	return {...page.lives.at(ns), largest: page.map.largestAt(ns)};
}

function momentWithin(from, to) {
	return {...page.lives.within(from, to), largest: page.map.largestAt(to).filter((block) => block.ns > from)};
}

/* Show the chosen moment of the list again, after the time or the view has changed. */
function momentAgain() {
	const {timeline, moment} = page;
	if (timeline.begin !== page.seen?.[0] || timeline.end !== page.seen?.[1])
		addressAsk();
	page.seen = [timeline.begin, timeline.end];
	if (moment?.at === "view" && (timeline.begin !== page.view?.[0] || timeline.end !== page.view?.[1])) {
		page.view = [timeline.begin, timeline.end];
		momentShow(momentWithin(timeline.begin, timeline.end));
	}
}

function momentChoose(at) {
	const {timeline} = page;
	addressAsk();
	if (at === "time") {
		timeline.pick(timeline.picked ?? (timeline.begin + timeline.end) / 2);
	} else if (at === "view") {
		page.view = [timeline.begin, timeline.end];
		momentShow(momentWithin(timeline.begin, timeline.end));
	} else {
		momentShow(page.device.moments.find((moment) => moment.at === at));
	}
}

/* A time was chosen in a drawing: show what was alive. */
function timePicked(ns) {
	if (!page.lives)
		return;
	byId("moments").querySelector("input[value=time]").checked = true;
	momentShow(momentAt(ns));
	addressAsk();
}

/* --- the page's address: a link to what is shown --- */

const ADDRESS_DELAY = 200; /* ms without a change: browsers limit how often an address may change */

/* "#process=0&device=0&from=NS&to=NS&at=NS", or "show=NAME" of a moment; "" for what a page begins with. */
function addressOf() {
	const {timeline, log, device, moment} = page;
	const asked = new URLSearchParams();
	if (!device || !timeline.data)
		return "";
	if (timeline.begin > 0 || timeline.end < timeline.length) {
		asked.set("from", Math.round(timeline.begin));
		asked.set("to", Math.round(timeline.end));
	}
	if (moment?.at === "time")
		asked.set("at", Math.round(timeline.picked));
	else if (moment && moment.at !== device.moments[0]?.at)
		asked.set("show", moment.at);
	const place = new URLSearchParams({process: report.logs.indexOf(log), device: log.devices.indexOf(device)});
	return [...asked].length ? `#${place}&${asked}` : "";
}

function addressWrite() {
	const address = addressOf();
	if (address === page.address || (!address && !location.hash))
		return;
	try {
		/* Neither scrolls nor takes the focus. */
		history.replaceState(null, "", location.href.split("#")[0] + address);
		page.address = address;
	} catch {
		/* A page in a frame without an origin has no address of its own. */
	}
}

/* Write the address when what is shown has not changed for a while. */
function addressAsk() {
	clearTimeout(page.addressTimer);
	page.addressTimer = setTimeout(addressWrite, ADDRESS_DELAY);
}

function addressFollow(hash) {
	const asked = new URLSearchParams(hash.slice(1));
	const log = report.logs[Number(asked.get("process"))];
	const device = log?.devices[Number(asked.get("device"))];
	if (hash === page.address || !asked.has("process") || !device)
		return;
	page.address = hash;
	if (log !== page.log) {
		byId("process").value = asked.get("process");
		logShow(log);
	}
	if (device !== page.device) {
		byId("device").value = asked.get("device");
		deviceShow(device);
	}
	const time = (name) => Math.min(Math.max(0, Number(asked.get(name)) || 0), page.timeline.length);
	if (asked.has("from") && asked.has("to"))
		page.timeline.view(time("from"), time("to"));
	if (asked.has("at"))
		page.timeline.pick(time("at"));
	else
		[...byId("moments").querySelectorAll("input")].find(({value}) => value === asked.get("show"))?.click();
}

/* The drawings below the timeline, where the log has them. */
function stripsShow(device) {
	byId("frag-part").hidden = !(device?.frag.points > 0);
	byId("map-part").hidden = !(device?.areas.points > 0);
	if (!device)
		return;
	const colors = [];
	page.groups.forEach((group, i) => group.sites.forEach((site) => {
		colors[site] = siteColor(i);
	}));
	page.frag.show(device);
	page.map.show(device, colors, page.stacks);
	const {omitted, points} = device.areas;
	const {omitted: ranges} = device.chunks;
	byId("map-blocks").textContent = `${page.lives?.level ?? "block"}s`;
	const all = pluralText(omitted + points, "block");
	byId("map-left").textContent = omitted
		? ` ${countText(omitted)} smaller or shorter ones of ${all} are not drawn.` : "";
	if (ranges)
		byId("map-left").textContent += ` Of the memory around them ${countText(ranges)} parts are not drawn.`;
}

function deviceShow(device) {
	const {log, stacks} = page;
	const moments = device?.moments ?? [];
	page.device = device;
	page.lives = device?.lives.points > 0 ? new Lives(device, moments[0]?.level ?? "block") : null;
	page.groups = page.lives ? sitesGroup(page.lives, stacks) : [];
	byId("over-time").hidden = !device;
	byId("click-hint").hidden = byId("enter-hint").hidden = !page.lives;
	addressAsk();
	byId("pictures").hidden = !page.lives;
	if (device)
		page.timeline.show(log, device, page.lives, page.groups);
	tilesShow(log, device);
	stripsShow(device);
	choiceMake(byId("pictures"), [["kind", "By kind"], ["site", "By call site"]], "kind",
		(name) => page.timeline.pictureChoose(name));
	const at = [...moments.map((moment) => moment.at), ...(page.lives ? ["time", "view"] : [])];
	choiceMake(byId("moments"), at.map((name) => [name, MOMENTS[name]]), moments[0]?.at, momentChoose);
	momentShow(moments[0] ?? null);
	detailsShow();
}

/* The log to compare with: the one before, or after the first. */
function otherMake(log) {
	const shown = report.logs.indexOf(log);
	byId("other").replaceChildren(...report.logs.map((one, i) =>
		make("option", {value: i, selected: i === (shown === 0 ? 1 : shown - 1)}, logName(one))));
}

function logName(log) {
	const rank = log.rank === null ? "" : `rank ${log.rank}: `;
	return `${rank}${log.program}, ${log.path.split("/").pop()}`;
}

function logShow(log) {
	page.log = log;
	otherMake(log);
	page.device = null; /* of the log before */
	page.stacks = new Stacks(log);
	headShow(log);
	findingsShow(log);
	byId("objects").replaceChildren(...log.objects.filter((object) => object.missing)
		.map((object) => make("li", {}, `Without symbols: ${object.path} ${object.missing}.`)));
	selectMake(byId("device"), byId("device-label"),
		log.devices.map((device) => `${device.ordinal}: ${device.name}`), (i) => deviceShow(log.devices[i]));
	deviceShow(log.devices[0] ?? null);
}

/* --- the page --- */

function treeChange(change) {
	page.tree = {...page.tree, ...change};
	page.flame.show(treeMake(page.moment, page.stacks, page.tree));
}

function searchSet(text) {
	page.search = new Search(text);
	page.flame.searchFor(page.search);
	if (page.moment)
		blocksShow();
	sumShow();
	detailsShow();
}

function start() {
	const search = byId("search");
	search.addEventListener("input", () => searchSet(search.value));
	search.form.addEventListener("submit", (event) => event.preventDefault());
	document.addEventListener("keydown", (event) => {
		if (event.key === "/" && !event.target.matches("input[type=search], select")) {
			event.preventDefault();
			search.focus();
		}
	});
	byId("zoom-in").addEventListener("click", () => page.timeline.zoom(0.5));
	byId("zoom-out").addEventListener("click", () => page.timeline.zoom(2));
	byId("zoom-all").addEventListener("click", () => page.timeline.viewAll());
	const kinds = [["stacks", "call stacks"], ["blocks", "blocks"], ["sites", "all call sites"]];
	if (report.logs.length > 1)
		kinds.push(["diff", "difference"]);
	byId("other").addEventListener("change", blocksShow);
	choiceMake(byId("kinds"), kinds, page.kind, (kind) => {
		page.kind = kind;
		blocksShow();
	});
	const trees = [["", "Callers first"], ["inverted", "Allocating calls first"]];
	choiceMake(byId("trees"), trees, "", (inverted) => treeChange({inverted: inverted !== ""}));
	byId("frames-all").addEventListener("change", (event) => treeChange({folded: !event.target.checked}));
	page.timeline.onPick = timePicked;
	page.timeline.follow(momentAgain);
	selectMake(byId("process"), byId("process-label"),
		report.logs.map(logName),
		(i) => logShow(report.logs[i]));
	const {hash} = location;
	logShow(report.logs[0]);
	addressFollow(hash);
	window.addEventListener("hashchange", () => addressFollow(location.hash));
}

start();
