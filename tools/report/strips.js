/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawings below the timeline, over the same time: the map of addresses, and fragmentation. */

/* A canvas that follows the view and the cursor of the timeline. */
class Strip {
	constructor(canvas, timeline) {
		this.canvas = canvas;
		this.timeline = timeline;
		this.pointer = null;
		this.height = 1; /* pixels, without the margins */
		timeline.follow(() => this.draw());
		new ResizeObserver(() => this.draw()).observe(canvas);
		canvas.addEventListener("pointermove", (event) => {
			const box = canvas.getBoundingClientRect();
			this.pointer = {x: event.clientX - box.left, y: event.clientY - box.top};
			timeline.cursorSet(timeline.timeOf(this.pointer.x));
		});
		canvas.addEventListener("pointerleave", () => {
			this.pointer = null;
			timeline.cursorSet(null);
		});
		canvas.addEventListener("click", () => this.pointer && timeline.pick(timeline.timeOf(this.pointer.x)));
	}


	draw() {
		const {canvas, timeline} = this;
		if (!timeline.data || !canvas.clientWidth)
			return;
		this.height = Math.max(1, canvas.clientHeight - STRIP.top - STRIP.bottom);
		const key = [timeline.begin, timeline.end, timeline.width, canvas.clientWidth, canvas.clientHeight,
			devicePixelRatio, timeline.color("--back")].join(" ");
		const context = timeline.contextOf(canvas, canvas);
		if (key !== this.key) {
			this.layer = document.createElement("canvas");
			this.picture(timeline.contextOf(this.layer, canvas));
			this.key = key;
		}
		context.drawImage(this.layer, 0, 0, canvas.clientWidth, canvas.clientHeight);
		timeline.cursorLine(context, STRIP.top, this.height);
		this.tell();
	}

	/* The whole drawing without the cursor. */
	picture(context) {
		context.font = `12px ${getComputedStyle(this.canvas).fontFamily}`;
		context.save();
		context.beginPath();
		context.rect(MARGIN.left, STRIP.top, this.timeline.width, this.height);
		context.clip();
		this.body(context);
		context.restore();
		this.axis(context);
	}

	line(context, y, text) {
		context.strokeStyle = this.timeline.color("--line");
		context.fillStyle = this.timeline.color("--faint");
		context.lineWidth = 1;
		context.textAlign = "right";
		context.textBaseline = "middle";
		context.beginPath();
		context.moveTo(MARGIN.left, Math.round(y) + 0.5);
		context.lineTo(MARGIN.left + this.timeline.width, Math.round(y) + 0.5);
		context.stroke();
		context.fillText(text, MARGIN.left - 6, y);
	}
}

/* By kind. A block of the cache is in a chunk, and is drawn above it. */
const CHUNKS = [
	{color: "mapped-area", title: "mapped, free"},
	{color: "lent-area", title: "heaps of kernels"},
	{color: "cache-area", title: "allocated, without a tensor"},
];
const BLOCKS_MOST = 200; /* rows */
const STRIP = {top: 6, bottom: 6};

/* Areas of addresses over time: {n, birth, death, address, size, site}; `site`: of a chunk, its kind. */
function areasUnpack(list) {
	const packed = new Packed(list);
	const column = () => new Float64Array(list.points);
	const out = {n: list.points, birth: column(), death: column(), address: column(), size: column(),
		site: new Uint32Array(list.points)};
	let birth = 0;
	let address = 0;
	for (let i = 0; i < out.n; i++) {
		out.birth[i] = birth += packed.difference();
		out.death[i] = birth + packed.number();
		out.address[i] = address += packed.difference();
		out.size[i] = packed.number();
		out.site[i] = packed.number();
	}
	return out;
}

/* The ranges of addresses in use, without the gaps: {from, to, at}; `at`: bytes of the ranges below. */
function rangesJoin(lists) {
	const all = lists.flatMap(({n, address, size}) =>
		Array.from({length: n}, (_, i) => [address[i], address[i] + size[i]]));
	const ranges = [];
	all.sort((a, b) => a[0] - b[0]);
	for (const [from, to] of all) {
		const last = ranges[ranges.length - 1];
		if (last && from <= last.to)
			last.to = Math.max(last.to, to);
		else
			ranges.push({from, to});
	}
	let at = 0;
	for (const range of ranges) {
		range.at = at;
		at += range.to - range.from;
	}
	return {ranges, bytes: at};
}

/* A colour #RRGGBB or #RGB of the style as an opaque pixel of ImageData, whose lowest byte is red. */
function pixelOf(color) {
	const digits = color.length > 4 ? color.slice(1) : color.slice(1).replace(/./g, "$&$&");
	const [red, green, blue] = [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
	return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
}

/* Addresses upwards, time to the right; a block has the colour of its call site. */
class AddressMap extends Strip {
	show(device, colors, stacks) {
		this.stacks = stacks;
		this.sites = device.call_sites;
		this.blocks = areasUnpack(device.areas);
		this.chunks = areasUnpack(device.chunks);
		this.colors = colors; /* by site: the name of a colour */
		this.space = rangesJoin([this.blocks, this.chunks]);
		for (const areas of [this.blocks, this.chunks])
			areas.offset = areas.address.map((address) => this.offsetOf(address));
		const kinds = new Set(this.chunks.site);
		byId("map-legend").replaceChildren(...CHUNKS.flatMap(({color, title}, kind) =>
			kinds.has(kind) ? [make("span", {class: `swatch ${color}`}), ` ${title}; `] : []));
		this.key = "";
		this.draw();
	}

	/* The place of an address among those that are used. */
	offsetOf(address) {
		const {ranges} = this.space;
		let low = 0;
		let high = ranges.length - 1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (ranges[middle].from <= address)
				low = middle;
			else
				high = middle - 1;
		}
		return ranges[low].at + address - ranges[low].from;
	}

	yOf(offset) {
		return STRIP.top + this.height * (1 - offset / Math.max(1, this.space.bytes));
	}

	/* The rectangle of an area, in pixels. */
	boxOf(areas, i) {
		const {timeline} = this;
		const left = timeline.xOf(areas.birth[i]);
		const offset = areas.offset[i];
		const top = this.yOf(offset + areas.size[i]);
		return {left, top, right: timeline.xOf(areas.death[i]), bottom: this.yOf(offset)};
	}

	/* Many small areas: canvas pixels are written here, since a call for each area takes longer. */
	body(context) {
		if (!this.blocks)
			return;
		const {timeline} = this;
		const ratio = devicePixelRatio || 1;
		const [width, height] = [timeline.width, this.height].map((size) => Math.round(size * ratio));
		const image = context.createImageData(width, height);
		const pixels = new Uint32Array(image.data.buffer);
		const colors = new Map();
		const color = (name) => {
			if (!colors.has(name))
				colors.set(name, pixelOf(timeline.color(name)));
			return colors.get(name);
		};
		CHUNKS.forEach((kind, number) =>
			this.fill(image, pixels, ratio, this.chunks, (site) => site === number && color(`--${kind.color}`)));
		this.fill(image, pixels, ratio, this.blocks, (site) => color(this.colors[site]));
		context.putImageData(image, MARGIN.left * ratio, STRIP.top * ratio);
	}

	/* An area takes at least a pixel; one without a colour none. */
	fill({width, height}, pixels, ratio, areas, color) {
		const {timeline} = this;
		for (let i = 0; i < areas.n; i++) {
			const pixel = color(areas.site[i]);
			if (!pixel || areas.death[i] < timeline.begin || areas.birth[i] > timeline.end)
				continue;
			const box = this.boxOf(areas, i);
			const left = Math.max(0, Math.floor((box.left - MARGIN.left) * ratio));
			const right = Math.min(width, Math.max(left + 1, Math.round((box.right - MARGIN.left) * ratio)));
			const top = Math.max(0, Math.floor((box.top - STRIP.top) * ratio));
			const bottom = Math.min(height, Math.max(top + 1, Math.round((box.bottom - STRIP.top) * ratio)));
			for (let y = top; y < bottom; y++)
				pixels.fill(pixel, y * width + left, y * width + right);
		}
	}

	axis(context) {
		if (!this.blocks)
			return;
		this.line(context, this.yOf(0), "");
		this.line(context, this.yOf(this.space.bytes), bytesText(this.space.bytes));
	}

	/* The largest blocks alive at a time, as rows of the table of blocks. */
	largestAt(ns) {
		const {n, birth, death, address, size, site} = this.blocks;
		const rows = [];
		for (let i = 0; i < n; i++)
			if (birth[i] <= ns && ns < death[i])
				rows.push({bytes: size[i], address: `0x${address[i].toString(16)}`, ns: birth[i], driver: null,
					stack: this.sites[site[i]].stack});
		return rows.sort((a, b) => b.bytes - a.bytes).slice(0, BLOCKS_MOST);
	}

	/* The last of the areas that are drawn at a position; -1: none. */
	areaAt(areas, {x, y}, is = () => true) {
		for (let i = areas.n - 1; i >= 0; i--) {
			const box = this.boxOf(areas, i);
			if (is(areas.site[i]) && x >= box.left && x <= box.right && y >= box.top && y <= box.bottom)
				return i;
		}
		return -1;
	}

	tell() {
		byId("map-value").textContent = this.pointer && this.blocks ? this.textAt(this.pointer) : "";
	}

	/* What is drawn last at a position: a block, or else the memory around blocks by its kind. */
	textAt(place) {
		const block = this.areaAt(this.blocks, place);
		if (block >= 0)
			return this.textOf(block);
		for (let kind = CHUNKS.length - 1; kind >= 0; kind--) {
			const i = this.areaAt(this.chunks, place, (site) => site === kind);
			if (i >= 0)
				return `${CHUNKS[kind].title}: ${this.placeOf(this.chunks, i)}`;
		}
		return "";
	}

	placeOf({birth, death, address, size}, i) {
		const until = death[i] <= this.timeline.length ? `to ${timeText(death[i])}` : "on";
		return `${bytesText(size[i])} at 0x${address[i].toString(16)}, from ${timeText(birth[i])} ${until}`;
	}

	nameOf(stack) {
		const call = this.stacks.site(stack);
		return call ? callLine(call) : "without a call stack";
	}

	textOf(i) {
		const {birth, death, address, size, site} = this.blocks;
		const ends = death[i] <= this.timeline.length;
		return [`${bytesText(size[i])} at 0x${address[i].toString(16)}`, `allocated at ${timeText(birth[i])}`,
			ends ? `freed after ${timeText(death[i] - birth[i])}: ` : "never freed: "].join(", ")
			+ this.nameOf(this.sites[site[i]].stack);
	}
}

/* Rows of a packed "frag": arrays with one element for each moment. */
function fragUnpack(frag) {
	const packed = new Packed(frag);
	const names = ["ns", "external", "external_remap", "utilisation", "idle", "internal", "unreclaimable"];
	const out = {n: frag.points};
	for (const name of names)
		out[name] = new Float64Array(frag.points);
	let ns = 0;
	for (let i = 0; i < out.n; i++) {
		out.ns[i] = ns += packed.number();
		for (const name of names.slice(1))
			out[name][i] = packed.number();
	}
	return out;
}

const FRAG_LINES = [
	{name: "external", title: "external fragmentation", color: "--error", dash: []},
	{name: "external_remap", title: "external, after remapping", color: "--accent", dash: [5, 3]},
	{name: "utilisation", title: "utilisation", color: "--mapped", dash: [2, 3]},
];

class FragCurve extends Strip {
	show(device) {
		this.frag = device.frag.points > 0 ? fragUnpack(device.frag) : null;
		this.key = "";
		byId("frag-legend").replaceChildren(...FRAG_LINES.map((one) =>
			make("span", {}, this.timeline.swatchMake(one), one.title)));
		this.draw();
	}

	yOf(ppm) {
		return STRIP.top + this.height * (1 - ppm / 1e6);
	}

	/* The last moment at `ns` or before; -1: none. */
	momentAt(ns) {
		let low = -1;
		let high = this.frag.n - 1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (this.frag.ns[middle] <= ns)
				low = middle;
			else
				high = middle - 1;
		}
		return low;
	}

	/* Steps: a value lasts until the next moment. */
	body(context) {
		const {timeline, frag} = this;
		if (!frag)
			return;
		const first = Math.max(0, this.momentAt(timeline.begin));
		for (const one of FRAG_LINES) {
			context.strokeStyle = timeline.color(one.color);
			context.lineWidth = 1.75;
			context.setLineDash(one.dash);
			context.beginPath();
			for (let i = first; i < frag.n && frag.ns[i] <= timeline.end; i++) {
				const y = this.yOf(frag[one.name][i]);
				context[i === first ? "moveTo" : "lineTo"](timeline.xOf(frag.ns[i]), y);
				context.lineTo(timeline.xOf(i + 1 < frag.n ? frag.ns[i + 1] : timeline.length), y);
			}
			context.stroke();
		}
		context.setLineDash([]);
	}

	axis(context) {
		for (const ppm of [0, 500000, 1000000])
			this.line(context, this.yOf(ppm), (ppm / 1e6).toFixed(1));
	}

	tell() {
		const {cursor} = this.timeline;
		const i = cursor === null || !this.frag ? -1 : this.momentAt(cursor);
		byId("frag-value").textContent = "";
		if (i < 0)
			return;
		const shares = FRAG_LINES.map(({name, title}) => `${title} ${counterText(this.frag[name][i], "ppm")}`);
		const bytes = ["idle", "internal", "unreclaimable"]
			.map((name) => `${name} ${bytesText(this.frag[name][i])}`);
		byId("frag-value").textContent = [...shares, ...bytes].join(", ");
	}
}
