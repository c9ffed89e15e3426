#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""All policies of the device heap beside other allocators, as tables.

    heap_table.py RESULT.csv

Microseconds for 1,000,000 threads, a line for each allocator: those of the file, and, with names in brackets,
those of the CSV files h200_peers_thread.csv and h200_peers_churn.csv in $GPUMEM_TEST_DATA, which were
measured separately. There the heaps of rw-bm, corw and rw serve blocks of one size, chosen when the heap is
made.
"""
import csv
import os
import sys

from report import read

OURS = "granule"
# column: (case; for the peers' files, which are named by it; and their field)
COLUMNS = {
    "cold": ("thread", "alloc_cold_us"),
    "warm": ("thread", "alloc_med_us"),
    "free": ("thread", "free_med_us"),
    "churn": ("churn", "alloc_med_us"),
}


def measured(rows, column):
    """{allocator: {size: us}}; our value is that measured beside the first peer with this size."""
    found = {}
    for row in rows:
        if row.case == "thread/" + column and row.peer:
            found.setdefault(row.peer, {})[row.size] = row.theirs
            found.setdefault(OURS, {}).setdefault(row.size, row.ours)
    return found


def others(folder, column):
    mode, field = COLUMNS[column]
    path, found = os.path.join(folder, "h200_peers_%s.csv" % mode), {}
    if not os.path.exists(path):
        return found
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["n"] == "1000000" and row["status"] == "ok" and float(row[field] or -1) > 0:
                found.setdefault("(%s)" % row["allocator"], {})[int(row["size"])] = float(row[field])
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    rows, _ = read(sys.argv[1])
    folder = os.environ.get("GPUMEM_TEST_DATA", "")
    for column in COLUMNS:
        table = measured(rows, column)
        sizes = sorted({size for line in table.values() for size in line})
        if folder:
            table.update(others(folder, column))
        print("%-16s" % column + "".join("%10d" % size for size in sizes))
        for name in sorted(table, key=lambda name: (name != OURS, name)):
            cells = (table[name].get(size) for size in sizes)
            print("%-16s" % name + "".join("%10s" % ("-" if us is None else "%.0f" % us) for us in cells))
        print()


if __name__ == "__main__":
    main()
