/* SPDX-License-Identifier: BSD-3-Clause */
/* The page: the selection, and the parts that show it. */

const MOMENTS = {peak: "At the peak", oom: "When memory lacked", exit: "At the end"};

const page = {
	log: null,
	device: null, /* null: no device was used */
	moment: null,
	stacks: null,
	kind: "stacks", /* rows of the table: stacks, blocks */
	search: new Search(""),
	timeline: new Timeline(byId("timeline"), byId("tooltip")),
	flame: new Flame(byId("flame"), byId("flame-value")),
};

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
	const start = new Date(log.start_ms);
	const facts = [
		log.rank === null ? null : `rank ${log.rank}`,
		log.job ? `job ${log.job}` : null,
		`process ${log.pid} on ${log.host}`,
		`${start.toLocaleDateString()} ${start.toLocaleTimeString()}`,
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

function findingMake(level, sentences) {
	return make("li", {class: level}, make("span", {class: "level"}, level), make("span", {}, sentences));
}

function findingsShow(log) {
	const list = log.findings.map((finding) =>
		findingMake(finding.level, `${finding.text}${finding.remedy ? ` ${finding.remedy}` : ""}`));
	if (log.contradiction)
		list.unshift(findingMake("error", `The log contradicts itself: ${log.contradiction}.`));
	byId("findings").replaceChildren(...(list.length ? list : [findingMake("note", "Nothing stands out.")]));
}

function tileMake(title, value, more, bad) {
	return make("div", {}, make("dt", {}, title), make("dd", {class: bad ? "value bad" : "value"}, value),
		make("dd", {class: "faint"}, more));
}

function tilesShow(log, device) {
	const count = (name) => device?.counters[name] ?? 0;
	const at = (ns) => (ns === null || ns === undefined ? "" : `at ${timeText(ns)}`);
	const trace = log.mode === "trace";
	const peak = device?.requested_peak ?? log.requested_peak;
	const mapped = device?.mapped_peak ?? 0;
	const live = trace ? count("foreign_driver") : count("requested");
	const refused = count("allocate_failed");
	const tiles = [
		tileMake("peak requested", bytesText(peak), trace ? "" : at(device?.requested_peak_ns)),
		!trace && tileMake("peak mapped", bytesText(mapped), at(device?.mapped_peak_ns)),
		!trace && tileMake("utilisation", shareText(peak, mapped), "of the peak mapped"),
		tileMake(log.running ? "requested now" : "requested at the end", bytesText(live),
			trace ? "" : `in ${pluralText(count("live_blocks"), "block")}`),
		tileMake("allocations", countText(count("allocate_calls")),
			`${countText(count("allocate_driver"))} served by the driver`),
		tileMake("refused", countText(refused), device?.total ? `device of ${bytesText(device.total)}` : "",
			refused > 0),
	];
	byId("tiles").replaceChildren(...tiles.filter((tile) => tile));
}

function detailsShow() {
	const {log, device, search} = page;
	const parts = [
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

function blocksShow() {
	const {moment, stacks, search} = page;
	const tables = {stacks: stacksTable, blocks: blocksTable};
	byId("blocks").replaceChildren(...tables[page.kind](moment, stacks, search));
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
	sum.replaceChildren(`${bytesText(moment.bytes)} in ${pluralText(moment.blocks, "block")} of `
		+ `${pluralText(moment.stacks, "call stack")}, at ${timeText(moment.ns)}.`,
		...(search.active ? [" ", make("mark", {}, foundText)] : []));
	if (!log.older_known)
		sum.append(" Older blocks are not known: their events were dropped.");
}

function momentShow(moment) {
	page.moment = moment;
	byId("alive-parts").hidden = !moment;
	if (moment) {
		page.flame.show(treeMake(moment, page.stacks));
		blocksShow();
	}
	sumShow();
}

function deviceShow(device) {
	page.device = device;
	tilesShow(page.log, device);
	const moments = device?.moments ?? [];
	byId("over-time").hidden = !device;
	if (device)
		page.timeline.show(page.log, device);
	choiceMake(byId("moments"), moments.map((moment, i) => [String(i), MOMENTS[moment.at]]), "0",
		(i) => momentShow(moments[i]));
	momentShow(moments[0] ?? null);
	detailsShow();
}

function logShow(log) {
	page.log = log;
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
	choiceMake(byId("kinds"), [["stacks", "call stacks"], ["blocks", "blocks"]], page.kind, (kind) => {
		page.kind = kind;
		blocksShow();
	});
	selectMake(byId("process"), byId("process-label"),
		report.logs.map((log) => `${log.rank === null ? log.pid : `rank ${log.rank}`}: ${log.program}`),
		(i) => logShow(report.logs[i]));
	logShow(report.logs[0]);
}

start();
