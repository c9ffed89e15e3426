# SPDX-License-Identifier: BSD-3-Clause
"""Two builds of the preload by turns: the cost or gain of a change.

    turns.py RESULT.csv BEFORE.so AFTER.so COMMENT...

Each round starts one client under each library, and asks both the same, in an order that changes. It adds one
pair of values to each row, `ours` of AFTER and `theirs` of BEFORE. Knobs are those of the environment
(GPUMEM_FREE=defer). The run ends after BENCH_SECONDS (150), but not before 15 rounds, or BENCH_ROUNDS.
BENCH_CASES, as "turns/pair:512 turns/threads=4:65536", measures only these rows. Needs client in the same
folder (tests/bench/local.mk, bench-bundle).
"""
import math
import os
import random
import statistics
import sys
import tempfile
import time

from measure import Client, Table, close_all, kill_all

HERE = os.path.dirname(os.path.abspath(__file__))
KIB, MIB = 1 << 10, 1 << 20
PAIR_TIME, CREW_TIME = 4000, 8000  # microseconds
ONLY = os.environ.get("BENCH_CASES", "").split()
SIZES = [512, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 128 * MIB]


def questions(largest):
    sizes = [size for size in SIZES if size <= largest]
    for size in sizes:
        yield "turns/pair", size, "us", ("pair", "plain", size, PAIR_TIME)
    for n in (1, 4, 8, 16):
        for size in sizes:
            yield "turns/threads=%d" % n, size, "pairs/s", ("threads", "plain", n, size, "same", CREW_TIME)
    for n in (1, 8):
        yield "turns/mixed=%d" % n, 4 * KIB, "pairs/s", ("threads", "plain", n, 4 * KIB, "mixed", CREW_TIME)


def start(library, work):
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library), GPUMEM_LOG_NAME=os.path.join(work, "%p.gml"))
    return Client([os.path.join(HERE, "client")], environment, work)


def play_round(table, libraries, work):
    order = random.sample(libraries, len(libraries))
    clients = {library: start(library, work) for library in order}
    try:
        for client in clients.values():
            client.ready()
        largest = clients[order[0]].ask("device")[0] // 64
        for case, size, unit, command in questions(largest):
            if ONLY and "%s:%d" % (case, size) not in ONLY:
                continue
            random.shuffle(order)
            values = {library: clients[library].ask(*command)[0] for library in order}
            table.add(case, size, unit, values[libraries[1]], "before", values[libraries[0]])
        close_all(clients.values())
    finally:
        kill_all(clients.values())


def main(path, before, after, *comments):
    table, rounds = Table(path, "turns", comments), 0
    end = time.monotonic() + float(os.environ.get("BENCH_SECONDS", 150))
    with tempfile.TemporaryDirectory() as work:
        while rounds < int(os.environ.get("BENCH_ROUNDS", 15)) or time.monotonic() < end:
            play_round(table, [before, after], work)
            rounds += 1
            table.write()
    ratios = [float(table.line(key, pairs).split(",")[8]) for key, pairs in table.rows.items()]
    table.comment("%d rounds; geometric mean of the ratios %.3f" % (rounds, math.exp(statistics.mean(map(math.log, ratios)))))
    table.write()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__.strip().split("\n\n")[1].strip())
    main(*sys.argv[1:])
