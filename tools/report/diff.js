/* SPDX-License-Identifier: BSD-3-Clause */
/* Two runs of a page, site by site, with the rules of tools/stack/sites.h. */

/* The sites of a moment by name: {name, call, bytes, blocks}. */
function sitesAt(moment, stacks) {
	const sites = new Map();
	for (const group of moment?.by_stack ?? []) {
		const call = stacks.site(group.stack);
		const name = group.rest ? SMALLER : call ? callLine(call) : "without a call stack";
		if (!sites.has(name))
			sites.set(name, {name, call, bytes: 0, blocks: 0});
		const site = sites.get(name);
		site.bytes += group.bytes;
		site.blocks += group.blocks;
	}
	return [...sites.values()];
}

function stemOf(call) {
	return `${callText(call).name} ${call.file.split("/").pop()}`;
}

/* What a site is known by: its name; without the folder of its file; without the line, too. */
const SITE_KEYS = [
	({name}) => name,
	({name, call}) => (call?.file ? `${stemOf(call)}:${call.line ?? ""}` : name),
	({name, call}) => (call?.file ? stemOf(call) : name),
];

/* [{name, old, now}], the largest difference of bytes first; a site that one run lacks is null there. */
function sitesMatch(old, now) {
	const rows = [];
	const byKey = (sites, key) => {
		const found = new Map();
		for (const site of sites)
			found.set(key(site), [...found.get(key(site)) ?? [], site]);
		return found;
	};
	let rest = old;
	let others = now;
	for (const key of SITE_KEYS) {
		const left = byKey(rest, key);
		const right = byKey(others, key);
		for (const [name, [site, ...more]] of left) {
			const same = right.get(name) ?? [];
			if (more.length === 0 && same.length === 1)
				rows.push({name: same[0].name, old: site, now: same[0]});
		}
		const matched = new Set(rows.flatMap((row) => [row.old, row.now]));
		rest = rest.filter((site) => !matched.has(site));
		others = others.filter((site) => !matched.has(site));
	}
	rows.push(...rest.map((site) => ({name: site.name, old: site, now: null})),
		...others.map((site) => ({name: site.name, old: null, now: site})));
	const by = (row) => Math.abs((row.now?.bytes ?? 0) - (row.old?.bytes ?? 0));
	return rows.sort((a, b) => by(b) - by(a));
}

function differenceText(bytes) {
	return bytes === 0 ? "0 B" : `${bytes > 0 ? "+" : "−"}${bytesText(Math.abs(bytes))}`;
}

const DIFF_COLUMNS = [["old", "number"], ["new", "number"], ["difference", "number"], ["blocks", "number"],
	["call site", "wide"]];

function sideText(title, {log, moment}) {
	const held = moment ? `${bytesText(moment.bytes)} ${momentText(moment)}` : "nothing";
	return `${title}: ${log.path.split("/").pop()}, ${held}`;
}

/* The table of the differences of two sides {log, moment, stacks}, with their sum. */
function diffTable(before, after, search) {
	const old = before.moment;
	const now = after.moment;
	const rows = sitesMatch(sitesAt(old, before.stacks), sitesAt(now, after.stacks));
	const only = (row) => (row.old === null ? "only new: " : row.now === null ? "only old: " : "");
	const row = (name, from, to, label) => {
		const blocks = (to?.blocks ?? 0) - (from?.blocks ?? 0);
		const bytes = (to?.bytes ?? 0) - (from?.bytes ?? 0);
		return {
			cells: [bytesText(from?.bytes ?? 0), bytesText(to?.bytes ?? 0), differenceText(bytes),
				blocks > 0 ? `+${countText(blocks)}` : countText(blocks).replace("-", "−"), label + name],
			text: label + name,
			values: [from?.bytes ?? 0, to?.bytes ?? 0, bytes, blocks, name],
		};
	};
	const sum = `${sideText("Old", before)}; ${sideText("new", after)}: `
		+ `${differenceText((now?.bytes ?? 0) - (old?.bytes ?? 0))}.`;
	return [make("p", {}, sum),
		...tableMake(DIFF_COLUMNS, rows.map((one) => row(one.name, one.old, one.now, only(one))), search)];
}
