/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was alive at any time, by call stack. tools/log/lives.h has the terms, tools/report/lives.c the
 * format.
 */

/* Reads the numbers of a packed list. */
class Packed {
	constructor({packed}) {
		this.text = atob(packed);
		this.at = 0;
	}

	number() {
		for (let value = 0, unit = 1; ; unit *= 128) {
			const byte = this.text.charCodeAt(this.at++);
			value += (byte & 127) * unit;
			if (!(byte & 128))
				return value;
		}
	}

	difference() {
		const value = this.number();
		return value % 2 ? -(value + 1) / 2 : value / 2;
	}
}

/* The lives of a device. Its times are ns; lives that do not end have the death Infinity. */
class Lives {
	constructor(device, level) {
		const packed = new Packed(device.lives);
		const n = device.lives.points;
		const column = () => new Float64Array(n);
		this.sites = device.call_sites;
		this.level = level;
		this.tick = device.lives.tick;
		this.passed = device.lives.passed;
		this.n = n;
		this.birth = column();
		this.death = column();
		this.site = new Uint32Array(n);
		this.bytes = column();
		this.blocks = column();
		this.largest = column();
		let before = 0;
		for (let i = 0; i < n; i++) {
			before += packed.number();
			const length = packed.number();
			this.birth[i] = before * this.tick;
			this.death[i] = length ? (before + length) * this.tick : Infinity;
			this.site[i] = packed.number();
			this.bytes[i] = packed.number();
			this.blocks[i] = packed.number();
			this.largest[i] = this.blocks[i] > 1 ? packed.number() : this.bytes[i];
		}
	}

	/* The tick at `ns` or before: what is known then. */
	tickAt(ns) {
		return Math.floor(ns / this.tick) * this.tick;
	}

	/* The lives for which `is` is true, added up by their stacks as a moment of the page. */
	moment(is, facts) {
		const groups = new Map();
		for (let i = 0; i < this.n; i++) {
			if (!is(this.birth[i], this.death[i]))
				continue;
			const site = this.site[i];
			if (!groups.has(site))
				groups.set(site, {bytes: 0, blocks: 0, largest: 0, stack: this.sites[site].stack,
					rest: this.sites[site].rest});
			const group = groups.get(site);
			group.bytes += this.bytes[i];
			group.blocks += this.blocks[i];
			group.largest = Math.max(group.largest, this.largest[i]);
		}
		const all = [...groups.values()].sort((a, b) => b.bytes - a.bytes);
		const sum = (name) => all.reduce((total, group) => total + group[name], 0);
		return {bytes: sum("bytes"), blocks: sum("blocks"), stacks: all.length, by_stack: all, level: this.level,
			...facts};
	}

	/* What was alive at a time. */
	at(ns) {
		const tick = this.tickAt(ns);
		return this.moment((birth, death) => birth <= tick && tick < death, {at: "time", ns: tick});
	}

	/* What was allocated after `from`, until `to`, and was alive then. */
	within(from, to) {
		const first = this.tickAt(from);
		const last = this.tickAt(to);
		return this.moment((birth, death) => birth > first && birth <= last && last < death,
			{at: "view", ns: last, from: first});
	}

	/*
	 * The bytes alive of each group at the begin of each of `columns` equal parts of [begin, end]:
	 * `groupOf` has the number of a site's group, from 0 to n - 1.
	 */
	columns(groupOf, n, begin, end, columns) {
		const sums = Array.from({length: n}, () => new Float64Array(columns + 1));
		const width = (end - begin) / columns;
		const column = (ns) => Math.min(columns, Math.max(0, Math.ceil((ns - begin) / width)));
		for (let i = 0; i < this.n; i++) {
			const from = column(this.birth[i]);
			const to = column(this.death[i]);
			if (from === to)
				continue;
			const sum = sums[groupOf[this.site[i]]];
			sum[from] += this.bytes[i];
			sum[to] -= this.bytes[i];
		}
		for (const sum of sums)
			for (let i = 1; i < columns; i++)
				sum[i] += sum[i - 1];
		return sums;
	}

	/* The highest sum of the lives of a group of sites, and when: {bytes, ns}. */
	peakOf(sites) {
		const changes = [];
		for (let i = 0; i < this.n; i++) {
			if (!sites.has(this.site[i]))
				continue;
			changes.push([this.birth[i], this.bytes[i]]);
			if (this.death[i] < Infinity)
				changes.push([this.death[i], -this.bytes[i]]);
		}
		changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]); /* what goes goes first */
		let now = 0;
		let peak = {bytes: 0, ns: 0};
		for (const [ns, bytes] of changes) {
			now += bytes;
			if (now > peak.bytes)
				peak = {bytes: now, ns};
		}
		return peak;
	}
}

const SITES_SHOWN = 10; /* with a colour of their own */

/* The name of the colour of a group of sites, by its number in the list of sitesGroup. */
function siteColor(i) {
	return i < SITES_SHOWN ? `--site-${i}` : "--site-rest";
}

/*
 * The sites of a device by their text, those with the highest peak first: {name, stacks, sites, calls,
 * bytes, brief, live, live_blocks, peak, peak_ns}.
 */
function sitesGroup(lives, stacks) {
	const groups = new Map();
	lives.sites.forEach((site, i) => {
		const call = stacks.site(site.stack);
		const name = site.rest ? "smaller call stacks" : call ? callLine(call) : "without a call stack";
		if (!groups.has(name))
			groups.set(name, {name, rest: site.rest, stacks: [], sites: new Set(), calls: 0, bytes: 0,
				brief: 0, live: 0, live_blocks: 0});
		const group = groups.get(name);
		group.sites.add(i);
		group.stacks.push(site.stack);
		for (const key of ["calls", "bytes", "brief", "live", "live_blocks"])
			group[key] += site[key];
		group.peak = site.peak;
		group.peak_ns = site.peak_ns;
	});
	for (const group of groups.values())
		if (group.sites.size > 1) {
			const peak = lives.peakOf(group.sites);
			group.peak = Math.max(peak.bytes, ...[...group.sites].map((i) => lives.sites[i].peak));
			group.peak_ns = peak.ns;
		}
	return [...groups.values()].sort((a, b) => b.peak - a.peak);
}
