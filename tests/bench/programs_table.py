#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of programs/ beside the figures of the thesis.

    programs_table.py RESULT.csv

GB/s as in the thesis: 12 bytes a cell and step for the vector addition, 16 for the stencil. Gain: speed as a
multiple of in-core. Streams: the additional time of the worst number of streams over the best one, in
percent. Then the systems of systems.py.
"""
import sys

import systems
from report import read

BYTES = {"oocmap": 12, "oocstencil": 16}
# program, steps, mode, quantity, value: the thesis, tables 4.3 and 4.4, figures 4.3, 4.4, 4.6 and 4.7
THESIS = (
    ("oocmap", 1, "in-core", "GB/s", 12.16), ("oocmap", 1, "streamed", "GB/s", 15.92),
    ("oocmap", 1, "streamed", "gain", 1.3), ("oocmap", 1, "out-of-core", "gain", None),
    ("oocmap", 64, "streamed", "gain", None),
    ("oocmap", 3883, "in-core", "GB/s", 542.85), ("oocmap", 3883, "streamed", "GB/s", 545.83),
    ("oocmap", 3883, "streamed", "gain", 1.005),
    ("oocmap", 1, "streamed", "streams", 13.0), ("oocmap", 1, "out-of-core", "streams", 14.5),
    ("oocstencil", 1, "in-core", "GB/s", 16.09), ("oocstencil", 1, "streamed", "GB/s", 21.53),
    ("oocstencil", 1, "streamed", "gain", 1.33), ("oocstencil", 1, "out-of-core", "gain", None),
    ("oocstencil", 64, "streamed", "gain", None),
    ("oocstencil", 3883, "in-core", "GB/s", 508.83), ("oocstencil", 3883, "streamed", "GB/s", 513.58),
    ("oocstencil", 3883, "streamed", "gain", 1.009),
    ("oocstencil", 1, "streamed", "streams", 11.49), ("oocstencil", 1, "out-of-core", "streams", 15.9),
)


def of(rows, case, peer):
    return next((row for row in rows if row.case == case and row.peer == peer), None)


def rates(rows, program, steps, mode):
    """GB/s natively and preloaded."""
    row = of(rows, "%s/t=%d/pinned/%s" % (program, steps, mode), "native")
    moved = row and row.size / 4 * BYTES[program] * steps / 1e6
    return (moved / row.theirs, moved / row.ours) if row else (None, None)


def gains(rows, program, steps, mode):
    found = (of(rows, "%s/t=%d/pinned/%s/%s" % (program, steps, mode, variant), "in-core") for variant in ("native", "preloaded"))
    return tuple(row and row.ratio for row in found)


def spreads(rows, program, steps, mode):
    found = [row for row in rows if row.case.startswith("%s/t=%d/pinned/%s/streams=" % (program, steps, mode))]
    times = ([row.theirs for row in found], [row.ours for row in found])
    return tuple(100 * (max(some) / min(some) - 1) if some else None for some in times)


def cell(value):
    return "-" if value is None else "%.4g" % value


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    rows, _ = read(sys.argv[1])
    print("%-11s %5s %-12s %-8s %8s %8s %10s" % ("program", "steps", "mode", "", "thesis", "native", "preloaded"))
    for program, steps, mode, what, thesis in THESIS:
        native, preloaded = {"GB/s": rates, "gain": gains, "streams": spreads}[what](rows, program, steps, mode)
        print("%-11s %5d %-12s %-8s %8s %8s %10s" % (program, steps, mode, what, cell(thesis), cell(native), cell(preloaded)))
    print()
    systems.show(rows, "native")


if __name__ == "__main__":
    main()
