# SPDX-License-Identifier: BSD-3-Clause
"""malloc in the kernels of an unmodified program, preloaded and natively. Run by run.sh.

    inkernel.py RESULT.csv WORK_FOLDER COMMENT...

Each round starts the programs of tests/bench/inkernel.cu afresh, and adds one pair of values to each row.
"first" is the first kernel of a process, for which a heap has to grow; the other rows are for a heap that has
grown. Natively the limit of the heap is raised to 1 GiB, except for the rows of the default limit.
Environment: BENCH_SECONDS (200), as for pool.py.
"""
import os
import statistics
import sys
import time

from measure import PAIRS, Client, Gone, Table, close_all, kill_all
from pool import LAUNCH_TIME, NATIVE, SECONDS, Suite

OURS = "sync"
MILLION, SIZE, GIB = 1000000, 64, 1 << 30
WARM, TIMED = 4, 3  # turns of a round until the heap has grown, and turns for the median
GROWTHS, PIECE = 200, 160 << 20  # longer than the heap's own growth step
LIMIT = 120  # seconds for an answer: the driver's malloc is slow


class Inkernel(Suite):
    nulls = 0

    def ask(self, client, *words):
        client.send(*words)
        return client.answer(LIMIT)

    def turn_of(self, client, *words):
        """The times to allocate and to release, for comparison."""
        allocated, released, nulls, wrong = self.ask(client, *words)
        if nulls or wrong:
            raise Gone("%s: %d threads got NULL, %d words were wrong" % (" ".join(map(str, words)), nulls, wrong))
        return allocated, released

    def add(self, case, size, got):
        for what, ours, theirs in zip(("malloc", "free"), got[OURS], got[NATIVE]):
            self.table.add(case % what, size, "us", ours, NATIVE, theirs)

    def warm(self, client, *words):
        """The medians for a heap that has grown."""
        turns = [self.turn_of(client, *words) for _ in range(WARM + TIMED)][WARM:]
        return [statistics.median(values) for values in zip(*turns)]

    def harmless(self, clients, case):
        """Launches of a kernel that does not allocate, before and after other kernels of the program have allocated."""
        self.alternate(case, "ns", clients, "launch", self.time(LAUNCH_TIME))

    def pieces(self, clients):
        names = self.turn((NATIVE, OURS))
        for name in names:
            self.ask(clients[name], "limit", GIB)
        self.harmless(clients, "launch-before")
        self.add("first-%s", SIZE, {name: self.turn_of(clients[name], "pieces", MILLION, SIZE) for name in names})
        self.add("%s", SIZE, {name: self.warm(clients[name], "pieces", MILLION, SIZE) if name == OURS else
                              self.turn_of(clients[name], "pieces", MILLION, SIZE) for name in names})
        got = {name: self.warm(clients[name], "objects", MILLION) if name == OURS else
               self.turn_of(clients[name], "objects", MILLION) for name in names}
        for what, ours, theirs in zip(("new", "delete"), got[OURS], got[NATIVE]):
            self.table.add(what, None, "us", ours, NATIVE, theirs)
        self.harmless(clients, "launch-beside")

    def programs(self):
        self.with_clients((NATIVE, OURS), [self.here("inkernel")], self.pieces)

    def alone(self, run):
        """run(client) of a preloaded program."""
        self.with_clients((OURS,), [self.here("inkernel")], lambda clients: run(clients[OURS]))

    def default(self):
        """Ten million threads at the default limits; all NULLs of all rounds are one value."""
        def run(client):
            allocated, released, nulls, wrong = self.ask(client, "pieces", 10 * MILLION, SIZE)
            if wrong:
                raise Gone("%d words were wrong" % wrong)
            self.nulls += nulls
            self.table.rows[("nulls", SIZE, "NULLs", "")] = [(self.nulls, None)]
            self.table.add("first-malloc/threads=10000000", SIZE, "us", allocated)
            self.table.add("first-free/threads=10000000", SIZE, "us", released)
        self.alone(run)

    def growth(self):
        def run(client):
            median, most, nulls = self.ask(client, "growth", GROWTHS, PIECE)
            if nulls:
                raise Gone("%d pieces of %d bytes were refused" % (nulls, PIECE))
            self.table.add("growth", PIECE, "us", median)
            self.table.add("growth/longest", PIECE, "us", most)
        self.alone(run)

    def native(self):
        """The number of threads without a block in the driver's own heap, at the default limit; once, because it is slow."""
        client = self.start(NATIVE, self.here("inkernel"))
        try:
            client.ready()
            allocated, _, nulls, _ = self.ask(client, "pieces", 10 * MILLION, SIZE)
            self.table.add("nulls/native", SIZE, "NULLs", nulls)
            self.table.add("first-malloc/threads=10000000/native", SIZE, "us", allocated)
            close_all([client])
        finally:
            kill_all([client])

    def run(self):
        begin = time.monotonic()
        parts = (("programs", self.programs), ("default", self.default), ("growth", self.growth))
        while self.round < PAIRS:
            round_began = time.monotonic()
            for name, part in parts:
                self.part(name, part)
            self.round += 1
            now = time.monotonic()
            print("# round %d of %d: %.1f s" % (self.round, PAIRS, now - round_began), flush=True)
            if self.round < PAIRS and now - begin + (now - round_began) > self.scale * SECONDS:
                self.table.comment("cut: %d rounds fitted into %.0f s" % (self.round, self.scale * SECONDS))
                break
        self.part("native", self.native)
        self.table.comment("%d rounds in %.0f s" % (self.round, time.monotonic() - begin))
        self.table.write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Inkernel(Table(sys.argv[1], "inkernel", sys.argv[3:]), sys.argv[2]).run()


if __name__ == "__main__":
    main()
