# SPDX-License-Identifier: BSD-3-Clause
"""The suite of the pool; doc/performance.md has its targets. Run by run.sh.

    pool.py RESULT.csv WORK_FOLDER COMMENT...

Programs that differ only in the preload run side by side, and are asked by turns, in an order that changes in
each round. Every round starts them afresh, and adds one pair of values to each row of the table, which is
written after each part. Environment: BENCH_SECONDS (200), the time for the run: nine rounds, or as many as
fit.
"""
import json
import os
import statistics
import subprocess
import sys
import time

from measure import PAIRS, Client, Gone, Table, close_all, kill_all

HERE = os.path.dirname(os.path.abspath(__file__))
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WARM = sorted([512 * 4 ** i for i in range(12)] + [777, 3000, 100000, MIB, 3 * MIB // 2, 64 * MIB, 4 * GIB])
COLD = [512, MIB, 2 * MIB, 32 * MIB, 256 * MIB, GIB, 4 * GIB]
CREWS = [1, 2, 4, 8, 16]
CREW_SIZE, CREW_MIXED = 64 * KIB, 4 * KIB
EIGHT = [512, MIB, 16 * MIB, 256 * MIB]  # further sizes for one and for eight threads
UNDER = [512, MIB, 64 * MIB]
SHARE_OF_DEVICE = 24  # no block is larger than this part: there are 16 threads, and pools keep memory
NATIVE = "native"
SECONDS = 200.0  # the times below, in microseconds, are for this value
PAIR_TIME, CREW_TIME, KERNEL_TIME, LAUNCH_TIME, GEMM_TIME = 6000, 8000, 3000, 20000, 15000
UNDER_ROUNDS, TRAIN_STEPS, ALTERNATIONS, EXECS = 4, 40, 5, 200
ALONE = 4  # runs of one thread on different processors, because several threads use several processors, too


class Suite:
    def __init__(self, table, work):
        self.table, self.work = table, work
        self.scale = float(os.environ.get("BENCH_SECONDS", SECONDS)) / SECONDS
        self.libraries = os.environ.get("BENCH_LIBRARIES", "")
        self.preload = os.environ.get("BENCH_PRELOAD") or os.path.join(HERE, "libgpumem.so")
        self.round, self.started, self.largest, self.broken = 0, 0, 0, set()
        self.native_used = 0  # bytes of the device, at the peak of the trace
        self.processors = sorted(os.sched_getaffinity(0))
        knobs = subprocess.run([self.here("gpumemstat"), "env"], check=True, capture_output=True, text=True).stdout
        self.variants = {NATIVE: None, "sync": {}, "sync/log=off": {"GPUMEM_LOG": "off"}}
        if any(line.startswith("GPUMEM_FREE ") for line in knobs.splitlines()):
            self.variants["defer"] = {"GPUMEM_FREE": "defer"}
            self.variants["defer/log=off"] = {"GPUMEM_FREE": "defer", "GPUMEM_LOG": "off"}
        else:
            table.comment("skipped: defer: this build has no GPUMEM_FREE")

    @staticmethod
    def here(name):
        return os.path.join(HERE, name)

    def time(self, microseconds):
        return max(200, int(microseconds * self.scale))

    def start(self, variant, *command):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUMEM_")}
        log = None
        if self.variants[variant] is not None:
            self.started += 1
            log = os.path.join(self.work, "%d.gml" % self.started)
            environment.update(self.variants[variant], LD_PRELOAD=self.preload, GPUMEM_LOG_NAME=log)
        if command[0].endswith("blas"):
            environment["LD_LIBRARY_PATH"] = self.libraries
        return Client(command, environment, self.work, log)

    def turn(self, names):
        """The names, with another first name in each round."""
        names = list(names)
        at = self.round % len(names)
        return names[at:] + names[:at]

    def fitting(self, sizes):
        return [size for size in sizes if size <= self.largest]

    def counters(self, log):
        """The counters of device 0 in the log of an ended program."""
        said = subprocess.run([self.here("gpumemstat"), "summary", "--json", log], check=True, capture_output=True, text=True)
        return json.loads(said.stdout)["logs"][0]["devices"][0]["counters"]

    def part(self, name, run):
        """One part of a round: a failure is reported once, and the part is not run again."""
        if name in self.broken:
            return
        try:
            run()
        except Exception as why:  # of any kind: the other parts are still valid
            self.broken.add(name)
            self.table.comment("skipped: %s: %s" % (name, why if isinstance(why, (Gone, OSError)) else repr(why)))
        self.table.write()

    def with_clients(self, names, command, run):
        """run({name: client}), with one program for each variant, all of them ready."""
        clients = {name: self.start(name, *command) for name in names}
        try:
            for client in clients.values():
                client.ready()
            run(clients)
            close_all(clients.values())
        finally:
            kill_all(clients.values())
        return clients

    # Programs that allocate.

    def processor(self, nth):
        """A different processor for each `nth`, and in each round: some processors are faster for a while."""
        return self.processors[(self.round * ALONE + nth) % len(self.processors)]

    def mean(self, client, command, runs):
        values = []
        for nth in range(runs):
            if runs > 1:
                client.run_on({self.processor(nth)})
            values.append(client.ask(*command)[0])
        if runs > 1:
            client.run_on(self.processors)
        return statistics.mean(values)

    def ask_all(self, clients, case, size, unit, command, asynchronous=None, names=None, runs=1):
        """Ask each variant the same; a row for each beside native, and beside the stream-ordered calls."""
        values = {}
        for name in self.turn(names or clients):
            values[name] = self.mean(clients[name], command, runs)
            if name == NATIVE and asynchronous:
                values["async"] = self.mean(clients[name], asynchronous, runs)
        for name in clients:
            if name != NATIVE and name in values:
                for peer in (NATIVE, "async"):
                    self.table.add("%s/%s" % (case, name), size, unit, values[name], peer, values.get(peer))
        return values

    def on_one_processor(self, clients, ask):
        """Pins all clients to the same processor; `ask` alternates between them."""
        for client in clients.values():
            client.run_on({self.processor(0)})
        ask(clients)
        for client in clients.values():
            client.run_on(self.processors)

    def warm(self, clients):
        for size in self.fitting(WARM):
            time_each = self.time(PAIR_TIME)
            self.ask_all(clients, "warm", size, "us", ("pair", "plain", size, time_each), ("pair", "ordered", size, time_each))

    def crews(self, clients):
        names = [name for name in clients if "/" not in name]
        cases = [(n, size, kind) for kind, size in (("same", CREW_SIZE), ("mixed", CREW_MIXED)) for n in CREWS]
        cases += [(n, size, "same") for size in self.fitting(EIGHT) for n in (1, 8)]
        alone = {}
        for n, size, kind in cases:
            runs = ALONE if n == 1 else 1
            rest = (n, size, kind, self.time(CREW_TIME / 2 if n == 1 else CREW_TIME))
            values = self.ask_all(clients, "threads=%d/%s" % (n, kind), size, "pairs/s", ("threads", "plain") + rest,
                                  ("threads", "ordered") + rest, names, runs)
            if n == 1:
                alone[size, kind] = values
            for name in names:
                if n > 1:
                    self.table.add("threads=%d/%s/%s" % (n, kind, name), size, "pairs/s", values[name], "one thread",
                                   alone[size, kind][name])

    def under(self, clients):
        names = self.turn(name for name in clients if "/" not in name)
        for size in self.fitting(UNDER):
            got = {name: clients[name].ask("free_under", size, self.time(KERNEL_TIME), UNDER_ROUNDS) for name in names}
            for name in names:
                self.table.add("free-under-kernel/%s/waited" % name, size, "frees", got[name][1])
                if name != NATIVE:
                    self.table.add("free-under-kernel/%s" % name, size, "us", got[name][0], NATIVE, got[NATIVE][0])

    def alternate(self, case, unit, clients, *command):
        """A row for one value: both variants are asked several times by turns; the median of each."""
        values = {name: [] for name in (NATIVE, "sync")}
        for _ in range(ALTERNATIONS):
            for name in self.turn(values):
                values[name].append(clients[name].ask(*command)[0])
        ours, theirs = (statistics.median(values[name]) for name in ("sync", NATIVE))
        self.table.add(case + "/sync", None, unit, ours, NATIVE, theirs)

    def launches(self, clients):
        self.alternate("launch", "ns", clients, "launch", self.time(LAUNCH_TIME))

    def programs(self):
        def run(clients):
            self.on_one_processor(clients, self.warm)
            self.table.write()
            self.crews(clients)
            self.table.write()
            self.under(clients)
            self.on_one_processor(clients, self.launches)
        clients = self.with_clients(self.variants, [self.here("client")], run)
        for name, client in clients.items():
            if name in ("sync", "defer"):
                self.table.add("retired-peak/" + name, None, "B", self.counters(client.log)["retired_peak"])

    # New programs: all are started first. When all have their context, each is asked one thing.

    def one_by_one(self, asked):
        """{(name, command): (answer, log)} for this list."""
        clients = [self.start(name, self.here("client")) for name, _ in asked]
        try:
            for client in clients:
                client.ready()
            answers = [client.ask(*command) for (_, command), client in zip(asked, clients)]
            close_all(clients)
        finally:
            kill_all(clients)
        return {key: (answer, client.log) for key, answer, client in zip(asked, answers, clients)}

    def cold(self):
        sizes = self.fitting(COLD)
        got = self.one_by_one([(name, ("first", size)) for size in sizes for name in self.turn((NATIVE, "sync"))])
        for size in sizes:
            ours, theirs = (got[name, ("first", size)][0][0] for name in ("sync", NATIVE))
            self.table.add("cold/sync", size, "us", ours, NATIVE, theirs)

    def replay(self):
        trace = self.here("trace.txt")
        if not os.path.exists(trace):
            raise Gone("the bundle was made without TRACE")
        names = [name for name in self.variants if "/" not in name]
        asked = [(name, ("replay", trace)) for name in self.turn(names)]
        if not self.native_used:
            asked.append((NATIVE, ("replay_used", trace)))
        got = self.one_by_one(asked)
        if not self.native_used:
            self.native_used = got[NATIVE, ("replay_used", trace)][0][1]
        for name in names:
            if name != NATIVE:
                self.replay_rows(name, got[NATIVE, ("replay", trace)][0][0], *got[name, ("replay", trace)])

    def replay_rows(self, name, native_time, answer, log):
        took, peak, _ = answer
        counters = self.counters(log)
        if counters["requested_peak"] != peak or counters["allocate_driver"] != 0:
            raise Gone("replay: %d of %d bytes at the peak were the pool's" % (counters["requested_peak"], peak))
        mapped, used = counters["mapped_peak"], self.native_used
        self.table.add("replay/%s/time" % name, None, "us", took, NATIVE, native_time)
        self.table.add("replay/%s/mapped-peak" % name, None, "B", mapped, NATIVE, used)
        self.table.add("replay/%s/utilisation" % name, None, "share", peak / mapped, NATIVE, peak / used)

    # Programs that gpumem must not slow down.

    def blas(self):
        def run(clients):
            self.alternate("blas", "us", clients, "gemm", self.time(GEMM_TIME))
        self.with_clients((NATIVE, "sync"), [self.here("blas")], lambda clients: self.on_one_processor(clients, run))

    def torch(self):
        clients, starts = {}, {}
        try:
            for name in self.turn((NATIVE, "sync")):
                begin = time.monotonic()
                clients[name] = self.start(name, sys.executable, self.here("train.py")).ready()
                starts[name] = (time.monotonic() - begin) * 1e3
            self.table.add("torch-start/sync", None, "ms", starts["sync"], NATIVE, starts[NATIVE])
            for client in clients.values():
                client.run_on({self.processor(0)})  # and the threads of its backward steps, which setup makes
                client.send("setup")
            for client in clients.values():
                client.answer()
            self.alternate("train", "us", clients, "train", max(5, int(TRAIN_STEPS * self.scale)))
        finally:
            kill_all(clients.values())

    def execs(self):
        """exec.c prints for each library the median time, and the median of the difference to the first library."""
        said = subprocess.run([self.here("exec"), str(max(5, int(EXECS * self.scale))), self.here("libempty.so"), self.preload,
                               "--", "/bin/true"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        empty, more = float(said[0].split()[0]), float(said[1].split()[2])
        self.table.add("exec/sync", None, "us", empty + more, "empty preload", empty)

    def warm_up(self):
        """Fills the page cache with the files, and queries the size of the device."""
        others = [self.start(name, *command) for name in (NATIVE, "sync")
                  for command in ([self.here("blas")], [sys.executable, self.here("train.py")])
                  if all(os.path.exists(file) for file in command)]
        client = self.start(NATIVE, self.here("client"))
        try:
            total, cuda, *name = client.ready().ask("device")
            self.largest = int(total) // SHARE_OF_DEVICE
            self.table.comment("device memory: %d MiB, CUDA %d" % (total / MIB, cuda))
            for other in others:
                try:
                    other.ready()
                except Gone:
                    pass  # its part will report that
        finally:
            kill_all(others + [client])

    def run(self):
        begin = time.monotonic()
        limit = self.scale * SECONDS
        self.warm_up()
        parts = (("programs", self.programs), ("cold", self.cold), ("replay", self.replay), ("blas", self.blas),
                 ("torch", self.torch), ("exec", self.execs))
        while self.round < PAIRS:
            round_began = time.monotonic()
            for name, part in parts:
                part_began = time.monotonic()
                self.part(name, part)
                print("# round %d of %d: %-8s %5.1f s" % (self.round + 1, PAIRS, name, time.monotonic() - part_began), flush=True)
            self.round += 1
            now = time.monotonic()
            if self.round < PAIRS and now - begin + (now - round_began) > limit:
                self.table.comment("cut: %d rounds fitted into %.0f s" % (self.round, limit))
                break
        self.table.comment("%d rounds in %.0f s" % (self.round, time.monotonic() - begin))
        self.table.write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    suite = Suite(Table(sys.argv[1], "pool", sys.argv[3:]), sys.argv[2])
    try:
        suite.run()
    except Gone as why:
        sys.exit("pool.py: %s" % why)


if __name__ == "__main__":
    main()
