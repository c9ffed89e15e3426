/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of the page, and the decoder of timelines: tools/log/timeline.h has the format. */

const report = JSON.parse(byId("data").textContent);

/*
 * Returns {n, from, to, events, series: {NAME: {least, most, end}}}: arrays with one element for
 * each point, times in ns, series in bytes.
 */
function timelineUnpack(timeline) {
	const packed = new Packed(timeline);
	const n = timeline.points;
	const column = () => new Float64Array(n);
	const out = {n, from: column(), to: column(), events: column(), series: {}};
	for (const name of timeline.series)
		out.series[name] = {least: column(), most: column(), end: column()};
	for (let i = 0; i < n; i++) {
		out.from[i] = (i ? out.to[i - 1] : 0) + packed.number();
		out.to[i] = out.from[i] + packed.number();
		out.events[i] = packed.number();
		for (const series of Object.values(out.series)) {
			series.end[i] = (i ? series.end[i - 1] : 0) + packed.difference();
			series.least[i] = series.end[i] - packed.number();
			series.most[i] = series.end[i] + packed.number();
		}
	}
	return out;
}

/* The first point with its end at `time` or later; timeline.n: none. */
function pointFind(timeline, time) {
	let low = 0;
	let high = timeline.n;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (timeline.to[middle] < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Bounds of a series at a time. Between two points a series has the value at the end of the first. */
function valueAt(timeline, name, time) {
	const series = timeline.series[name];
	const i = pointFind(timeline, time);
	if (i < timeline.n && timeline.from[i] <= time && timeline.events[i] === 0)
		return {least: series.end[i], most: series.most[i]}; /* a peak between samples */
	if (i < timeline.n && timeline.from[i] <= time)
		return timeline.from[i] === timeline.to[i]
			? {least: series.end[i], most: series.end[i]}
			: {least: series.least[i], most: series.most[i]};
	const value = i > 0 ? series.end[i - 1] : 0;
	return {least: value, most: value};
}

/*
 * Lowest and highest value of a series in each of `n` equal parts of the time from `begin` to `end`,
 * each with the value at its beginning.
 */
function seriesReduce(timeline, name, begin, end, n) {
	const series = timeline.series[name];
	const least = new Float64Array(n);
	const most = new Float64Array(n);
	let i = pointFind(timeline, begin);
	let value = i > 0 ? series.end[i - 1] : 0;
	for (let part = 0; part < n; part++) {
		const until = begin + (end - begin) * (part + 1) / n;
		least[part] = most[part] = value;
		while (i < timeline.n && timeline.from[i] < until) {
			least[part] = Math.min(least[part], series.least[i]);
			most[part] = Math.max(most[part], series.most[i]);
			if (timeline.to[i] >= until)
				break; /* the point reaches into the next part */
			value = series.end[i++];
		}
	}
	return {least, most};
}
