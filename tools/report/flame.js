/* SPDX-License-Identifier: BSD-3-Clause */
/* The flame graph: a button for each call of visible width, callers above. */

const FLAME_ROW = 21; /* pixels */
const FLAME_LEAST = 3; /* pixels; narrower calls are not drawn */

class Flame {
	constructor(container, output) {
		this.container = container;
		this.output = output;
		this.search = new Search("");
		this.root = null;
		container.addEventListener("keydown", (event) => this.keyPress(event));
		container.addEventListener("pointerleave", () => this.tell(this.zoomed));
		new ResizeObserver(() => container.clientWidth !== this.width && this.draw()).observe(container);
		byId("flame-all").addEventListener("click", () => this.zoom(this.root));
	}

	show(root) {
		this.root = this.zoomed = this.current = root;
		this.draw();
	}

	searchFor(search) {
		this.search = search;
		this.draw();
	}

	/* Show a call and its callees over the whole width. */
	zoom(node) {
		this.zoomed = this.current = node;
		this.draw();
		this.buttons.get(node)?.focus();
	}

	/* Bytes of the matching calls; a match below a match is not counted again. */
	bytesFound(node = this.root) {
		if (node.call && this.search.matches(callSearched(node.call)))
			return node.bytes;
		return node.children.reduce((sum, child) => sum + this.bytesFound(child), 0);
	}

	/* --- drawing --- */

	draw() {
		if (!this.root)
			return;
		const focused = this.container.contains(document.activeElement);
		this.width = this.container.clientWidth;
		this.buttons = new Map();
		this.depth = 0;
		const above = [];
		for (let node = this.zoomed.parent; node; node = node.parent)
			above.unshift(node);
		above.forEach((node) => this.place(node, 0, this.width, true));
		this.placeAll(this.zoomed, 0, this.width);
		this.container.replaceChildren(...this.buttons.values());
		this.container.style.height = `${(this.depth + 1) * FLAME_ROW}px`;
		byId("flame-all").hidden = this.zoomed === this.root;
		if (!this.buttons.has(this.current))
			this.current = this.zoomed;
		this.buttons.get(this.current).tabIndex = 0;
		if (focused)
			this.buttons.get(this.current).focus();
		this.tell(this.current);
	}

	placeAll(node, left, width) {
		this.place(node, left, width, false);
		let at = left;
		for (const child of node.children) {
			const own = child.bytes / node.bytes * width;
			if (own < FLAME_LEAST)
				break; /* the remaining children are not wider */
			this.placeAll(child, at, own);
			at += own;
		}
	}

	place(node, left, width, above) {
		const kind = !node.call ? "" : node.call.function ? node.call.language : "";
		const found = node.call && this.search.matches(callSearched(node.call));
		const button = make("button", {
			type: "button",
			class: [kind, above && "above", found && "match"].filter((name) => name).join(" "),
			tabindex: -1,
			"aria-label": this.textOf(node),
		}, width > 24 ? node.name : "");
		button.style.cssText = `left: ${left}px; width: ${width}px; top: ${node.depth * FLAME_ROW}px`;
		button.addEventListener("click", () => this.zoom(node));
		button.addEventListener("pointerenter", () => this.tell(node));
		button.addEventListener("focus", () => {
			this.buttons.get(this.current).tabIndex = -1;
			button.tabIndex = 0;
			this.current = node;
			this.tell(node);
		});
		this.buttons.set(node, button);
		this.depth = Math.max(this.depth, node.depth);
	}

	textOf(node) {
		const share = node === this.root ? "" : ` (${shareText(node.bytes, this.root.bytes)})`;
		return `${node.name}: ${bytesText(node.bytes)}${share} in ${pluralText(node.blocks, this.root.level)}`;
	}

	tell(node) {
		if (node)
			this.output.textContent = this.textOf(node);
	}

	/* --- keys --- */

	keyPress(event) {
		const node = this.current;
		const beside = (by) => {
			const all = node.parent ? node.parent.children : [];
			return all[all.indexOf(node) + by];
		};
		const target = {
			ArrowUp: () => node.parent,
			ArrowDown: () => node.children[0],
			ArrowLeft: () => beside(-1),
			ArrowRight: () => beside(1),
			Home: () => this.zoomed,
		}[event.key];
		if (event.key === "Escape")
			this.zoom(this.root);
		else if (!target)
			return;
		else
			this.buttons.get(target())?.focus();
		event.preventDefault();
	}
}
