// SPDX-License-Identifier: BSD-3-Clause
// Functions of the page of `gpumemstat report`, without a browser: node report_functions.js PAGE. The page's
// document is a stub, in which anything can be called and read.
const assert = require("assert");
const fs = require("fs");
const vm = require("vm");

const text = fs.readFileSync(process.argv[2], "utf8");
const data = text.match(/<script type="application\/json" id="data">([^]*?)<\/script>/)[1];
const script = text.match(/<script>([^]*?)<\/script>/)[1];

const anything = new Proxy(function () {}, {
	get: (_, name) => name === Symbol.toPrimitive ? () => 1 : name === Symbol.iterator ? [][Symbol.iterator] : anything,
	apply: () => anything,
	construct: () => anything,
	set: () => true,
});
const document = new Proxy({}, {
	get: (_, name) => name === "getElementById" ? (id) => id === "data" ? {textContent: data} : anything : anything,
});
const context = vm.createContext({document, ResizeObserver: anything, matchMedia: anything, requestAnimationFrame: anything,
	getComputedStyle: anything, setTimeout: anything,
	clearTimeout: anything, atob, Date, process, URLSearchParams, location: {hash: ""}, window: anything, devicePixelRatio: 1});
vm.runInContext(script, context);
const run = (expression) => JSON.parse(vm.runInContext(`JSON.stringify(${expression})`, context));

// Refusals near each other are one mark with their number.
assert.deepStrictEqual(run("marksGroup([1, 2, 50, 100, 101, 300], 100, 1000)"),
	[{from: 1, to: 100, n: 4}, {from: 101, to: 101, n: 1}, {from: 300, to: 300, n: 1}]);
assert.deepStrictEqual(run("marksGroup([], 100, 1000)"), []);
// The label of 990 is moved to 900.
assert.deepStrictEqual(run("marksGroup([700, 850, 990], 100, 1000)"),
	[{from: 700, to: 700, n: 1}, {from: 850, to: 990, n: 2}]);

// Bytes are in the unit of --units, as in text.
const sizes = (unit) => run(`[0, 1500, 3 * 2 ** 20, 2 ** 40].map((n) => { report.unit = ${JSON.stringify(unit)}; return bytesText(n); })`);
assert.deepStrictEqual(sizes("K"), ["0.0 KiB", "1.5 KiB", "3,072.0 KiB", "1,073,741,824.0 KiB"]);
assert.deepStrictEqual(sizes("B"), ["0 B", "1,500 B", "3,145,728 B", "1,099,511,627,776 B"]);
assert.deepStrictEqual(sizes(null), ["0 B", "1.46 KiB", "3.00 MiB", "1.00 TiB"]);

// A peak between samples, which has no event, has its own value at its time; several events at a time the last one's.
const values = (events, ns) => run(`valueAt({n: 2, from: [1, 5], to: [1, 5], events: [1, ${events}], series: {a: {least: [3, 0],
	most: [3, 9], end: [3, 4]}}}, "a", ${ns})`);
assert.deepStrictEqual([values(0, 5), values(2, 5), values(0, 4), values(0, 6)],
	[{least: 4, most: 9}, {least: 4, most: 4}, {least: 3, most: 3}, {least: 4, most: 4}]);

// The date is gpumemstat's: TZ is UTC.
assert.strictEqual(run("dateText(new Date(report.logs[0].start_ms))"), "2026-11-21 12:00:00");

// A stack without folded calls.
const call = (name, kind) => ({function: name, object: "/home/me/app", fold: kind});
const fold = (calls, api) => run(`callsFold(${JSON.stringify(calls)}, ${api})`).map((one) => one.operator ?? one.function);
const whole = [call("device_alloc", "cuda"), call("cudaMalloc", "cuda"), call("keep"), call("main"), call("_start", "start")];
assert.deepStrictEqual(fold(whole, false), ["keep", "main"]);
assert.deepStrictEqual(fold(whole, true), ["cudaMalloc", "keep", "main"]);
assert.deepStrictEqual(fold([call("cudaMalloc", "cuda"), call("_start", "start")], false), ["cudaMalloc", "_start"]);
assert.deepStrictEqual(fold([], true), []);
// Of CUDA's function without a name, the address says nothing.
assert.deepStrictEqual(fold([{object: "libcudart.so", offset: "0x10", fold: "cuda"}, call("keep")], true), ["keep"]);
// A stack inside a framework is known by the framework's calls.
assert.deepStrictEqual(fold([call("cudaMalloc", "cuda"), call("c10::alloc", "cache"), call("at::mm", "operator"),
	call("engine", "autograd"), call("clone", "start")], false), ["at::mm", "engine"]);

// An operator is one call, and a forward call has the name of the node of autograd before it.
const operator = (name) => ({language: "c", function: "f", operator: name});
const python = {language: "python", function: "train", file: "/home/me/model.py", line: 12};
const back = [operator("aten::mm"), call("wrapper", "dispatch"), operator("aten::mm"), operator("backward of mm"),
	call("engine", "autograd"), {language: "forward"}, operator("aten::mm"), python];
assert.deepStrictEqual(fold(back, false), ["aten::mm", "backward of mm", undefined, "aten::mm", "train"]);
const stacks = (calls) => `new Stacks({frames: [${JSON.stringify(calls)}], stacks: [{stack: 1, frames: [0]}]})`;
assert.deepStrictEqual(run(`${stacks(back)}.of(1).map(callLine)[5]`), "backward of mm, whose forward call was");
assert.deepStrictEqual(run(`${stacks(back)}.path(1, 3)`), ["backward of mm at train (me/model.py:12)"]);
assert.deepStrictEqual(run(`${stacks([operator("aten::mm"), python])}.path(1, 3)`), ["train (me/model.py:12)"]);

// Stacks that differ in folded calls alone are one row, those without a stack another.
const folded = `new Stacks({frames: [${["mm", "add"].map((name) => JSON.stringify([operator("aten::empty"),
	call(name, "dispatch"), python]))}], stacks: [{stack: 1, frames: [0]}, {stack: 2, frames: [1]}]})`;
assert.deepStrictEqual(run(`stacksJoin({by_stack: [{stack: 1, bytes: 5, blocks: 1, largest: 5}, {stack: null, bytes: 9, blocks: 2,
	largest: 8}, {stack: 2, bytes: 7, blocks: 3, largest: 6}]}, ${folded}).map(({bytes, blocks, largest, stacks}) =>
	[bytes, blocks, largest, stacks])`), [[12, 4, 6, [1, 2]], [9, 2, 8, [null]]]);

// What GPUMEM_LEND did, with it or without.
const lending = (knob, counters) => run(`lendingNotes({knobs: ["${knob}"]}, (name) => (${JSON.stringify(counters)})[name] ?? 0)`);
assert.deepStrictEqual(lending("GPUMEM_LEND=0 (default)", {}), []);
assert.deepStrictEqual(lending("GPUMEM_LEND=1 (environment)", {}),
	["0 B taken", "0 chunks mapped again in 0 ns", "0 B vacant at the end"]);
assert.deepStrictEqual(lending("GPUMEM_LEND=0 (default)", {lend_bytes: 4194304, lend_returned: 1, lend_ns: 90000,
	lend_vacant: 2097152, lend_host_peak: 1048576, lend_refused: 2, lend_off: 1}),
["4.00 MiB taken", "1 chunk mapped again in 90.0 µs", "2.00 MiB vacant at the end", "1.00 MiB in memory of the host at most",
	"2 tensors without memory", "ended"]);

// No remedy on the page is a command of a terminal about the same log.
const findings = run("report.logs[0].findings");
for (const rule of ["oom_in_use", "torch_tensors", "oom_fragmented", "oom_limit_pieces", "in_pieces", "not_ordered", "heap_leaks",
	"heap_null_place", "heap_freed_twice", "heap_invalid_free", "oom_unsized", "kernels_native"])
	assert.doesNotMatch(run(`findingText({rule: "${rule}", text: "Text.", remedy: "'gpumemstat x'"})`), /gpumemstat/);
assert.ok(findings.length > 0);
for (const finding of findings)
	assert.doesNotMatch(run(`findingText(${JSON.stringify(finding)})`), /gpumemstat (-|frag|live)/);

// An area's swatch has the opacities of the drawing.
assert.deepStrictEqual(run("SERIES.filter((one) => one.area).map((one) => one.area)"), [[0.2, 0.3], [0.45, 0.75], [0.45, 0.75]]);
// Colours of the style as pixels, red in the lowest byte.
assert.strictEqual(run('pixelOf("#0072b2")'), 0xffb27200);
assert.strictEqual(run('pixelOf("#15a")'), 0xffaa5511);

// Ranges of addresses without the gaps.
assert.deepStrictEqual(run("rangesJoin([{n: 2, address: [100, 10], size: [50, 10]}, {n: 1, address: [120], size: [100]}])"),
	{ranges: [{from: 10, to: 20, at: 0}, {from: 100, to: 220, at: 10}], bytes: 130});

// What was allocated in a view and alive at its end; the bytes of columns begin with those at the begin.
vm.runInContext(`lives = Object.assign(Object.create(Lives.prototype), {tick: 10, n: 3, level: "block",
	birth: [0, 20, 30], death: [40, Infinity, 50], site: [0, 1, 0], bytes: [5, 7, 11], blocks: [1, 2, 1], largest: [5, 4, 11],
	sites: [{stack: 3, rest: false}, {stack: null, rest: true}]})`, context);
const moment = (call) => run(`(({bytes, blocks, ns, by_stack}) => [bytes, blocks, ns, by_stack.map(({bytes, stack}) => [bytes, stack])])(lives.${call})`);
assert.deepStrictEqual(moment("at(39)"), [23, 4, 30, [[16, 3], [7, null]]]);
assert.deepStrictEqual(moment("at(40)"), [18, 3, 40, [[11, 3], [7, null]]]);
assert.deepStrictEqual(moment("within(0, 45)"), [18, 3, 40, [[11, 3], [7, null]]]);
assert.deepStrictEqual(moment("within(20, 50)"), [0, 0, 50, []]);
assert.deepStrictEqual(run("lives.columns([0, 1], 2, 10, 50, 4).map((sums) => [...sums].slice(0, 4))"), [[5, 5, 16, 11], [0, 7, 7, 7]]);
assert.deepStrictEqual(run("lives.peakOf(new Set([0]))"), {bytes: 16, ns: 30});
assert.deepStrictEqual(run("lives.peakOf(new Set([0, 1]))"), {bytes: 23, ns: 30});

// A table that can be sorted.
vm.runInContext(`columns = [["a", ""], ["b", ""]]; table = [{values: [1, "x"]}, {values: [3, "z"]}, {values: [2, "y"]}]`, context);
const order = (column, sign) => run(`(sortings.set(columns, {column: ${column}, sign: ${sign}}), rowsSort(columns, table).map((row) => row.values[0]))`);
assert.deepStrictEqual([order(0, -1), order(0, 1), order(1, 1)], [[3, 2, 1], [1, 2, 3], [1, 2, 3]]);

// From the allocating call up, and with all frames.
const tree = (options) => run(`(function names(at) {
	return at.children.length ? [at.name, ...names(at.children[0])] : [at.name];
})(treeMake({level: "block", bytes: 1, blocks: 1, by_stack: [{bytes: 1, blocks: 1, stack: 1}]}, ${stacks(whole)}, ${options}))`);
assert.deepStrictEqual(tree("{inverted: false, folded: true}"), ["all blocks", "main (me/app)", "keep (me/app)", "cudaMalloc (me/app)"]);
assert.deepStrictEqual(tree("{inverted: true, folded: true}"), ["all blocks", "keep (me/app)", "main (me/app)"]);
assert.deepStrictEqual(tree("{inverted: true, folded: false}"), ["all blocks", "device_alloc (me/app)", "cudaMalloc (me/app)", "keep (me/app)",
	"main (me/app)", "_start (me/app)"]);
// Sites of two runs match by name, by file without its folder, and where only the line moved.
const site = (name, file, line, bytes) => ({call: {language: "c", function: name, file, line}, bytes});
vm.runInContext(`sitesOf = (list) => list.map(({call, bytes}) => ({name: callLine(call), call, bytes, blocks: 1}))`, context);
const match = (old, now) => run(`sitesMatch(sitesOf(${JSON.stringify(old)}), sitesOf(${JSON.stringify(now)})).map(({name, old, now}) =>
	[name, old && old.bytes, now && now.bytes])`);
assert.deepStrictEqual(match([site("a", "/x/p/f.c", 3, 5), site("b", "/x/p/f.c", 9, 7)], [site("a", "/x/q/f.c", 3, 6), site("b", "/x/p/f.c", 11, 17)]),
	[["b (p/f.c:11)", 7, 17], ["a (q/f.c:3)", 5, 6]]);
assert.deepStrictEqual(match([site("a", "/x/f.c", 3, 5), site("a", "/x/f.c", 4, 5)], [site("a", "/x/f.c", 5, 9), site("a", "/x/f.c", 3, 5)]),
	[["a (x/f.c:5)", 5, 9], ["a (x/f.c:3)", 5, 5]]);
assert.deepStrictEqual(match([site("a", "/x/f.c", 3, 5), site("a", "/x/f.c", 4, 5)], [site("a", "/x/f.c", 5, 9)]),
	[["a (x/f.c:5)", null, 9], ["a (x/f.c:3)", 5, null], ["a (x/f.c:4)", 5, null]]);
console.log("fine");
