/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the timeline draws. A picture has `entries` {name, title, color, area, dash} for the legend, and the
 * functions
 *
 *   reduce()      take the view of the timeline
 *   most()        the highest value in view of what is shown
 *   draw(context)
 *   valuesAt(ns)  rows [title, text] of the tooltip
 */

/*
 * `area`: filled down to zero, with the opacity of its highest and then of its lowest values; `dash`: pattern
 * of the line. Idle is the area between mapped and in use.
 */
const AREA = [0.45, 0.75];
const SERIES = [
	{name: "mapped", title: "mapped", color: "--mapped", dash: []},
	{name: "idle", title: "idle", color: "--idle", area: [0.2, 0.3]},
	{name: "in_use", title: "in use", color: "--in-use", area: AREA},
	{name: "tensors", title: "tensors of PyTorch", color: "--tensors", area: AREA},
	{name: "requested", title: "requested", color: "--requested", dash: [5, 3]},
	{name: "driver", title: "served by the driver", color: "--driver", dash: [8, 3, 2, 3]},
	{name: "lent", title: "heaps of kernels", color: "--lent", dash: [2, 3]},
];

/* The memory by its kind: requested, in use, mapped ... */
class KindPicture {
	constructor(timeline, data) {
		this.timeline = timeline;
		this.data = data;
		this.entries = SERIES.filter((series) => this.isKnown(series));
		/* Without a pool, show the driver's memory. */
		if (!this.entries.some((series) => series.name === "mapped"))
			this.entries = this.entries.map((series) => ({...series, area: series.name === "driver" ? AREA : null}));
	}

	isKnown(series) {
		if (series.name === "idle")
			return this.data.series.mapped.most.some((value) => value > 0);
		return this.data.series[series.name].most.some((value) => value > 0);
	}

	reduce() {
		const {begin, end, columns} = this.timeline;
		this.reduced = new Map(Object.keys(this.data.series)
			.map((name) => [name, seriesReduce(this.data, name, begin, end, columns)]));
	}

	most() {
		let most = 0;
		for (const {name} of this.entries)
			if (this.timeline.isShown(name))
				most = this.reduced.get(name === "idle" ? "mapped" : name).most.reduce((a, b) => Math.max(a, b), most);
		return most;
	}

	draw(context) {
		this.areasDraw(context);
		this.linesDraw(context);
	}

	/* Each column: full colour up to its lowest value, a lighter one from there to its highest. */
	areasDraw(context) {
		for (const series of this.entries.filter((one) => one.area && this.timeline.isShown(one.name))) {
			const {least, most} = this.reduced.get(series.name === "idle" ? "mapped" : series.name);
			const color = this.timeline.color(series.color);
			this.areaFill(context, most, this.timeline.color("--back"), 1);
			this.areaFill(context, most, color, series.area[0]);
			this.areaFill(context, least, color, series.area[1]);
		}
	}

	areaFill(context, values, color, alpha) {
		context.fillStyle = color;
		context.globalAlpha = alpha;
		context.beginPath();
		context.moveTo(MARGIN.left, this.timeline.yOf(0));
		values.forEach((value, i) => {
			context.lineTo(MARGIN.left + i, this.timeline.yOf(value));
			context.lineTo(MARGIN.left + i + 1, this.timeline.yOf(value));
		});
		context.lineTo(MARGIN.left + values.length, this.timeline.yOf(0));
		context.fill();
		context.globalAlpha = 1;
	}

	linesDraw(context) {
		for (const series of this.entries.filter((one) => !one.area && this.timeline.isShown(one.name))) {
			const {least, most} = this.reduced.get(series.name);
			context.strokeStyle = this.timeline.color(series.color);
			context.lineWidth = 1.75;
			context.setLineDash(series.dash);
			context.beginPath();
			/* Draw steps where single changes are distinguishable. */
			const calm = (i) => least[i] === most[i];
			most.forEach((value, i) => {
				context[i && calm(i - 1) && calm(i) ? "lineTo" : "moveTo"](MARGIN.left + i, this.timeline.yOf(value));
				context.lineTo(MARGIN.left + i + 1, this.timeline.yOf(value));
			});
			context.stroke();
			context.setLineDash([]);
			/* Draw bars in columns with changes, except for requested where in use has its own bars. */
			if (series.name === "requested" && this.timeline.isShown("in_use"))
				continue;
			context.globalAlpha = 0.2;
			context.lineWidth = 1;
			context.beginPath();
			least.forEach((value, i) => {
				if (value === most[i])
					return;
				context.moveTo(MARGIN.left + i + 0.5, this.timeline.yOf(value));
				context.lineTo(MARGIN.left + i + 0.5, this.timeline.yOf(most[i]));
			});
			context.stroke();
			context.globalAlpha = 1;
		}
	}

	valuesAt(ns) {
		const text = ({least, most}) =>
			(least === most ? bytesText(most) : `${bytesText(least)} to ${bytesText(most)}`);
		const at = (name) => valueAt(this.data, name, ns);
		return this.entries.map((series) => {
			if (series.name !== "idle")
				return [series.title, text(at(series.name))];
			const mapped = at("mapped");
			const used = at("in_use");
			const least = Math.max(0, mapped.least - used.most);
			return ["idle", text({least, most: Math.max(least, mapped.most - used.least)})];
		});
	}
}

/* The memory by the call site that allocated it: the largest ones one above the other, then the rest. */
class SitePicture {
	constructor(timeline, lives, groups) {
		this.timeline = timeline;
		this.lives = lives;
		const rest = groups.length > SITES_SHOWN ? [{name: "other call sites"}] : [];
		this.entries = [...groups.slice(0, SITES_SHOWN), ...rest].map(({name}, i) =>
			({name: `site ${i}`, title: name, color: siteColor(i), area: [1]}));
		this.groupOf = new Uint32Array(lives.sites.length);
		groups.forEach((group, i) => group.sites.forEach((site) => {
			this.groupOf[site] = Math.min(i, SITES_SHOWN);
		}));
	}

	reduce() {
		const {begin, end, columns} = this.timeline;
		let below = new Float64Array(columns);
		const all = this.lives.columns(this.groupOf, this.entries.length, begin, end, columns);
		this.layers = all.map((values, i) => {
			if (!this.timeline.isShown(this.entries[i].name))
				return null;
			const layer = {from: below, to: below.map((value, column) => value + values[column])};
			below = layer.to;
			return layer;
		});
		this.top = below;
	}

	most() {
		return this.top.reduce((a, b) => Math.max(a, b), 0);
	}

	draw(context) {
		const {timeline} = this;
		this.layers.forEach((layer, i) => {
			if (!layer)
				return;
			context.fillStyle = timeline.color(this.entries[i].color);
			context.beginPath();
			layer.to.forEach((value, column) => {
				context[column ? "lineTo" : "moveTo"](MARGIN.left + column, timeline.yOf(value));
				context.lineTo(MARGIN.left + column + 1, timeline.yOf(value));
			});
			for (let column = layer.from.length - 1; column >= 0; column--) {
				context.lineTo(MARGIN.left + column + 1, timeline.yOf(layer.from[column]));
				context.lineTo(MARGIN.left + column, timeline.yOf(layer.from[column]));
			}
			context.fill();
		});
	}

	valuesAt(ns) {
		const tick = this.lives.tickAt(ns);
		return this.lives.columns(this.groupOf, this.entries.length, tick, tick + 1, 1)
			.map(([bytes], i) => [this.entries[i].title, bytesText(bytes)]).reverse();
	}
}
