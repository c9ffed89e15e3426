#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of suite `graphs`, as Markdown, and the thesis' claims beside them.

    graphs_table.py RESULT.csv|RESULT.lines.txt [GB/s]

Medians of the processes. A claim is also scaled by the bandwidth of the device memory, whose sum is shown:
GB/s is that of the measured device (3352, an H100 SXM5 with HBM3).
"""
import itertools
import statistics
import sys

from graphs import GRAPHS, PRELOADED
from graphs_plot import runs_of

BANDWIDTH = 3352
GTX780, TITAN_XP, TITAN_V = ("GTX 780", 288), ("Titan Xp", 548), ("Titan V", 653)
# What, the claim, its device, up or down with the bandwidth (0: a ratio), the largest of ours or the smallest,
# our case, ways, field.
UP, DOWN = 1, -1
CLAIMS = (
    ("aimGraph, insertions, M/s", "20 to 100", (20, 100), GTX780, UP, max, "", ("aim",), "insert_meps"),
    ("aimGraph, deletions, M/s", "50 to 150", (50, 150), GTX780, UP, max, "", ("aim",), "delete_meps"),
    ("aimGraph, build of 239 K edges of roads, ms", "3.13", (3.13,), GTX780, DOWN, min, "road-small", ("aim",), "build_ms"),
    ("faimGraph, edge updates, M/s", "200", (200,), TITAN_XP, UP, max, "", ("faim",), "insert_meps"),
    ("ouroGraph by the project's heap, the same", "200", (200,), TITAN_XP, UP, max, "", ("granule",), "insert_meps"),
    ("the same, malloc preloaded", "200", (200,), TITAN_XP, UP, max, "", ("malloc, pre.",), "insert_meps"),
    ("faimGraph, queries, M/s", "300", (300,), TITAN_XP, UP, max, "", ("faim",), "query_meps"),
    ("faimGraph, vertices inserted, M/s", "2 to 50", (2, 50), TITAN_XP, UP, max, "-vertices", ("faim",), "vertex_insert_mvps"),
    ("faimGraph, vertices deleted, M/s", "1 to 50", (1, 50), TITAN_XP, UP, max, "-vertices", ("faim",), "vertex_delete_mvps"),
    ("faimGraph, into 105%, ms", "0.36 to 36", (0.36, 36), TITAN_XP, DOWN, min, "-reinit", ("faim",), "move_ms"),
)


def way_of(variant, run):
    return run["way"] + (", pre." if variant == PRELOADED else "")


def of(runs, case, way, field, **keys):
    found = [float(run[field]) for name, variant, run in runs if name == case and way_of(variant, run) == way and field in run and
             all(run.get(key) == value for key, value in keys.items())]
    return statistics.median(found) if found else None


def cell(value):
    return "-" if value is None else "%.3g" % value if value < 1000 else "%.0f" % value


def pair(runs, case, way, fields, **keys):
    return ", ".join(cell(of(runs, case, way, field, **keys)) for field in fields)


def distinct(runs, case, key):
    """Values of a key in the case, in order; of ways, those with ", pre." behind them."""
    found = dict.fromkeys(way_of(variant, run) if key == "way" else run.get(key) for name, variant, run in runs if name == case)
    return [value for value in found if value is not None]


def row(cells):
    print("| " + " | ".join(cells) + " |")


def head(cells):
    row(cells)
    print("|" + "---|" * len(cells))


def updates(runs, graph):
    batches = distinct(runs, graph, "batch")
    columns = [(pattern, batch) for pattern in ("uniform", "focused") for batch in batches]
    print("\n%s: million edges a second, inserted, deleted; MB: after the build, at the end\n" % graph)
    head(["way", "build, ms"] + ["%s %s" % (pattern, batch) for pattern, batch in columns] + ["queries, M/s", "PageRank, ms", "triangles, ms", "MB"])
    for way in distinct(runs, graph, "way"):
        last = {"batch": batches[-1], "pattern": "uniform"}
        bytes_ = [of(runs, graph, way, field, **last) for field in ("built_bytes", "final_bytes")]
        row([way, cell(of(runs, graph, way, "build_ms"))] +
            [pair(runs, graph, way, ("insert_meps", "delete_meps"), pattern=pattern, batch=batch) for pattern, batch in columns] +
            [cell(of(runs, graph, way, "query_meps", **last)), cell(of(runs, graph, way, "pagerank_ms")),
             cell(of(runs, graph, way, "triangles_ms")), ", ".join(cell(value and value / 1e6) for value in bytes_)])


def vertices(runs):
    rows = [(graph, way) for graph in GRAPHS for way in distinct(runs, graph + "-vertices", "way")]
    names = list(dict.fromkeys(name for graph in GRAPHS for name in distinct(runs, graph + "-vertices", "names")))
    if not rows:
        return
    print("\nMillion vertices a second, inserted, deleted, by vertices of a batch\n")
    head(["graph", "way"] + names)
    for graph, way in rows:
        row([graph, way] + [pair(runs, graph + "-vertices", way, ("vertex_insert_mvps", "vertex_delete_mvps"), names=name) for name in names])


def best(runs, case, ways, field, better):
    """(value, graph, way, pattern, batch), the best of the medians; `case`: of each graph, or of one. A batch of vertices has
    their number."""
    found = []
    size = "names" if field.startswith("vertex") else "batch"
    for graph in [graph for graph in GRAPHS if case.startswith(graph)] or GRAPHS:
        name = case if case.startswith(graph) else graph + case
        for way, pattern, batch in itertools.product(ways, distinct(runs, name, "pattern"), distinct(runs, name, size)):
            value = of(runs, name, way, field, **{"pattern": pattern, size: batch})
            found += [(value, graph, way, pattern, batch)] if value is not None else []
    return better(found) if found else None


def claims(runs, bandwidth):
    print("\nThe thesis' claims, scaled by the bandwidth of the device memory; ours: the best of all graphs and batches\n")
    head(["what", "claim", "scaled", "ours"])
    for what, claim, numbers, (device, theirs), sign, better, case, ways, field in CLAIMS:
        top, under = (bandwidth, theirs) if sign == UP else (theirs, bandwidth)
        scaled = ", ".join("%g x %d / %d = %s" % (number, top, under, cell(number * top / under)) for number in numbers)
        ours = best(runs, case, ways, field, better)
        row([what, "%s (%s)" % (claim, device), scaled, "%s: %s" % (cell(ours[0]), " ".join(ours[1:])) if ours else "-"])


def ratios(runs):
    """Of ouroGraph by the project's heap to faimGraph; the thesis' are of a Titan V, and have no scale."""
    print("\nouroGraph by the project's heap, beside faimGraph\n")
    head(["what", "claim (%s)" % TITAN_V[0]] + list(GRAPHS))
    for what, claim, field in (("footprint, times smaller", "23 to 32", "final_bytes"), ("PageRank, times as fast", "1.06 to 2", "pagerank_ms"),
                               ("triangles, times as fast", "1.8", "triangles_ms"), ("build, times as fast", "-", "build_ms")):
        both = [(of(runs, graph, "faim", field), of(runs, graph, "granule", field)) for graph in GRAPHS]
        row([what, claim] + [cell(faim / ouro if faim and ouro else None) for faim, ouro in both])
    both = [[of(runs, graph + "-malloc", way, "build_ms") for way in ("malloc", "malloc, pre.")] for graph in GRAPHS]
    row(["build by malloc, preloaded, times as fast as natively", "1785"] + [cell(driver / ours if driver and ours else None) for driver, ours in both])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    runs = list(runs_of(sys.argv[1]))
    for graph in GRAPHS:
        if distinct(runs, graph, "way"):
            updates(runs, graph)
    vertices(runs)
    ratios(runs)
    claims(runs, float(sys.argv[2]) if len(sys.argv) > 2 else BANDWIDTH)
    wrong = ["%s %s" % (case, way_of(variant, run)) for case, variant, run in runs if run.get("verified") == "no"]
    verified = sum(run.get("verified") == "yes" for _, _, run in runs)
    print("\n%d runs equal the CPU's, %d do not%s" % (verified, len(wrong), ": " + ", ".join(sorted(set(wrong))) if wrong else ""))


if __name__ == "__main__":
    main()
