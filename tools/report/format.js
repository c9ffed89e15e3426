/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as gpumemstat writes them, and small helpers for the document. */

/* Three digits: 1.50, 15.0, 150. */
function scaled(value, unit) {
	const digits = unit === "B" || unit === "ns" || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
	return `${value.toFixed(digits)} ${unit}`;
}

/* In the unit of --units, with a digit behind the point; else in that with three digits. */
function bytesText(bytes) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
	const chosen = units.findIndex((unit) => unit[0] === report.unit);
	let i = 0;
	if (chosen >= 0)
		return `${(bytes / 1024 ** chosen).toLocaleString("en", chosen ? {minimumFractionDigits: 1,
			maximumFractionDigits: 1} : {})} ${units[chosen]}`;
	while (i < 6 && bytes >= 1000 * 1024 ** i)
		i++;
	return scaled(bytes / 1024 ** i, units[i]);
}

function timeText(ns) {
	const seconds = Math.floor(ns / 1e9);
	const two = (n) => String(n).padStart(2, "0");
	if (ns < 1e3)
		return scaled(ns, "ns");
	if (ns < 1e6)
		return scaled(ns / 1e3, "µs");
	if (ns < 1e9)
		return scaled(ns / 1e6, "ms");
	if (seconds < 120)
		return scaled(ns / 1e9, "s");
	if (seconds < 7200)
		return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
	return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} m`;
}

/* A time on an axis with marks `step` apart: enough digits to distinguish them. */
function timeMark(ns, step) {
	const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
	const [unit, name] = units.find(([least]) => Math.max(ns, step) >= least) ?? units[3];
	if (step >= 60e9)
		return timeText(ns);
	const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
	return ns === 0 ? "0" : `${(ns / unit).toFixed(Math.min(digits, 9))} ${name}`;
}

/* The local date and time, as gpumemstat writes them. */
function dateText(date) {
	const two = (n) => String(n).padStart(2, "0");
	return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `
		+ `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function countText(n) {
	return n.toLocaleString("en-US");
}

function shareText(part, whole) {
	if (part > 0 && part < whole / 20000)
		return "<0.01%";
	return whole > 0 ? `${(100 * part / whole).toFixed(part < whole / 100 ? 2 : 1)}%` : "–";
}

function pluralText(n, word) {
	return `${countText(n)} ${word}${n === 1 ? "" : "s"}`;
}

/* A value of a counter, in its unit. */
function counterText(value, unit) {
	if (unit === "bytes")
		return bytesText(value);
	if (unit === "ns")
		return timeText(value);
	if (unit === "ppm")
		return (value / 1e6).toFixed(3);
	return countText(value) + (unit === "count" ? "" : ` ${unit}`);
}

/*
 * An element with attributes and children. Text from the log becomes only text nodes and attributes,
 * never markup.
 */
function make(name, attributes = {}, ...children) {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) {
		if (value === true)
			element.setAttribute(key, "");
		else if (value !== false && value !== undefined)
			element.setAttribute(key, value);
	}
	element.append(...children);
	return element;
}

function byId(id) {
	return document.getElementById(id);
}
