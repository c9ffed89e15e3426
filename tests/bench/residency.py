# SPDX-License-Identifier: BSD-3-Clause
"""Sleep and wake of a program that knows nothing of gpumem (tests/bench/residency.c), beside cuCheckpointProcess of
the same program without gpumem. Run by run.sh.

    residency.py RESULT.csv WORK_FOLDER COMMENT...

Each round starts the programs afresh: one with a store that is kept (GPUMEM_SLEEP_STORE=100%), which sleeps twice, so
that the second time finds its pages, one with new pages for each sleep, and a native one. A time is that of the whole
command `gpumemstat sleep` or `wake`. Environment: BENCH_SECONDS (200), as for pool.py; BENCH_GIB (48), what a program
holds, less where the device or the host has less.
"""
import os
import statistics
import subprocess
import sys
import time

from measure import PAIRS, Gone, Table
from pool import ALTERNATIONS, GIB, MIB, NATIVE, SECONDS, Suite

SHARE_OF_DEVICE, SHARE_OF_HOST = 0.6, 0.35  # that a program holds at most
LAUNCH_TIME = 20000  # microseconds


class Residency(Suite):
    def __init__(self, table, work):
        super().__init__(table, work)
        sleeps = {"GPUMEM_SLEEP": "1", "GPUMEM_LOG": "off"}
        self.variants = {NATIVE: None, "observer": None, "awake": {"GPUMEM_LOG": "off"},
                         "warm": dict(sleeps, GPUMEM_SLEEP_STORE="100%"), "fresh": sleeps}

    def limit(self):
        client = self.start(NATIVE, self.here("client"))
        total, cuda, *_ = client.ready().ask("device")
        client.end_input()
        client.process.wait()
        host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted = float(os.environ.get("BENCH_GIB", "48")) * GIB
        self.size = int(min(wanted, total * SHARE_OF_DEVICE, host * SHARE_OF_HOST)) // (2 * MIB) * 2 * MIB
        self.table.comment("device memory: %d MiB, host memory: %d MiB, CUDA %d, %d cores" %
                           (total / MIB, host / MIB, cuda, len(self.processors)))

    def tool(self, command, client):
        """Seconds that the command takes."""
        began = time.monotonic()
        done = subprocess.run([self.here("gpumemstat"), command, str(client.process.pid)], capture_output=True, text=True)
        if done.returncode:
            raise Gone(done.stderr.strip())
        return time.monotonic() - began

    def rate(self, case, seconds):
        self.table.add(case, self.size, "GB/s", self.size / seconds / 1e9)

    def held(self, client):
        if client.answer_of("held") != 0:
            raise Gone("%s: contents differ" % client.name)

    def cycle(self, name, client, checkpoint):
        """One sleep and wake; of the second one of the warm store beside the driver's."""
        out = self.tool("sleep", client)
        into = self.tool("wake", client)
        kernel = client.answer_of("touch")
        self.held(client)
        self.rate("out/" + name, out)
        self.rate("in/" + name, into)
        self.table.add("first-kernel/" + name, self.size, "us", kernel)
        if checkpoint:
            for case, seconds, theirs in (("sleep", out, checkpoint[0]), ("wake", into, checkpoint[1])):
                self.table.add("%s/%s" % (case, name), self.size, "s", seconds, "checkpoint", theirs / 1e6)

    def room(self, observer):
        return observer.answer_of("room")

    def left(self, observer, end):
        """Bytes of the device that the program which `end` ends has."""
        before = self.room(observer)
        end()
        return self.room(observer) - before

    def start_ready(self, name):
        client = Asked(self.start(name, self.here("client")))
        self.running.append(client)
        client.ready()
        return client

    def end(self, client):
        self.running.remove(client)
        client.end_input()
        if client.process.wait(120) != 0:
            raise Gone("%s: ended with status %d" % (client.name, client.process.returncode))

    def checkpoint(self, observer):
        """(out, in) in microseconds of a native program that holds as much; None: the driver has no such calls."""
        client = self.start_ready(NATIVE)
        client.ask("hold", self.size)
        observer.send("checkpoint", client.process.pid)
        times = observer.answer(600)
        if times:
            self.held(client)
        else:
            self.table.comment("skipped: checkpoint: this driver has no cuCheckpointProcess")
        self.end(client)
        return times or None

    def moves(self):
        observer = self.start_ready("observer")
        checkpoint = self.checkpoint(observer)
        empty = self.start_ready(NATIVE)
        native = self.left(observer, lambda: self.end(empty))
        for name in self.turn(("warm", "fresh")):
            client = self.start_ready(name)
            client.ask("hold", self.size)
            if name == "warm":
                self.tool("sleep", client)  # makes the store's pages
                self.tool("wake", client)
            self.cycle(name, client, checkpoint)
            self.tool("sleep", client)
            asleep = self.left(observer, lambda: self.end(client))
            self.table.add("left/" + name, self.size, "MiB", (asleep - native) / MIB)
        self.end(observer)

    def launches(self):
        """A launch of a program that can be put to sleep, beside one of a program that cannot."""
        clients = {name: self.start_ready(name) for name in ("awake", "fresh")}
        for client in clients.values():
            client.run_on({self.processor(0)})
        values = {name: [] for name in clients}
        for _ in range(ALTERNATIONS):
            for name in self.turn(values):
                values[name].append(clients[name].answer_of("launch", self.time(LAUNCH_TIME)))
        ours, theirs = (statistics.median(values[name]) for name in ("fresh", "awake"))
        self.table.add("launch/unarmed", None, "ns", ours, "GPUMEM_SLEEP=0", theirs)
        for client in clients.values():
            self.end(client)

    def run_part(self, part):
        self.running = []
        try:
            part()
        finally:
            for client in self.running:
                client.kill()

    def run(self):
        began = time.monotonic()
        self.limit()
        while self.round < PAIRS:
            round_began = time.monotonic()
            self.part("launches", lambda: self.run_part(self.launches))
            self.part("moves", lambda: self.run_part(self.moves))
            self.round += 1
            now = time.monotonic()
            print("# round %d of %d: %.1f s" % (self.round, PAIRS, now - round_began), flush=True)
            if self.round < PAIRS and now - began + (now - round_began) > self.scale * SECONDS:
                self.table.comment("cut: %d rounds fitted into %.0f s" % (self.round, self.scale * SECONDS))
                break
        self.table.comment("%d rounds in %.0f s" % (self.round, time.monotonic() - began))
        self.table.write()


class Asked:
    """A measured program, with the first word of an answer, and time for what is large."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def ask(self, *words):
        self.client.send(*words)
        return self.client.answer(300)

    def answer_of(self, *words):
        return self.ask(*words)[0]

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Residency(Table(sys.argv[1], "residency", sys.argv[3:]), sys.argv[2]).run()


if __name__ == "__main__":
    main()
