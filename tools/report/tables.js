/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables: the largest blocks and stacks, calls, counters, knobs. The search keeps matching rows. */

const ROWS_FIRST = 20;
const SITE_STACKS = 50; /* shown of a site */

/* By the columns of a table: {column, sign}, how the reader sorted it. */
const sortings = new WeakMap();

function rowsSort(columns, rows) {
	const {column, sign} = sortings.get(columns) ?? {};
	if (!sign)
		return rows;
	const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
	return [...rows].sort((a, b) => sign * compare(a.values[column], b.values[column]));
}

/* Numbers are sorted downwards first, text upwards. */
function headMake(columns, i, rows, changed) {
	const [title, kind] = columns[i];
	const {column, sign} = sortings.get(columns) ?? {};
	const first = typeof rows[0]?.values?.[i] === "string" ? 1 : -1;
	const order = column === i ? (sign > 0 ? "ascending" : "descending") : undefined;
	if (!rows[0]?.values)
		return make("th", {scope: "col", class: kind}, title);
	const button = make("button", {type: "button", title: `Sort by: ${title}`}, title);
	button.addEventListener("click", () => {
		sortings.set(columns, {column: i, sign: column === i ? -sign : first});
		changed();
	});
	return make("th", {scope: "col", class: kind, "aria-sort": order}, button);
}

/*
 * Columns are [title, class]. Rows are {cells, text, values}, or {cellsMake, ...}, called when the row is
 * shown; the search reads `text`. Rows with `values`, one a column, can be sorted. Returns elements.
 */
function tableMake(columns, rows, search) {
	const kept = search.active ? rows.filter((row) => search.matches(row.text)) : rows;
	const head = make("thead");
	const body = make("tbody");
	const rowMake = (row) => make("tr", {}, ...(row.cellsMake?.() ?? row.cells).map((cell, i) =>
		make("td", {class: columns[i][1]}, cell)));
	let shown = ROWS_FIRST;
	const fill = () => {
		head.replaceChildren(make("tr", {}, ...columns.map((_, i) => headMake(columns, i, rows, fill))));
		body.replaceChildren(...rowsSort(columns, kept).slice(0, shown).map(rowMake));
	};
	fill();
	if (kept.length === 0)
		return [make("p", {class: "faint"}, rows.length ? "Nothing here matches the search." : "None.")];
	const table = make("table", {}, head, body);
	if (kept.length <= ROWS_FIRST)
		return [table];
	const more = make("button", {type: "button"}, `Show all ${countText(kept.length)}`);
	more.addEventListener("click", () => {
		shown = kept.length;
		fill();
		more.remove();
	});
	return [table, more];
}

/* The allocating call; the whole stack on demand. */
function siteMake(stacks, number, rest, name) {
	if (number === null)
		return make("span", {class: "faint"}, rest ? SMALLER : "without a call stack");
	const about = stacks.about.get(number);
	const path = stacks.path(number, 3);
	const list = make("ol", {}, ...stacks.of(number).map((call) => make("li", {}, callLine(call))));
	if (about.cut)
		list.append(make("li", {class: "faint"}, "further ones, which the log lacks"));
	if (about.c_only)
		list.append(make("li", {class: "faint"}, "C frames only: the thread's frames of Python are unknown"));
	return make("details", {}, make("summary", {}, name || path.join(" ← ") || "an empty stack"), list);
}

function stackSearched(stacks, number) {
	return stacks.of(number).map(callSearched).join("\n");
}

function shareMake(part, whole) {
	const bar = make("i");
	bar.style.width = `${whole > 0 ? Math.min(100, 100 * part / whole) : 0}%`;
	return make("span", {class: "shared"}, make("span", {class: "share", "aria-hidden": "true"}, bar),
		make("span", {}, shareText(part, whole)));
}

/* The owners of the device's memory, with those that have any. */
const OWNERS = {
	tensors: "tensors of PyTorch",
	cache: "PyTorch's cache, without a tensor",
	blocks: "other blocks of the program",
	pool: "the pool, idle and rounding",
	heaps: "heaps of kernels",
	others: "other processes, and contexts and libraries of this one",
	all: "all",
};
const OWNER_COLUMNS = [["in use on the device", "wide"], ["bytes", "number"], ["share", "number"]];

function ownersTable(moment) {
	const {owners, others_ns: asked} = moment ?? {};
	const rows = Object.entries(owners ?? {}).filter(([, {bytes}]) => bytes > 0);
	if (rows.length === 0)
		return [];
	let note = "";
	if (asked === null)
		note = "The driver was not asked what others use.";
	else if (asked !== moment.ns && owners.others.bytes > 0)
		note = `The memory of others is that of ${timeText(asked)}.`;
	return [...tableMake(OWNER_COLUMNS, rows.map(([name, {bytes}]) => ({
		cells: [OWNERS[name], bytesText(bytes), shareMake(bytes, owners.all.bytes)],
		text: "",
	})), new Search("")), make("p", {class: "faint"}, note)];
}

const STACK_COLUMNS = [["bytes", "number"], ["share", "number"], ["blocks", "number"], ["largest", "number"],
	["allocated by", "wide"]];
const BLOCK_COLUMNS = [["size", "number"], ["share", "number"], ["allocated at", "number"],
	["address", "number"], ["served by", ""], ["allocated by", "wide"]];
const SITE_COLUMNS = [["peak", "number"], ["at", "number"], ["allocated", "number"], ["calls", "number"],
	["freed at once", "number"], ["alive at the end", "number"], ["call site", "wide"]];
const KERNEL_COLUMNS = [["never freed", "number"], ["blocks", "number"], ["peak", "number"],
	["calls", "number"], ["NULLs", "number"], ["freed twice", "number"], ["invalid frees", "number"],
	["call", "wide"]];
const HEAP_COLUMNS = [["heaps grew", "number"], ["times", "number"], ["for kernel", "wide"]];
const CALL_COLUMNS = [["call", "wide"], ["calls", "number"], ["failed", "number"],
	["by the driver", "number"], ["total", "number"], ["median", "number"], ["99%", "number"],
	["longest", "number"]];
const COUNTER_COLUMNS = [["counter", ""], ["value", "number"], ["meaning", "wide"]];

/* The stacks of a moment; those that differ in folded calls alone are one. */
function stacksJoin(moment, stacks) {
	const joined = new Map();
	for (const one of moment.by_stack) {
		const name = one.rest ? SMALLER : callsFold(stacks.of(one.stack), false).map(callLine).join("\n");
		if (!joined.has(name))
			joined.set(name, {bytes: 0, blocks: 0, largest: 0, rest: one.rest, stacks: []});
		const group = joined.get(name);
		group.bytes += one.bytes;
		group.blocks += one.blocks;
		group.largest = Math.max(group.largest, one.largest);
		group.stacks.push(one.stack);
	}
	return [...joined.values()].sort((a, b) => b.bytes - a.bytes);
}

function stacksTable(moment, stacks, search) {
	const groups = stacksJoin(moment, stacks);
	const times = new Map();
	for (const group of groups) {
		group.name = stacks.path(group.stacks[0], 3).join(" ← ");
		times.set(group.name, (times.get(group.name) ?? 0) + 1);
	}
	/* Two that read the same differ further down: in the allocating call, if that is not the first. */
	for (const group of groups) {
		const inner = callsFold(stacks.of(group.stacks[0]), false)[0];
		if (times.get(group.name) > 1 && inner && !group.name.startsWith(callLine(inner)))
			group.name = `${callLine(inner)} ← ${group.name}`;
	}
	const table = tableMake(STACK_COLUMNS, groups.map((group) => ({
		cellsMake: () => [bytesText(group.bytes), shareMake(group.bytes, moment.bytes), countText(group.blocks),
			bytesText(group.largest), sitesMake(stacks, group)],
		text: group.stacks.map((number) => stackSearched(stacks, number)).join("\n"),
		values: [group.bytes, group.bytes, group.blocks, group.largest, group.name],
	})), search);
	if (groups.length < moment.by_stack.length)
		table.push(make("p", {class: "faint"},
			"Call stacks that differ only in frames of libraries and systems are one row."));
	return table;
}

/* Of a chosen time it is not known. */
function servedBy({driver}) {
	return driver === null ? "–" : driver ? "driver" : "pool";
}

function blocksTable(moment, stacks, search) {
	return tableMake(BLOCK_COLUMNS, moment.largest.map((block) => ({
		cellsMake: () => [bytesText(block.bytes), shareMake(block.bytes, moment.bytes),
			block.ns === null ? "before the log" : timeText(block.ns), block.address,
			moment.level === "tensor" ? "cache" : servedBy(block), siteMake(stacks, block.stack)],
		text: `${block.address} ${stackSearched(stacks, block.stack)}`,
		values: [block.bytes, block.bytes, block.ns ?? 0, parseInt(block.address, 16), servedBy(block),
			stacks.path(block.stack, 3).join(" ")],
	})), search);
}

/* The call stacks of a group {name, rest, stacks}, on demand. */
function sitesMake(stacks, group) {
	const one = (number) => make("li", {}, siteMake(stacks, number, false));
	if (group.stacks.length === 1)
		return siteMake(stacks, group.stacks[0], group.rest, group.name);
	return make("details", {}, make("summary", {}, group.name),
		make("ul", {}, ...group.stacks.slice(0, SITE_STACKS).map(one)));
}

/* All call sites of the run. */
function sitesTable(groups, stacks, search) {
	return tableMake(SITE_COLUMNS, groups.map((group) => ({
		cellsMake: () => [bytesText(group.peak), timeText(group.peak_ns), bytesText(group.bytes),
			countText(group.calls), countText(group.brief),
			group.live_blocks ? `${bytesText(group.live)} in ${countText(group.live_blocks)}` : "–",
			sitesMake(stacks, group)],
		text: [group.name, ...group.stacks.map((number) => stackSearched(stacks, number))].join("\n"),
		values: [group.peak, group.peak_ns, group.bytes, group.calls, group.brief, group.live, group.name],
	})), search);
}

/* Calls of malloc and free in kernels. */
function kernelsTable(device, search) {
	return tableMake(KERNEL_COLUMNS, (device?.sites ?? []).map((site) => ({
		cells: [bytesText(site.bytes), countText(site.blocks), bytesText(site.peak), countText(site.mallocs),
			countText(site.nulls), countText(site.freed_twice), countText(site.invalid_frees), site.place],
		text: site.place,
		values: [site.bytes, site.blocks, site.peak, site.mallocs, site.nulls, site.freed_twice,
			site.invalid_frees, site.place],
	})), search);
}

/* Growths of heaps of kernels, by the kernel they were for. */
function heapsTable(device, search) {
	return tableMake(HEAP_COLUMNS, (device?.heap_kernels ?? []).map(({kernel, bytes, growths}) => ({
		cells: [bytesText(bytes), countText(growths), kernel ?? "not known"],
		text: kernel ?? "",
		values: [bytes, growths, kernel ?? ""],
	})), search);
}

function callsTable(log, search) {
	return tableMake(CALL_COLUMNS, log.calls.map((call) => ({
		cells: [call.name, countText(call.calls), countText(call.failed), countText(call.driver),
			timeText(call.total), timeText(call.median), timeText(call.p99), timeText(call.longest)],
		text: call.name,
		values: [call.name, call.calls, call.failed, call.driver, call.total, call.median, call.p99, call.longest],
	})), search);
}

/* The counters of a device or of the process with values other than 0. */
function countersTable(values, search) {
	const about = new Map(report.counters.map((counter) => [counter.name, counter]));
	const shown = Object.entries(values).filter(([name]) => !name.endsWith("_time"));
	return tableMake(COUNTER_COLUMNS, shown.map(([name, value]) => ({
		cells: [name, counterText(value, about.get(name).unit), about.get(name).help],
		text: `${name} ${about.get(name).help}`,
		values: [name, value, about.get(name).help],
	})), search);
}

function knobsTable(log, search) {
	return tableMake([["knob", "wide"]], log.knobs.map((knob) => ({cells: [knob], text: knob})), search);
}

/* A part of the page: closed at first, open while the search has matches in it. */
function partMake(title, parts, open) {
	return make("details", {open}, make("summary", {}, title), make("div", {class: "scroll"}, ...parts));
}
