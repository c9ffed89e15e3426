# SPDX-License-Identifier: BSD-3-Clause
"""Copies of an unmodified program (tests/bench/copies.c), preloaded and natively. Run by run.sh. Its
name is not copy.py, which would hide Python's own module.

    copy_suite.py RESULT.csv WORK_FOLDER COMMENT...

Each round starts the programs afresh, asks each of them for each size by turns, and adds one pair of values
to each row. First are nine rounds of 4 MiB and 1 GiB. Then follow nine rounds of the other sizes; slow copies
have only six or three. Rows are: copies to the device (h2d), from it to touched memory (d2h), and from it to
untouched memory (d2h-fresh), with default knobs (auto) and with eight threads (8), beside the native call,
and at 1 GiB also beside the native call with pinned memory; and copies of 1 GiB as users of PyTorch and CuPy
write them (tensors.py). Environment: BENCH_SECONDS (200), as for pool.py.
"""
import os
import sys
import time

from measure import PAIRS, Table
from pool import GIB, MIB, NATIVE, SECONDS, Suite

SIZES = [4 ** i for i in range(10)] + [MIB << i for i in range(13)]
KINDS = (("h2d", "h2d", "plain"), ("d2h", "d2h", "plain"), ("d2h-fresh", "d2h", "fresh"))
EARLY = (4 * MIB, GIB)  # sizes with the lowest ratios, and with most targets
FIRST = (64 * MIB, GIB)
LARGE_ROUNDS = 6  # rounds for sizes above 1 GiB: the minimum for an interval
SHARE_OF_DEVICE = SHARE_OF_HOST = 8  # no copy is larger than this part of either memory
TIME = 3000  # microseconds to copy a size
WARM = 256 * MIB
TENSOR_ROUNDS = 3
TENSORS = {"torch": ("cuda", "cpu", "numpy"), "cupy": ("asarray", "asnumpy")}


class Copy(Suite):
    def __init__(self, table, work):
        super().__init__(table, work)
        self.variants = {NATIVE: None, "auto": {"GPUMEM_COPY": "auto"}, "8": {"GPUMEM_COPY": "8"}}

    def limit(self):
        client = self.start(NATIVE, self.here("client"))
        total, cuda, *_ = client.ready().ask("device")
        client.end_input()
        client.process.wait()
        host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.largest = int(min(total // SHARE_OF_DEVICE, host // SHARE_OF_HOST))
        self.table.comment("device memory: %d MiB, CUDA %d, %d cores" % (total / MIB, cuda, len(self.processors)))

    def ask(self, client, direction, kind, size, microseconds):
        client.send("copy", direction, kind, size, microseconds)
        return client.answer(120)[0]

    def sizes(self, clients, sizes):
        for client in clients.values():  # the slots are made once copies are large enough
            self.ask(client, "h2d", "plain", sizes[-1], 0)
            self.ask(client, "h2d", "plain", min(self.largest, WARM), 0)
        for size in reversed(sizes):
            for case, direction, kind in KINDS:
                self.size(clients, case, direction, kind, size)
            self.table.write()

    def size(self, clients, case, direction, kind, size):
        wanted = self.time(TIME) if size <= 64 * MIB else 0
        values = {name: self.ask(clients[name], direction, kind, size, wanted) for name in self.turn(clients)}
        pinned = self.ask(clients[NATIVE], direction, "pinned", size, wanted) if size == GIB and kind == "plain" else None
        for name in clients:
            if name != NATIVE:
                self.table.add("%s/%s" % (case, name), size, "us", values[name], NATIVE, values[NATIVE])
                if size == GIB:
                    self.table.add("%s-rate/%s" % (case, name), size, "GB/s", size / values[name] / 1e3)
                if pinned:
                    self.table.add("%s/%s" % (case, name), size, "us", values[name], "pinned", pinned)

    def programs(self, early):
        large = self.round >= LARGE_ROUNDS
        sizes = [s for s in self.fitting(SIZES) if (s in EARLY) == early and not (large and s > GIB)]
        if sizes:
            self.with_clients(self.variants, [self.here("client")], lambda clients: self.sizes(clients, sizes))

    def early(self):
        self.programs(True)

    def others(self):
        self.programs(False)

    def tensors(self, library):
        if self.round >= TENSOR_ROUNDS:
            return
        def run(clients):
            for name in TENSORS[library]:
                got = {}
                for variant in self.turn(clients):
                    clients[variant].send("copy", name, GIB)
                    got[variant] = clients[variant].answer(120)[0]
                for variant in clients:
                    if variant != NATIVE:
                        self.table.add("%s-%s/%s" % (library, name, variant), GIB, "us", got[variant], NATIVE, got[NATIVE])
        self.with_clients((NATIVE, "auto"), [sys.executable, self.here("tensors.py"), library], run)

    def torch(self):
        self.tensors("torch")

    def cupy(self):
        self.tensors("cupy")

    def first(self):
        """The first copy of a process, which also makes the threads and slots."""
        sizes = self.fitting(FIRST)
        got = self.one_by_one([(name, ("copy", "h2d", "plain", size, 0)) for size in sizes for name in self.turn((NATIVE, "auto"))])
        for size in sizes:
            ours, theirs = (got[name, ("copy", "h2d", "plain", size, 0)][0][0] for name in ("auto", NATIVE))
            self.table.add("first-h2d/auto", size, "us", ours, NATIVE, theirs)

    def rounds(self, begin, parts):
        """Runs as many rounds of these parts as fit; at least one."""
        self.round = 0
        while self.round < PAIRS:
            round_began = time.monotonic()
            for part in parts:
                self.part(part.__name__, part)
            self.round += 1
            now = time.monotonic()
            print("# %s: round %d of %d: %.1f s" % (parts[0].__name__, self.round, PAIRS, now - round_began), flush=True)
            if self.round < PAIRS and now - begin + (now - round_began) > self.scale * SECONDS:
                self.table.comment("cut: %s: %d rounds fitted into %.0f s" % (parts[0].__name__, self.round, self.scale * SECONDS))
                break
        self.table.comment("%s: %d rounds, at %.0f s" % (parts[0].__name__, self.round, time.monotonic() - begin))
        self.table.write()

    def run(self):
        begin = time.monotonic()
        self.limit()
        self.rounds(begin, (self.early,))
        self.rounds(begin, (self.others, self.first, self.torch, self.cupy))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Copy(Table(sys.argv[1], "copy", sys.argv[3:]), sys.argv[2]).run()


if __name__ == "__main__":
    main()
