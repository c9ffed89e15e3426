#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turn a trace in RMM's CSV (Thread,Time,Action,Pointer,Size,Stream; plain or .gz) into the input of
replay.c.

    trace.py TRACE.csv[.gz] >trace.txt
"""
import csv
import gzip
import sys


def convert(rows):
    """Lines "a BLOCK SIZE" and "f BLOCK": blocks are numbered, and the number of a freed block is used again."""
    alive, spare, most = {}, [], 0
    for row in rows:
        pointer, size = row["Pointer"], int(row["Size"])
        if row["Action"] == "allocate" and size > 0:
            if pointer in alive:
                raise ValueError("%s is allocated twice" % pointer)
            if not spare:
                spare.append(most)
                most += 1
            alive[pointer] = spare.pop()
            yield "a %d %d" % (alive[pointer], size)
        elif row["Action"] == "free" and pointer in alive:  # otherwise allocated before the trace began
            spare.append(alive.pop(pointer))
            yield "f %d" % spare[-1]
    for block in alive.values():
        yield "f %d" % block


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = sys.argv[1]
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
        try:
            for line in convert(csv.DictReader(file)):
                print(line)
        except (KeyError, ValueError) as why:
            sys.exit("trace.py: %s: %s" % (path, why))


if __name__ == "__main__":
    main()
