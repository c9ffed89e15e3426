#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws suite `graphs`: million edges a second by the size of a batch.

    graphs_plot.py RESULT.csv|RESULT.lines.txt FOLDER

Writes FOLDER/GRAPH-PATTERN-insert.svg and -delete.svg, medians of the processes, of each that has several
sizes. pre.: preloaded.
"""
import os
import re
import sys

from graphs import GRAPHS, PRELOADED, lines_read, seconds
from programs_plot import medians, svg


def runs_of(path):
    """(case, variant, values) of each run that counts."""
    for head, lines in lines_read(re.sub(r"\.csv$", ".lines.txt", path)).items():
        for run in seconds(lines):
            yield head.split()[1], head.split()[2], run


def points(runs, graph, pattern, what):
    for case, variant, run in runs:
        if case == graph and run["pattern"] == pattern:
            yield run["way"] + (", pre." if variant == PRELOADED else ""), int(run["batch"]), float(run[what + "_meps"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    runs = list(runs_of(sys.argv[1]))
    os.makedirs(sys.argv[2], exist_ok=True)
    for graph in GRAPHS:
        for pattern in ("uniform", "focused"):
            for what, done in (("insert", "inserted"), ("delete", "deleted")):
                series = medians(points(runs, graph, pattern, what))
                if any(len(line) > 1 for line in series.values()):
                    with open(os.path.join(sys.argv[2], "%s-%s-%s.svg" % (graph, pattern, what)), "w") as file:
                        file.write(svg(series, "edges of a batch, %s, %s" % (graph, pattern), "million edges %s a second" % done))


if __name__ == "__main__":
    main()
