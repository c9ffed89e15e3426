#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The device heap's policies on a GPU: makes rows of the output of tests/bench/heap.cu.

    heap.py RESULT.csv WORK [COMMENT]...

Ours is policy `granule`; the peers are the other policies, and the driver's own malloc (cuda). A slow pair
has fewer than nine measurements; the row's count has their number. Environment: BENCH_SECONDS (150), the
maximal time; BENCH_POLICIES, the policies to compare with (default: all).
"""
import os
import subprocess
import sys
import time

from measure import Gone, Table

SECONDS = float(os.environ.get("BENCH_SECONDS") or 150)
FAST = ["rw", "rw-bm", "corw", "bump"]
SLOW = ["kma", "ouro-s-p", "ouro-va-p", "ouro-vl-p", "ouro-s-c", "ouro-va-c", "ouro-vl-c"]
OURS = "granule"
# (part, policies, a process for each?, share of the time): the targets' parts are first.
PARTS = (
    ("targets", ["rw-bm", "corw"], False, 0.2),
    ("full", [OURS], False, 0.1),
    ("range", [OURS] + FAST[:3], False, 0.05),
    ("init", [OURS] + FAST + SLOW, False, 0.05),
    ("work", [OURS], False, 0.05),
    ("warp", FAST[:3], False, 0.05),
    ("scaling", FAST[:3], False, 0.05),
    ("hold", FAST[:3], False, 0.05),
    ("cuda", ["cuda"], True, 0.1),
    ("policies", ["rw", "bump"] + SLOW, True, 0.05),
    ("full", FAST, True, 0.03),
)


def add(table, line):
    """Adds a row for a line of heap.cu; see there."""
    word = line.split()
    if word and word[0] == "pair" and len(word) == 7:
        table.add(word[1], int(word[2]), word[3], float(word[4]), word[5], float(word[6]))
    elif word and word[0] == "one" and len(word) == 5:
        table.add(word[1], int(word[2]), word[3], float(word[4]))
    else:
        raise Gone("heap says: " + line.strip())


def run(table, where, part, policies, limit):
    """One process; its output counts even if it is cut after `limit` seconds."""
    process = subprocess.Popen([os.path.join(where, "heap"), part] + policies, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        said = said[:said.rfind("\n") + 1]
        table.comment("cut after %.0f s: %s %s" % (limit, part, " ".join(policies)))
    else:
        if process.returncode:
            table.comment("failed: %s %s: %s" % (part, " ".join(policies), (said.splitlines() or ["nothing"])[-1]))
            said = "\n".join(line for line in said.splitlines() if line.startswith(("pair", "one")))
    for line in said.splitlines():
        add(table, line)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    where, begin = os.path.dirname(os.path.abspath(__file__)), time.monotonic()
    wanted = os.environ.get("BENCH_POLICIES", "").split() or [OURS, "cuda"] + FAST + SLOW
    table = Table(sys.argv[1], "heap", sys.argv[3:])
    try:
        for part, policies, apart, share in PARTS:
            policies = [p for p in policies if p in wanted]
            for each in [[p] for p in policies] if apart else [policies]:
                if each:
                    run(table, where, part, each, max(2, share * SECONDS))
            print("# %-8s %5.1f s" % (part, time.monotonic() - begin), flush=True)
            table.write()
    except Gone as why:
        sys.exit("heap.py: %s" % why)


if __name__ == "__main__":
    main()
