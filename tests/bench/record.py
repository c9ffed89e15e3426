# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a log of every event, with and without call stacks. Run by run.sh.

    record.py RESULT.csv WORK_FOLDER COMMENT...

Programs that differ only in their log run side by side, and are asked by turns, nine times, in an order that
changes. Rows are: a step of PyTorch (train.py), without its cache and with it, logged as by `gpumemstat
record`, beside the same without stacks and beside the small log; an event, in ns: half the difference of a
warm pair of cudaMalloc and cudaFree to the small log; and a call stack: the difference of such a pair with
and without stacks. Environment: BENCH_SECONDS (200), as for pool.py.
"""
import sys
import time

from measure import PAIRS, Table
from pool import KIB, MIB, Suite

LOGS = {"small": {}, "events": {"GPUMEM_LOG": "events", "GPUMEM_STACKS": "off"}, "stacks": {"GPUMEM_LOG": "events", "GPUMEM_STACKS": "large"}}
CACHES = {"no-cache": ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, 5), "cache": ({}, 40)}  # and the number of steps in a measurement
BELOW, ABOVE = 4 * KIB, MIB  # sizes below and above the limit from which on an allocation has a stack
TIME = 20000  # microseconds, for pairs


class Record(Suite):
    def __init__(self, table, work):
        super().__init__(table, work)
        self.variants = dict(LOGS)
        for cache, (knobs, _) in CACHES.items():
            self.variants.update({"%s/%s" % (log, cache): {**of_log, **knobs} for log, of_log in LOGS.items()})

    def rounds(self, run):
        """Nine rounds, or as many as fit into a share of the time."""
        end = time.monotonic() + self.scale * 60
        for self.round in range(PAIRS):
            run()
            if time.monotonic() > end:
                break

    def events(self, clients):
        def run():
            got = {(name, size): clients[name].ask("pair", "plain", size, self.time(TIME))[0] * 1e3
                   for size in (BELOW, ABOVE) for name in self.turn(LOGS)}
            for size in (BELOW, ABOVE):
                self.table.add("event", size, "ns", (got["events", size] - got["small", size]) / 2)
            self.table.add("stack", ABOVE, "ns", got["stacks", ABOVE] - got["events", ABOVE])
        self.rounds(run)

    def steps(self, cache):
        def run(clients):
            for client in clients.values():
                client.send("setup")
            for client in clients.values():
                client.answer(120)

            def ask():
                steps = CACHES[cache][1]
                got = {name: clients["%s/%s" % (name, cache)].ask("train", steps)[0] for name in self.turn(LOGS)}
                for peer in ("events", "small"):
                    self.table.add("step/" + cache, None, "us", got["stacks"], peer, got[peer])
            self.rounds(ask)
        names = ["%s/%s" % (log, cache) for log in LOGS]
        self.with_clients(names, [sys.executable, self.here("train.py")], run)

    def run(self):
        self.part("events", lambda: self.with_clients(LOGS, [self.here("client")], self.events))
        for cache in CACHES:
            self.part("step/" + cache, lambda: self.steps(cache))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Record(Table(sys.argv[1], "record", sys.argv[3:]), sys.argv[2]).run()


if __name__ == "__main__":
    main()
