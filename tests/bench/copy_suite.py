# SPDX-License-Identifier: BSD-3-Clause
"""Copies of a program that knows nothing of gpumem (tests/bench/copies.c), preloaded and natively. Run by run.sh. Named so
because copy.py would be found in place of Python's own module.

    copy_suite.py RESULT.csv WORK_FOLDER COMMENT...

Each round starts the programs afresh, asks all of them for each size in turn, and gives one pair of values to each row. Rows
are of copies to the device (h2d), from it to memory that was touched (d2h), and to memory that was not (d2h-fresh), with
default knobs (auto) and with eight threads (8), beside the native call, and at 1 GiB beside the native call with pinned
memory; and of copies of 1 GiB as users of PyTorch and CuPy write them (tensors.py). Environment: BENCH_SECONDS (200), as for pool.py.
"""
import os
import sys
import time

from measure import PAIRS, Table
from pool import GIB, MIB, NATIVE, SECONDS, Suite

SIZES = [4 ** i for i in range(10)] + [MIB << i for i in range(13)]
KINDS = (("h2d", "h2d", "plain"), ("d2h", "d2h", "plain"), ("d2h-fresh", "d2h", "fresh"))
FIRST = (64 * MIB, GIB)
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

    def sizes(self, clients):
        for client in clients.values():  # slots are made, once that pays
            self.ask(client, "h2d", "plain", max(self.fitting(SIZES)), 0)
            self.ask(client, "h2d", "plain", min(self.largest, WARM), 0)
        for size in reversed(self.fitting(SIZES)):
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

    def programs(self):
        self.with_clients(self.variants, [self.here("client")], self.sizes)

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
        """The first copy of a process, with the threads and slots that it makes."""
        sizes = self.fitting(FIRST)
        got = self.one_by_one([(name, ("copy", "h2d", "plain", size, 0)) for size in sizes for name in self.turn((NATIVE, "auto"))])
        for size in sizes:
            ours, theirs = (got[name, ("copy", "h2d", "plain", size, 0)][0][0] for name in ("auto", NATIVE))
            self.table.add("first-h2d/auto", size, "us", ours, NATIVE, theirs)

    def run(self):
        begin = time.monotonic()
        self.limit()
        while self.round < PAIRS:
            round_began = time.monotonic()
            for name, part in (("programs", self.programs), ("first", self.first), ("torch", self.torch), ("cupy", self.cupy)):
                self.part(name, part)
            self.round += 1
            now = time.monotonic()
            print("# round %d of %d: %.1f s" % (self.round, PAIRS, now - round_began), flush=True)
            if self.round < PAIRS and now - begin + (now - round_began) > self.scale * SECONDS:
                self.table.comment("cut: %d rounds fitted into %.0f s" % (self.round, self.scale * SECONDS))
                break
        self.table.comment("%d rounds in %.0f s" % (self.round, time.monotonic() - begin))
        self.table.write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Copy(Table(sys.argv[1], "copy", sys.argv[3:]), sys.argv[2]).run()


if __name__ == "__main__":
    main()
