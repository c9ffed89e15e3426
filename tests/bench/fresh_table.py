#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of fresh.py, as tables: a line for each heap, a column for each size, the best of all
rivals last.

    fresh_table.py RESULT.csv

The last lines have the ratio of the best general rival to ours: above 1 ours is the fastest. rw-bm and corw
serve one size, and are no rivals.
"""
import sys

from report import read

COLUMNS = ("cold", "first-free", "warm", "free", "first-churn", "churn", "first-pass", "pass", "start", "ready")
OURS, BOUNDS = ("G", "T"), ("rw-bm", "corw", "corw + map")


def measured(rows, shape, column):
    """{heap: {size: value}}"""
    found = {}
    for r in rows:
        ours, _, rest = r.case.partition("/")
        if ours in OURS and rest == "%s/%s" % (shape, column) and r.peer:
            found.setdefault(ours, {})[r.size] = r.ours
            found.setdefault(r.peer, {})[r.size] = r.theirs
    return found


def line(name, cells):
    print("%-24s" % name + "".join("%10s" % ("-" if cell is None else "%.4g" % cell) for cell in cells))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    rows, _ = read(sys.argv[1])
    shapes = sorted({r.case.split("/")[1] for r in rows if r.case.split("/")[0] in OURS})
    for shape in shapes:
        for column in COLUMNS:
            table = measured(rows, shape, column)
            sizes = sorted({size for values in table.values() for size in values})
            if not sizes:
                continue
            print("%-24s" % ("%s, %s" % (shape, column)) + "".join("%10d" % size for size in sizes))
            for name in sorted(table, key=lambda name: (name not in OURS, name in BOUNDS, name)):
                line(name, [table[name].get(size) for size in sizes])
            rivals = [values for name, values in table.items() if name not in OURS + BOUNDS]
            for ours in [name for name in OURS if name in table and rivals]:
                best = [min((r[size] for r in rivals if size in r), default=None) for size in sizes]
                line("best rival / " + ours, [b / table[ours][size] if b and table[ours].get(size) else None
                                              for b, size in zip(best, sizes)])
            print()


if __name__ == "__main__":
    main()
