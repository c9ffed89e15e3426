#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Figures of the documents from the lines that the programs print.

    programs_plot.py LINES.txt FOLDER

LINES.txt: lines of hashjoin and pagesteps; "== NAME native|preloaded ..." stands before those of one process. Only native ones are
drawn, but for malloc. Writes FOLDER/hashjoin.svg (Pham et al., figure 13) and FOLDER/pagesteps.svg (figures 7 and 8), with the
median of all runs but the first of each process.
"""
import math
import os
import statistics
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 640, 420, 60, 40, 150, 20
COLOURS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#b07aa1", "#9c755f", "#333333")


def read(path):
    """(variant, program, {key: text}) of each line, without the first run of a process and way."""
    variant, seen = "native", set()
    with open(path) as lines:
        for line in lines:
            words = line.split()
            if words[:1] == ["=="]:
                variant, seen = words[2], set()
            elif len(words) > 1 and words[1].startswith("way="):
                run = dict(word.split("=", 1) for word in words[1:])
                place = (run["way"], run.get("free"), run.get("threads"), run.get("tuples"))
                if place in seen and "total_ms" in run:
                    yield variant, words[0], run
                seen.add(place)


def medians(points):
    """{series: [(x, median of its values)]}, in the order of x."""
    found = {}
    for series, x, value in points:
        found.setdefault(series, {}).setdefault(x, []).append(value)
    return {series: [(x, statistics.median(values)) for x, values in sorted(at.items())] for series, at in found.items()}


def decades(values):
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def svg(series, across, up):
    """Lines on two logarithmic axes."""
    (x0, x1), (y0, y1) = (decades([point[axis] for line in series.values() for point in line]) for axis in (0, 1))
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)

    def at(x, y):
        return (LEFT + (math.log10(x) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (math.log10(y) - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP))

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">' % (WIDTH, HEIGHT),
           '<rect width="100%" height="100%" fill="white"/>']
    for axis, (low, high) in enumerate(((x0, x1), (y0, y1))):
        for power in range(low, high + 1):
            x, y = at(10.0 ** power, 10.0 ** y0) if axis == 0 else at(10.0 ** x0, 10.0 ** power)
            end = (x, TOP) if axis == 0 else (WIDTH - RIGHT, y)
            out.append('<path d="M%.1f %.1fL%.1f %.1f" stroke="#ddd"/>' % (x, y, *end))
            out.append('<text x="%.1f" y="%.1f" text-anchor="%s">%g</text>'
                       % ((x, y + 16, "middle", 10.0 ** power) if axis == 0 else (x - 6, y + 4, "end", 10.0 ** power)))
    for k, (name, line) in enumerate(series.items()):
        colour, dash = COLOURS[k % len(COLOURS)], ' stroke-dasharray="5 4"' if "equation" in name else ""
        out.append('<path d="M%s" fill="none" stroke-width="2" stroke="%s"%s/>' % ("L".join("%.1f %.1f" % at(*p) for p in line), colour, dash))
        out.append('<text x="%d" y="%d" fill="%s">%s</text>' % (WIDTH - RIGHT + 10, TOP + 12 + 18 * k, colour, name))
    out.append('<text x="%d" y="%d">%s</text><text x="4" y="12">%s</text></svg>' % ((WIDTH - RIGHT) // 2, HEIGHT - 4, across, up))
    return "\n".join(out) + "\n"


def joins(runs):
    for variant, program, run in runs:
        if program == "hashjoin" and (variant == "native" or run["way"] == "malloc"):
            name = run["way"] + (", " + variant if run["way"] == "malloc" else "")
            yield name, int(run["tuples"]), float(run["total_ms"])


def steps(runs):
    """Of the smallest number of pages that was run."""
    runs = [run for variant, program, run in runs if program == "pagesteps" and variant == "native"]
    pages = min((int(run["pages"]) for run in runs), default=0)
    for run in (run for run in runs if int(run["pages"]) == pages):
        free = 100.0 * int(run["free"]) / pages
        yield run["way"], free, float(run["tas"])
        if "tas_theory" in run:
            yield run["way"] + ", equation", free, float(run["tas_theory"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    runs = list(read(sys.argv[1]))
    for name, points, across, up in (("hashjoin", joins(runs), "tuples", "total, ms"),
                                     ("pagesteps", steps(runs), "free pages, percent", "steps a thread")):
        series = medians(points)
        if series:
            with open(os.path.join(sys.argv[2], name + ".svg"), "w") as file:
                file.write(svg(series, across, up))


if __name__ == "__main__":
    main()
