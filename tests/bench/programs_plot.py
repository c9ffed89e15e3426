#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the documents' figures from the programs' output, or from a CSV of suite `programs`.

    programs_plot.py LINES.txt|RESULT.csv FOLDER

LINES.txt: lines of the programs. The line "== NAME native|preloaded ..." precedes those of one process, or
"native N" and "preloaded N" precede each line. Writes FOLDER/NAME.svg for each row of LINES and DOTS that has
runs: medians, without the first run of a process and way if there are several. For a CSV, the rows beside
native are a figure for each program, and those of the numbers of streams are oocmap's and oocstencil's.
"""
import csv
import math
import os
import re
import statistics
import sys
from collections import namedtuple

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 680, 420, 60, 40, 190, 20
LABELS, LINE = 250, 16  # for dots: width of the labels, height of a line
COLOURS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#b07aa1", "#9c755f", "#333333")
RESULTS = re.compile(r"(_ms|_meps|_mvps|_bytes|_share|_warps|gbs|gflops|checksum|pages|tas|was|objects|allocated|found|inserted|deleted|left|taken)$")

# Values of one line: its process's name, native or preloaded, the program, {key: text}.
Run = namedtuple("Run", "process variant program values")


def variant_of(words):
    """The variant in the words of a heading."""
    found = [word for word in words if word in ("native", "preloaded")]
    return found[0] if found else "preloaded" if any("LD_PRELOAD" in word for word in words) else "native"


def lines_read(path):
    process, variant, groups = "", "native", {}
    with open(path) as lines:
        for number, line in enumerate(lines):
            words = line.split()
            if words[:1] == ["=="]:
                process, variant = "%s %d" % (words[1].rstrip(":"), number), variant_of(words)
                continue
            if words[:1] in (["native"], ["preloaded"]):
                process, variant, words = words[1], words[0], words[2:]
            if len(words) < 2 or "=" not in words[1]:
                continue
            values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            same = tuple(item for item in values.items() if not RESULTS.search(item[0]))
            groups.setdefault((process, variant, words[0], same), []).append(values)
    for (process, variant, program, _), runs in groups.items():
        for values in runs[len(runs) > 1:]:
            yield Run(process.split()[0], variant, program, values)


def csv_read(path):
    with open(path) as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["peer"] != "native" or row["unit"] != "ms":
                continue
            program, _, rest = row["case"].partition("/")
            streams = re.fullmatch(r"t=1/pinned/(.*)/streams=(\d+)", rest)
            for variant, ms in (("preloaded", row["ours"]), ("native", row["theirs"])):
                values = {"case": rest, "total_ms": ms}
                if streams:
                    # An element is a float; the thesis counts three or four floats a step.
                    moved = {"oocmap": 3, "oocstencil": 4}[program] * float(row["size"])
                    values = {"mode": streams[1], "streams": streams[2], "steps": "1", "gbs": moved / float(ms) / 1e6}
                yield Run("", variant, program, values)


# --- points: (series, x, y) for lines, (label, series, x) for dots ---

def joins(runs):
    for process, variant, program, run in runs:
        if program == "hashjoin" and "total_ms" in run and "tuples" in run and (variant == "native" or run["way"] == "malloc"):
            name = run["way"] + (", " + variant if run["way"] == "malloc" else "")
            yield name, int(run["tuples"]), float(run["total_ms"])


def steps(runs):
    """Runs with the smallest number of pages."""
    runs = [run.values for run in runs if run.program == "pagesteps" and run.variant == "native" and "tas" in run.values]
    pages = min((int(run["pages"]) for run in runs), default=0)
    for run in (run for run in runs if int(run["pages"]) == pages):
        free = 100.0 * int(run["free"]) / pages
        yield run["way"], free, float(run["tas"])
        if "tas_theory" in run:
            yield run["way"] + ", equation", free, float(run["tas_theory"])


def streams(runs):
    for process, variant, program, run in runs:
        if "gbs" in run and run["mode"] != "in-core" and run["steps"] == "1":
            yield "%s %s%s" % (program[3:], run["mode"], "" if variant == "native" else ", pre."), int(run["streams"]), float(run["gbs"])


def lists(runs):
    for process, variant, program, run in runs:
        if program == "arraylist" and "total_ms" in run and "items" in run:
            yield run["way"] + ("" if variant == "native" else ", pre."), int(run["items"]), float(run["total_ms"])


def is_compared(process):
    """Processes that run many allocators, or one batch."""
    return process.startswith(("allocators", "walks"))


def batches(pattern):
    def points(runs):
        for process, variant, program, run in runs:
            if (program == "dyngraph" and "insert_meps" in run and run["pattern"] == pattern and run["graph"] == "mesh" and
                    run["update"] != "sorted" and not is_compared(process)):
                yield run["way"], int(run["batch"]), float(run["insert_meps"])
    return points


LINES = (
    ("hashjoin", joins, "tuples", "total, ms"),
    ("pagesteps", steps, "free pages, percent", "steps a thread"),
    ("ooc", streams, "streams, one step; pre.: preloaded", "GB/s"),
    ("arraylist", lists, "work-items; pre.: preloaded", "total, ms"),
    ("dyngraph-uniform", batches("uniform"), "edges of a batch, any vertex of a mesh", "million edges inserted a second"),
    ("dyngraph-focused", batches("focused"), "edges of a batch, 1000 vertices of a mesh", "million edges inserted a second"),
)

TIMES = ("insert_ms", "delete_ms")
# Figure, program, keys of a label, fields, runs. Without fields: total_ms, natively and preloaded. The last
# entry selects runs.
DOTS = (
    ("growth", "growth", ("way",), (), lambda run: "step" in run.values),
    ("spgemm", "spgemm", ("matrix", "way"), (), lambda run: True),
    ("smallnodes", "smallnodes", ("case", "items", "way"), (), lambda run: True),
    ("barneshut", "barneshut", ("bodies", "way"), (), lambda run: True),
    ("expressions", "expressions", ("trees", "way"), (), lambda run: True),
    ("hostarrays", "hostarrays", ("way", "items"), (), lambda run: True),
    ("dyngraph-allocators", "dyngraph", ("pattern", "way"), ("build_ms",) + TIMES, lambda run: is_compared(run.process)),
    ("dyngraph-updates", "dyngraph", ("graph", "pattern", "way", "update"), TIMES, lambda run: run.process.startswith("updates")),
    ("dyngraph-reinit", "dyngraph", ("graph", "way"), ("build_ms", "move_ms", "compact_ms"), lambda run: "compact_ms" in run.values),
)


def dots_of(runs, program, keys, fields, wanted):
    for run in runs:
        if run.program != program or not all(key in run.values for key in keys) or not wanted(run):
            continue
        label = " ".join(run.values[key] for key in keys)
        if not fields and "total_ms" in run.values:
            yield label, run.variant, float(run.values["total_ms"])
        for field in fields if run.variant == "native" else ():
            if float(run.values.get(field, 0)) > 0:
                yield label, field, float(run.values[field])


# --- drawings ---

def medians(points):
    """{series: [(x, median of its values)]}, sorted by x."""
    found = {}
    for series, x, value in points:
        found.setdefault(series, {}).setdefault(x, []).append(value)
    return {series: [(x, statistics.median(values)) for x, values in sorted(at.items())] for series, at in found.items()}


def decades(values):
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def frame(width, height):
    return ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">' % (width, height),
            '<rect width="100%" height="100%" fill="white"/>']


def text(x, y, words, anchor="start", colour="black"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>' % (x, y, anchor, colour, words)


DASHED = re.compile(", (pre\\.|equation)$")


def colours(names):
    """{name: colour}; a dashed line has the colour of the solid one."""
    bases = list(dict.fromkeys(DASHED.sub("", name) for name in names))
    return {name: COLOURS[bases.index(DASHED.sub("", name)) % len(COLOURS)] for name in names}


def line_drawn(points, name, colour):
    dash = ' stroke-dasharray="5 4"' if DASHED.search(name) else ""
    path = "L".join("%.1f %.1f" % point for point in points)
    return '<path d="M%s" fill="none" stroke-width="2" stroke="%s"%s/>' % (path, colour, dash)


def legend(names, lines=False):
    """The names in their colours; for lines, a sample beside each name."""
    out, x = [], WIDTH - RIGHT + 10
    for k, (name, colour) in enumerate(colours(names).items()):
        y = TOP + 12 + 18 * k
        if lines:
            out.append(line_drawn([(x, y - 4), (x + 24, y - 4)], name, colour))
        out.append(text(x + 30 * lines, y, name, colour=colour))
    return out


def svg(series, across, up):
    """Lines on two logarithmic axes."""
    (x0, x1), (y0, y1) = (decades([point[axis] for line in series.values() for point in line]) for axis in (0, 1))

    def at(x, y):
        return (LEFT + (math.log10(x) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (math.log10(y) - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP))

    out = frame(WIDTH, HEIGHT)
    for axis, (low, high) in enumerate(((x0, x1), (y0, y1))):
        for power in range(low, high + 1):
            x, y = at(10.0 ** power, 10.0 ** y0) if axis == 0 else at(10.0 ** x0, 10.0 ** power)
            end = (x, TOP) if axis == 0 else (WIDTH - RIGHT, y)
            out.append('<path d="M%.1f %.1fL%.1f %.1f" stroke="#ddd"/>' % (x, y, *end))
            out.append(text(*(((x, y + 16) if axis == 0 else (x - 6, y + 4))), "%g" % 10.0 ** power, "middle" if axis == 0 else "end"))
    for name, line in series.items():
        out.append(line_drawn([at(*point) for point in line], name, colours(series)[name]))
    out += legend(series, lines=True) + [text((WIDTH - RIGHT) // 2, HEIGHT - 4, across, "middle"), text(4, 12, up), "</svg>"]
    return "\n".join(out) + "\n"


def dots(points):
    """A line for each label, a dot for each series, on one logarithmic axis of ms."""
    found, names = {}, []
    for label, series, value in points:
        found.setdefault(label, {}).setdefault(series, []).append(value)
        names += [series] if series not in names else []
    low, high = decades([statistics.median(values) for at in found.values() for values in at.values()])
    height = TOP + LINE * len(found) + BOTTOM
    out = frame(WIDTH, height)

    def across(ms):
        return LABELS + (math.log10(ms) - low) / (high - low) * (WIDTH - LABELS - RIGHT)

    for power in range(low, high + 1):
        x = across(10.0 ** power)
        out.append('<path d="M%.1f %dL%.1f %d" stroke="#ddd"/>' % (x, TOP, x, height - BOTTOM))
        out.append(text(x, height - BOTTOM + 16, "%g" % 10.0 ** power, "middle"))
    for line, (label, at) in enumerate(found.items()):
        y = TOP + LINE * line + LINE // 2
        out.append(text(LABELS - 8, y + 4, label, "end"))
        for series, values in at.items():
            out.append('<circle cx="%.1f" cy="%d" r="4" fill="%s" fill-opacity="0.8"/>'
                       % (across(statistics.median(values)), y, colours(names)[series]))
    out += legend(names) + [text((LABELS + WIDTH - RIGHT) // 2, height - 4, "ms", "middle"), "</svg>"]
    return "\n".join(out) + "\n"


def figures(path):
    """(name, drawing) for all figures with points in the file."""
    is_csv = path.endswith(".csv")
    runs = list(csv_read(path) if is_csv else lines_read(path))
    for name, points, across, up in LINES:
        series = medians(points(runs))
        if any(len(line) > 1 for line in series.values()):
            yield name, svg(series, across, up)
    programs = sorted({run.program for run in runs}) if is_csv else ()
    for row in DOTS if not is_csv else ((name, name, ("case",), (), lambda run: True) for name in programs):
        points = list(dots_of(runs, *row[1:]))
        if points:
            yield row[0], dots(points)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, drawing in figures(sys.argv[1]):
        with open(os.path.join(sys.argv[2], name + ".svg"), "w") as file:
            file.write(drawing)


if __name__ == "__main__":
    main()
