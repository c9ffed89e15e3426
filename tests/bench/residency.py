# SPDX-License-Identifier: BSD-3-Clause
"""Sleep and wake of an unmodified program (tests/bench/residency.c), beside cuCheckpointProcess of
the same program without the preload. Run by run.sh.

    residency.py RESULT.csv WORK_FOLDER COMMENT...

Each round starts the programs afresh: one with a store that is kept (GPUMEM_SLEEP_STORE=100%), and one with new
pages for each sleep. Each sleeps twice, wakes by the command, sleeps again, and wakes by a kernel of its own. The
first three rounds also have one with a file in a folder, and the driver's checkpoint of a native one. A time is
that of the whole command `gpumemstat sleep` or `wake`; peer "link" is a copy of 1 GiB of pinned memory in the same
round. Environment: BENCH_SECONDS (200), as for pool.py; BENCH_GIB (40), the memory of a program, less if the device,
the host or the folder has less; BENCH_FOLDER, the folder, and BENCH_FOLDER_GIB, the maximum for its program;
BENCH_CHECKPOINT_GIB, the memory of the native program, whose times are then scaled to the size of the others.
"""
import os
import statistics
import subprocess
import sys
import time

from measure import PAIRS, Gone, Table
from pool import GIB, MIB, NATIVE, SECONDS, Suite

SHARE_OF_DEVICE, SHARE_OF_HOST, SHARE_OF_FOLDER = 0.65, 0.4, 0.8  # share that a program holds at most
LAUNCH_TIME = 300000  # microseconds
LAUNCH_PAIRS = 15
SLOW_ROUNDS = 3  # of the folder and of the checkpoint
LINK_TIME = 200000  # microseconds
REST = 1.5  # seconds between a wake and a sleep that finds no kept pages


class Residency(Suite):
    def __init__(self, table, work):
        super().__init__(table, work)
        sleeps = {"GPUMEM_SLEEP": "1", "GPUMEM_LOG": "off"}
        self.folder = os.environ.get("BENCH_FOLDER", work)
        self.variants = {NATIVE: None, "observer": None, "awake": {"GPUMEM_LOG": "off"},
                         "warm": dict(sleeps, GPUMEM_SLEEP_STORE="100%"), "fresh": sleeps,
                         "folder": dict(sleeps, GPUMEM_SLEEP_STORE=self.folder)}

    def limit(self):
        client = self.start(NATIVE, self.here("client"))
        total, cuda, *_ = client.ready().ask("device")
        client.end_input()
        client.process.wait()
        host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted = float(os.environ.get("BENCH_GIB", "40")) * GIB
        room = os.statvfs(self.folder)
        self.size = self.whole(min(wanted, total * SHARE_OF_DEVICE, host * SHARE_OF_HOST))
        most = float(os.environ.get("BENCH_FOLDER_GIB", "inf")) * GIB
        self.filed = self.whole(min(self.size, most, room.f_bavail * room.f_frsize * SHARE_OF_FOLDER))
        self.checkpointed = self.whole(min(self.size, float(os.environ.get("BENCH_CHECKPOINT_GIB", "inf")) * GIB))
        if self.checkpointed < self.size:
            self.table.comment("checkpoint: measured with %d MiB, its times scaled to %d MiB" %
                               (self.checkpointed / MIB, self.size / MIB))
        self.table.comment("device memory: %d MiB, host memory: %d MiB, CUDA %d, %d cores" %
                           (total / MIB, host / MIB, cuda, len(self.processors)))

    @staticmethod
    def whole(size):
        return int(size) // (2 * MIB) * 2 * MIB

    def tool(self, command, client):
        """Runs the command, and returns its time in seconds."""
        began = time.monotonic()
        done = subprocess.run([self.here("gpumemstat"), command, str(client.process.pid)], capture_output=True, text=True)
        if done.returncode:
            raise Gone(done.stderr.strip())
        return time.monotonic() - began

    def rate(self, case, size, seconds, link=None):
        self.table.add(case, size, "GB/s", size / seconds / 1e9, "link" if link else "", link)

    def held(self, client):
        if client.answer_of("held") != 0:
            raise Gone("%s: contents differ" % client.name)

    def link(self, observer):
        """Rates of pinned memory, out and in, in GB/s."""
        size = min(self.size, GIB)
        return [size / observer.ask("copy", way, "pinned", size, self.time(LINK_TIME))[0] / 1e3 for way in ("d2h", "h2d")]

    def cycle(self, name, client, size, link, checkpoint):
        """Three sleeps and wakes, with rows beside the link, and beside the driver's checkpoint, if given."""
        first = self.tool("sleep", client)
        self.tool("wake", client)
        if name == "fresh":
            time.sleep(REST * self.scale)  # what was kept for a moment is gone
        out = self.tool("sleep", client)
        into = self.tool("wake", client)
        kernel = client.answer_of("touch")
        self.held(client)
        self.rate("out/" + name, size, out, link[0])
        self.rate("in/" + name, size, into, link[1])
        self.table.add("first/" + name, size, "s", first, "later", out)
        self.table.add("first-kernel/" + name, size, "us", kernel)
        self.tool("sleep", client)
        self.table.add("by-kernel/" + name, size, "s", client.answer_of("touch") / 1e6, "command", into)
        if checkpoint and name != "folder":
            for case, seconds, theirs in (("sleep", out, checkpoint[0]), ("wake", into, checkpoint[1])):
                self.table.add("%s/%s" % (case, name), self.size, "s", seconds, "checkpoint", theirs / 1e6)

    def room(self, observer):
        return observer.answer_of("room")

    def left(self, observer, end):
        """Bytes of the device that end() frees."""
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
        """(out, in) in microseconds for a native program, scaled to our size; None: the driver has no such calls."""
        client = self.start_ready(NATIVE)
        client.ask("hold", self.checkpointed)
        observer.send("checkpoint", client.process.pid)
        times = [time * self.size / self.checkpointed for time in observer.answer(600)]
        if times:
            self.held(client)
        else:
            self.table.comment("skipped: checkpoint: this driver has no cuCheckpointProcess")
        self.end(client)
        return times or None

    def moves(self):
        observer = self.start_ready("observer")
        slow = self.round < SLOW_ROUNDS
        checkpoint = self.checkpoint(observer) if slow else None
        link = self.link(observer)
        empty = self.start_ready(NATIVE)
        native = self.left(observer, lambda: self.end(empty))
        for name in self.turn(("warm", "fresh", "folder") if slow else ("warm", "fresh")):
            size = self.filed if name == "folder" else self.size
            client = self.start_ready(name)
            client.ask("hold", size)
            self.cycle(name, client, size, link, checkpoint)
            self.tool("sleep", client)
            asleep = self.left(observer, lambda: self.end(client))
            self.table.add("left/" + name, size, "MiB", (asleep - native) / MIB)
        self.end(observer)

    def launch_gate(self, pair):
        """The added cost of our launch function, in a program that can be put to sleep and in one that cannot. Each program
        launches by turns through our function and past it, because two programs differ by more than that."""
        adds, own = {}, []
        for name in sorted(("awake", "fresh"), reverse=pair % 2):
            client = self.start_ready(name)
            client.run_on({self.processor(pair)})
            given, direct, is_ours = client.ask("launch_gate", self.time(LAUNCH_TIME))
            if not is_ours:
                raise Gone("%s: launches do not pass the preload" % name)
            adds[name] = given - direct
            own.append(direct)
            self.end(client)
        own = statistics.mean(own)
        self.table.add("launch/hook", None, "ns", own + adds["awake"], "direct", own)
        self.table.add("launch/unarmed", None, "ns", own + adds["fresh"], "GPUMEM_SLEEP=0", own + adds["awake"])

    def launches(self):
        for pair in range(LAUNCH_PAIRS):
            self.launch_gate(pair)

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
        self.part("launches", lambda: self.run_part(self.launches))
        while self.round < PAIRS:
            round_began = time.monotonic()
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
    """A measured program with large memory: long timeouts, and the first word of an answer."""

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
