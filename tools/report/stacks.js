/* SPDX-License-Identifier: BSD-3-Clause */
/* Call stacks: the names of calls, the tree of a flame graph, the search. */

function fileEnd(path) {
	return path.split("/").slice(-2).join("/");
}

/* The text of a call: {name, place}; place: file and line, or object. */
function callText(call) {
	if (call.language === "forward")
		return {name: `${call.operator ?? "backward of an operator"}, whose forward call was`, place: ""};
	if (call.operator)
		return {name: call.operator, place: ""};
	const address = call.object ? `${call.object.split("/").pop()}+${call.offset}` : call.offset;
	const name = call.function ?? address ?? "?";
	let place = call.function && call.object ? fileEnd(call.object) : "";
	if (call.file)
		place = fileEnd(call.file) + (call.line ? `:${call.line}` : "");
	return {name, place: place + (call.inlined ? ", inlined" : "")};
}

function callLine(call) {
	const {name, place} = callText(call);
	return place ? `${name} (${place})` : name;
}

/* What a stack of folded calls alone is not known by. */
const FOLDS_BELOW = ["cuda", "gpumem", "cache", "start"];

/*
 * The calls on which a user can act, the innermost one first; the data say which calls are folded. An
 * operator is one call; the outermost function of CUDA remains if `api` and it has a name. Of a stack of
 * folded calls alone, those of the framework remain.
 */
function callsFold(calls, api) {
	const kept = calls.filter((call) => !call.fold)
		.filter((call, i, all) => !call.operator || all[i + 1]?.operator !== call.operator);
	if (kept.length === 0) {
		const framework = calls.filter((call) => !FOLDS_BELOW.includes(call.fold));
		return framework.length ? framework : calls;
	}
	const called = api ? calls.filter((call) => call.fold === "cuda").slice(-1) : [];
	return [...called.filter((call) => call.function), ...kept];
}

/* The calls of a stack; of a forward call the name is that of the node of autograd before it. */
function callsNamed(calls) {
	let backward;
	return calls.map((call) => {
		if (call.language === "forward")
			return {...call, operator: backward};
		if (call.operator?.startsWith("backward of "))
			backward = call.operator;
		return call;
	});
}

/* The stacks of a log: their calls, the innermost one first. */
class Stacks {
	constructor(log) {
		this.calls = new Map();
		this.about = new Map();
		for (const stack of log.stacks) {
			this.about.set(stack.stack, stack);
			this.calls.set(stack.stack, callsNamed(stack.frames.flatMap((frame) => log.frames[frame])));
		}
	}

	of(number) {
		return this.calls.get(number) ?? [];
	}

	/* The most informative call: the innermost of Python, with a source line, or with a name. */
	site(number) {
		const calls = callsFold(this.of(number), false);
		return calls.find((call) => call.language === "python")
			?? calls.find((call) => call.file && !call.file.startsWith("/usr/"))
			?? calls.find((call) => call.function && !/^_?_?(cu|std::|operator new)/.test(call.function))
			?? calls[0];
	}

	/* The site and its callers, at most `n` calls; of a forward call with what goes back. */
	path(number, n) {
		const calls = callsFold(this.of(number), false);
		const from = calls.indexOf(this.site(number));
		const lines = calls.slice(from, from + n).map(callLine);
		const forward = calls.slice(0, Math.max(from, 0)).filter((call) => call.language === "forward").pop();
		if (forward)
			lines[0] = `${forward.operator ?? "backward of an operator"} at ${lines[0]}`;
		return lines;
	}
}

function callSearched(call) {
	return `${call.function ?? ""} ${call.file ?? ""} ${call.object ?? ""} ${call.offset ?? ""}`;
}

/* A search for texts with all words; without words there is no search. */
class Search {
	constructor(text) {
		this.words = text.toLowerCase().split(/\s+/).filter((word) => word);
	}

	get active() {
		return this.words.length > 0;
	}

	matches(text) {
		const lower = text.toLowerCase();
		return this.active && this.words.every((word) => lower.includes(word));
	}
}

const SMALLER = "smaller stacks, not in this report";

/*
 * The tree of a flame graph: nodes {call, name, bytes, blocks, depth, parent, children}. The root
 * has all bytes. Children are sorted by bytes, most first. `inverted`: from the allocating call up to its
 * callers; `folded`: without the calls of systems and libraries.
 */
function treeMake(moment, stacks, {inverted, folded} = {inverted: false, folded: true}) {
	const path = (number) => {
		const calls = folded ? callsFold(stacks.of(number), !inverted) : stacks.of(number);
		return inverted ? calls : calls.slice().reverse();
	};
	const node = (parent, name, call) =>
		({call, name, bytes: 0, blocks: 0, depth: parent ? parent.depth + 1 : 0, parent, children: new Map()});
	const root = Object.assign(node(null, `all ${moment.level}s`, null), {level: moment.level});
	const add = (at, one) => {
		at.bytes += one.bytes;
		at.blocks += one.blocks;
	};
	const child = (parent, name, call) => {
		if (!parent.children.has(name))
			parent.children.set(name, node(parent, name, call));
		return parent.children.get(name);
	};
	let rest = {bytes: moment.bytes, blocks: moment.blocks};
	for (const group of moment.by_stack) {
		rest = {bytes: rest.bytes - group.bytes, blocks: rest.blocks - group.blocks};
		add(root, group);
		const calls = path(group.stack);
		let at = root;
		if (calls.length === 0)
			add(child(root, group.rest ? SMALLER : "no call stack", null), group);
		for (const call of calls) {
			at = child(at, call.language === "forward" ? call.operator ?? "backward" : callLine(call), call);
			add(at, group);
		}
	}
	if (rest.blocks > 0) {
		add(root, rest);
		add(child(root, SMALLER, null), rest);
	}
	const sort = (at) => {
		at.children = [...at.children.values()].sort((a, b) => b.bytes - a.bytes);
		at.children.forEach(sort);
	};
	sort(root);
	return root;
}
