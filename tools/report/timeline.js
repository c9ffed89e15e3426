/* SPDX-License-Identifier: BSD-3-Clause */
/* The timeline: a canvas with a part of the run. Zoom and cursor by mouse, touch and keys. */

const LABEL_ROW = 15; /* pixels; labels have two rows */
const MARGIN = {left: 64, right: 12, top: 38, bottom: 26};
const DRAG_LEAST = 5; /* pixels; less is a click */

class Timeline {
	constructor(canvas, tooltip) {
		this.canvas = canvas;
		this.tooltip = tooltip;
		this.layer = document.createElement("canvas"); /* all but the cursor, which moves often */
		this.hidden = new Set(); /* names of entries of the picture */
		this.followers = [];
		this.picked = null; /* ns */
		this.cursor = null; /* ns */
		this.drag = null; /* {from, to}: pixels */
		this.data = null;
		this.size = {width: 0, height: 0}; /* of the canvas; to ask it for each position takes long */
		this.listen();
		new ResizeObserver(() => this.draw()).observe(canvas);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
	}

	/* Show a device of a log. `lives` and `groups`: its call sites, or null. */
	show(log, device, lives, groups) {
		this.refusals = device.refusals.map(({ns}) => ns);
		this.peak = device.moments.find((moment) => moment.at === "peak")
			?? (device.requested_peak_ns === null ? undefined : {ns: device.requested_peak_ns});
		this.data = timelineUnpack(device.timeline);
		this.length = Math.max(log.length_ns, this.data.n ? this.data.to[this.data.n - 1] : 0, 1);
		this.pictures = {kind: new KindPicture(this, this.data),
			site: lives && new SitePicture(this, lives, groups)};
		this.begin = 0;
		this.end = this.length;
		this.cursor = null;
		this.picked = null;
		this.word = log.missing ? "sample" : "event";
		this.each = device.timeline.events_each;
		this.pictureChoose("kind");
	}

	/* "kind" or "site". */
	pictureChoose(name) {
		this.picture = this.pictures[name] ?? this.pictures.kind;
		this.hidden.clear();
		this.legendMake();
		this.draw();
	}

	/* Call `drawn` after each drawing. */
	follow(drawn) {
		this.followers.push(drawn);
	}

	/* Choose a time, as a click does. */
	pick(ns) {
		this.picked = ns;
		this.draw();
		this.onPick?.(ns);
	}

	/* The events in view; points at its ends count whole. */
	eventsTell() {
		const {data, begin, end, word, each} = this;
		const several = each > 1 ? `; a point has up to ${countText(each)}` : "";
		let n = 0;
		for (let i = 0; i < data.n; i++)
			n += data.to[i] >= begin && data.from[i] <= end ? data.events[i] : 0;
		byId("timeline-points").textContent = data.n > 0 ? ` · ${pluralText(n, word)}${several}`
			: " · The log has no events and no samples of this device.";
	}

	isShown(name) {
		return !this.hidden.has(name) && this.picture.entries.some((entry) => entry.name === name);
	}

	/* --- legend --- */

	legendMake() {
		byId("legend").replaceChildren(...this.picture.entries.map((series) => {
			const box = make("input", {type: "checkbox", checked: !this.hidden.has(series.name)});
			box.addEventListener("change", () => {
				this.hidden[box.checked ? "delete" : "add"](series.name);
				this.draw();
			});
			return make("label", {title: series.title}, box, this.swatchMake(series), make("span", {}, series.title));
		}));
	}

	/* An area's swatch has the layers of areasDraw where a value does not change. */
	swatchMake(series) {
		const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
		const add = (name, attributes) => {
			const shape = document.createElementNS(svg.namespaceURI, name);
			for (const [key, value] of Object.entries(attributes))
				shape.setAttribute(key, value);
			svg.append(shape);
		};
		const layer = (color, opacity) => add("rect",
			{x: 0, y: 1, width: 22, height: 10, "fill-opacity": opacity, style: `fill: var(${color})`});
		if (series.area)
			[["--back", 1], ...series.area.map((opacity) => [series.color, opacity])].forEach((one) => layer(...one));
		else
			add("line", {x1: 0, y1: 6, x2: 22, y2: 6, "stroke-width": 1.75, "stroke-dasharray": series.dash.join(" "),
				style: `stroke: var(${series.color})`});
		svg.setAttribute("aria-hidden", "true");
		return svg;
	}

	/* --- geometry --- */

	get width() {
		return Math.max(1, this.size.width - MARGIN.left - MARGIN.right);
	}

	get height() {
		return Math.max(1, this.size.height - MARGIN.top - MARGIN.bottom);
	}

	xOf(ns) {
		return MARGIN.left + (ns - this.begin) / (this.end - this.begin) * this.width;
	}

	timeOf(x) {
		const share = Math.min(1, Math.max(0, (x - MARGIN.left) / this.width));
		return this.begin + share * (this.end - this.begin);
	}

	yOf(bytes) {
		return MARGIN.top + this.height * (1 - bytes / this.top);
	}

	/* --- zoom --- */

	/* Show a part of the run, clipped to the run; at least 100 ns. */
	view(begin, end) {
		const span = Math.min(this.length, Math.max(100, end - begin));
		this.begin = Math.min(Math.max(0, begin), this.length - span);
		this.end = this.begin + span;
		this.draw();
	}

	/* Zoom by a factor; the time `ns` keeps its position. */
	zoom(factor, ns = this.cursor ?? (this.begin + this.end) / 2) {
		const span = (this.end - this.begin) * factor;
		const share = (ns - this.begin) / (this.end - this.begin);
		this.view(ns - share * span, ns - share * span + span);
	}

	pan(share) {
		const by = share * (this.end - this.begin);
		this.view(this.begin + by, this.end + by);
	}

	viewAll() {
		this.view(0, this.length);
	}

	/* --- input --- */

	listen() {
		const canvas = this.canvas;
		const xOf = (event) => event.clientX - canvas.getBoundingClientRect().left;
		canvas.addEventListener("pointerdown", (event) => {
			if (event.button !== 0)
				return;
			this.drag = {from: xOf(event), to: xOf(event)};
			canvas.setPointerCapture(event.pointerId);
		});
		canvas.addEventListener("pointermove", (event) => {
			if (this.drag)
				this.drag.to = xOf(event);
			this.cursorSet(this.timeOf(xOf(event)));
		});
		canvas.addEventListener("pointerup", () => this.dragEnd());
		canvas.addEventListener("pointercancel", () => {
			this.drag = null;
			this.redraw();
		});
		canvas.addEventListener("pointerleave", () => !this.drag && this.cursorSet(null));
		canvas.addEventListener("dblclick", () => this.viewAll());
		canvas.addEventListener("wheel", (event) => {
			if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY))
				return; /* let the page scroll */
			event.preventDefault();
			if (event.ctrlKey || event.metaKey)
				this.zoom(Math.exp(Math.sign(event.deltaY) * 0.3), this.timeOf(xOf(event)));
			else
				this.pan(event.deltaX / this.width);
		}, {passive: false});
		canvas.addEventListener("keydown", (event) => this.keyPress(event));
		canvas.addEventListener("blur", () => this.cursorSet(null));
	}

	dragEnd() {
		const drag = this.drag;
		this.drag = null;
		if (drag && Math.abs(drag.to - drag.from) >= DRAG_LEAST)
			this.view(this.timeOf(Math.min(drag.from, drag.to)), this.timeOf(Math.max(drag.from, drag.to)));
		else if (drag)
			this.pick(this.timeOf(drag.to));
	}

	keyPress(event) {
		const step = (this.end - this.begin) / 100;
		const move = (by) => event.shiftKey ? this.pan(Math.sign(by) * 0.25) : this.cursorMove(by);
		const keys = {
			ArrowLeft: () => move(-step),
			ArrowRight: () => move(step),
			Home: () => this.cursorSet(this.begin),
			End: () => this.cursorSet(this.end),
			"+": () => this.zoom(0.5),
			"=": () => this.zoom(0.5),
			"-": () => this.zoom(2),
			0: () => this.viewAll(),
			Enter: () => this.pick(this.cursor ?? (this.begin + this.end) / 2),
			Escape: () => this.cursorSet(null),
		};
		if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey)
			return;
		event.preventDefault();
		keys[event.key]();
	}

	cursorMove(by) {
		const from = this.cursor ?? (this.begin + this.end) / 2;
		this.cursorSet(Math.min(this.end, Math.max(this.begin, from + by)));
	}

	cursorSet(ns) {
		this.cursor = ns;
		this.redraw();
	}

	/* --- drawing --- */

	draw() {
		this.stale = true;
		this.redraw();
	}

	/* Draw at most once a frame; several events may arrive within one. */
	redraw() {
		if (!this.data || this.asked)
			return;
		this.asked = true;
		requestAnimationFrame(() => {
			this.asked = false;
			this.drawNow();
		});
	}

	drawNow() {
		this.size = {width: this.canvas.clientWidth, height: this.canvas.clientHeight};
		if (this.stale)
			this.layerDraw(this.contextOf(this.layer));
		this.stale = false;
		const context = this.contextOf(this.canvas);
		context.drawImage(this.layer, 0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
		this.cursorDraw(context);
		this.followers.forEach((drawn) => drawn());
	}

	color(name) {
		return getComputedStyle(this.canvas).getPropertyValue(name).trim();
	}

	/* Clear a canvas, as large as `like`; return its context, scaled to CSS pixels. */
	contextOf(canvas, like = this.canvas) {
		const ratio = devicePixelRatio || 1;
		canvas.width = Math.max(1, Math.round(like.clientWidth * ratio));
		canvas.height = Math.max(1, Math.round(like.clientHeight * ratio));
		const context = canvas.getContext("2d");
		context.scale(ratio, ratio);
		return context;
	}

	layerDraw(context) {
		context.font = `12px ${getComputedStyle(this.canvas).fontFamily}`;
		this.columns = Math.max(1, Math.round(this.width));
		this.picture.reduce();
		this.topFind();
		this.axesDraw(context);
		context.save();
		context.beginPath();
		context.rect(MARGIN.left, MARGIN.top - 2, this.width, this.height + 2);
		context.clip();
		this.picture.draw(context);
		context.restore();
		this.marksDraw(context);
		this.rangeTell();
	}

	/* The highest value in view, and steps of a power of two below it. */
	topFind() {
		const most = this.picture.most();
		this.step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(most, 1) / 5)));
		this.top = Math.max(most * 1.04, this.step);
	}

	axesDraw(context) {
		const bottom = MARGIN.top + this.height;
		context.fillStyle = this.color("--faint");
		context.strokeStyle = this.color("--line");
		context.lineWidth = 1;
		context.textAlign = "right";
		context.textBaseline = "middle";
		for (let bytes = 0; bytes <= this.top; bytes += this.step) {
			const y = Math.round(this.yOf(bytes)) + 0.5;
			context.beginPath();
			context.moveTo(MARGIN.left, y);
			context.lineTo(MARGIN.left + this.width, y);
			context.stroke();
			context.fillText(bytes ? bytesText(bytes) : "0", MARGIN.left - 6, y);
		}
		context.textBaseline = "top";
		const step = timeStep((this.end - this.begin) / Math.max(2, this.width / 110));
		for (let i = Math.ceil(this.begin / step); i * step <= this.end; i++) {
			const x = Math.round(this.xOf(i * step)) + 0.5;
			const text = timeMark(i * step, step);
			const half = context.measureText(text).width / 2;
			context.beginPath();
			context.moveTo(x, bottom);
			context.lineTo(x, bottom + 4);
			context.stroke();
			context.textAlign = "center";
			context.fillText(text, Math.min(x, MARGIN.left + this.width + MARGIN.right - half), bottom + 8);
		}
	}

	/* Draw the peak and refused requests, each in a row of labels of its own. */
	marksDraw(context) {
		const inView = (ns) => ns >= this.begin && ns <= this.end;
		const x = (ns) => Math.round(this.xOf(ns)) + 0.5;
		context.textBaseline = "top";
		context.textAlign = "left";
		context.lineWidth = 1;
		if (this.peak && inView(this.peak.ns))
			this.markDraw(context, {from: x(this.peak.ns), to: x(this.peak.ns)}, "peak", "--text", 1);
		const room = context.measureText("out of memory × 1,000").width + 8;
		const end = MARGIN.left + this.width + MARGIN.right;
		for (const group of marksGroup(this.refusals.filter(inView).map(x), room, end))
			this.markDraw(context, group, group.n > 1 ? `out of memory × ${countText(group.n)}` : "out of memory",
				"--error", 0);
	}

	/* A line at the begin of a mark; several refusals are a band up to the last. */
	markDraw(context, {from, to}, title, color, row) {
		const top = MARGIN.top - 4;
		context.strokeStyle = context.fillStyle = this.color(color);
		context.globalAlpha = 0.15;
		context.fillRect(from, top, to - from, this.height + 4);
		context.globalAlpha = 1;
		context.setLineDash([3, 3]);
		context.beginPath();
		context.moveTo(from, top);
		context.lineTo(from, top + 4 + this.height);
		context.stroke();
		context.setLineDash([]);
		const right = MARGIN.left + this.width + MARGIN.right - context.measureText(title).width;
		context.fillText(title, Math.min(from + 3, right), 3 + row * LABEL_ROW);
	}

	cursorDraw(context) {
		const drag = this.drag;
		if (drag) {
			context.fillStyle = this.color("--accent");
			context.globalAlpha = 0.2;
			context.fillRect(Math.min(drag.from, drag.to), MARGIN.top, Math.abs(drag.to - drag.from), this.height);
			context.globalAlpha = 1;
		}
		this.tooltip.hidden = this.cursor === null;
		byId("timeline-value").textContent = "";
		if (this.cursor === null) {
			this.cursorLine(context, MARGIN.top, this.height);
			return;
		}
		this.cursorLine(context, MARGIN.top, this.height);
		this.cursorTell(this.xOf(this.cursor));
	}

	/* Lines at the cursor and, dashed, at the time that was chosen. */
	cursorLine(context, top, height) {
		for (const [ns, color, dash] of [[this.picked, "--accent", [6, 3]], [this.cursor, "--text", []]]) {
			if (ns === null || ns < this.begin || ns > this.end)
				continue;
			context.strokeStyle = this.color(color);
			context.lineWidth = ns === this.cursor ? 1 : 2;
			context.setLineDash(dash);
			context.beginPath();
			context.moveTo(this.xOf(ns), top);
			context.lineTo(this.xOf(ns), top + height);
			context.stroke();
			context.setLineDash([]);
		}
	}

	cursorTell(x) {
		const rows = this.picture.valuesAt(this.cursor);
		const time = timeMark(this.cursor, (this.end - this.begin) / this.width);
		byId("timeline-value").textContent = `${time}: ${rows.map((row) => row.join(" ")).join(", ")}`;
		this.tooltip.replaceChildren(make("strong", {}, time), make("table", {}, make("tbody", {},
			...rows.map(([title, value]) => make("tr", {}, make("th", {}, title), make("td", {}, value))))));
		const width = this.tooltip.offsetWidth;
		const room = this.canvas.clientWidth;
		this.tooltip.style.left = `${x + 12 + width < room ? x + 12 : Math.max(0, x - 12 - width)}px`;
		this.tooltip.style.top = `${MARGIN.top + 4}px`;
	}

	rangeTell() {
		const step = (this.end - this.begin) / 100;
		const whole = this.begin <= 0 && this.end >= this.length;
		byId("timeline-range").textContent = whole ? `All of ${timeText(this.length)}`
			: `${timeMark(this.begin, step)} to ${timeMark(this.end, step)} of ${timeText(this.length)}`;
		this.eventsTell();
	}
}

/*
 * Sorted positions as groups {from, to, n}: a label of `room` pixels at the begin of each, or before `end`,
 * hides no other.
 */
function marksGroup(positions, room, end) {
	const groups = [];
	const place = (at) => Math.min(at, end - room);
	for (const at of positions) {
		const last = groups[groups.length - 1];
		if (last && place(at) < place(last.from) + room) {
			last.to = at;
			last.n++;
		} else {
			groups.push({from: at, to: at, n: 1});
		}
	}
	return groups;
}

/* The smallest step of an axis, at least `least` ns: 1, 2, 5, 10 ..., or a step of clocks. */
function timeStep(least) {
	const clock = [60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400].map((s) => s * 1e9);
	if (least > 30e9)
		return clock.find((step) => step >= least) ?? Math.ceil(least / 86400e9) * 86400e9;
	const unit = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
	return [1, 2, 5, 10].map((n) => n * unit).find((step) => step >= least);
}
