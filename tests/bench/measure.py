# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of measurements, their ratios, and the CSV for them: shared by all suites of tests/bench."""
import math
import os
import select
import statistics
import subprocess

PAIRS = 9  # minimum for a valid ratio
COLUMNS = "suite,case,size,count,unit,ours,peer,theirs,ratio,low,high"
HIGHER_IS_BETTER = {"pairs/s", "share", "tokens", "GB/s"}


def environment(preloaded, work):
    """Of a process natively, or with the library beside this file and its log in `work`."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GPUMEM_")}
    variables.pop("LD_PRELOAD", None)
    if preloaded:
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libgpumem.so")
        variables["LD_PRELOAD"] = os.environ.get("BENCH_PRELOAD") or beside
        variables["GPUMEM_LOG_NAME"] = os.path.join(work, "%p.gml")
    return variables


def interval(values):
    """The 95% interval for the median of the distribution of `values`: a pair of order statistics.
    None for fewer than six values, too few for such an interval."""
    n, below = len(values), 0.0
    for rank in range(n // 2 + 1):
        below += math.comb(n, rank) / 2.0 ** n
        if below > 0.025:
            return (sorted(values)[rank - 1], sorted(values)[n - rank]) if rank else None
    return None


def number(value):
    return "" if value is None else "%.6g" % value


def number_or_word(text):
    """A name may have words that begin with a digit: "H100 80GB"."""
    try:
        return float(text)
    except ValueError:
        return text


class Table:
    """The rows of one suite. A row has a list of pairs (ours, theirs); theirs is None without a peer."""

    def __init__(self, path, suite, comments):
        self.path, self.suite, self.comments, self.rows = path, suite, list(comments), {}

    def add(self, case, size, unit, ours, peer="", theirs=None):
        if ours is not None and (theirs is not None or not peer):
            self.rows.setdefault((case, size, unit, peer), []).append((ours, theirs))

    def comment(self, text):
        text = " ".join(text.split())
        if text not in self.comments:
            print("#", text, flush=True)
            self.comments.append(text)

    def line(self, key, pairs):
        case, size, unit, peer = key
        ours = statistics.median(a for a, _ in pairs)
        theirs = ratio = low = high = None
        if peer:
            theirs = statistics.median(b for _, b in pairs)
            up = unit in HIGHER_IS_BETTER
            ratios = [a / b if up else b / a for a, b in pairs if a > 0 and b > 0]
            if ratios:
                ratio = statistics.median(ratios)
                low, high = interval(ratios) or (None, None)
        return ",".join([self.suite, case, "" if size is None else str(size), str(len(pairs)), unit, number(ours), peer] +
                        [number(x) for x in (theirs, ratio, low, high)])

    def write(self):
        """Writes all rows so far, in place of the old file: a run that is cut leaves its measurements."""
        with open(self.path + ".new", "w") as file:
            for comment in self.comments:
                print("#", comment, file=file)
            print(COLUMNS, file=file)
            for key, pairs in self.rows.items():
                print(self.line(key, pairs), file=file)
        os.replace(self.path + ".new", self.path)


class Gone(Exception):
    """A measured program failed; has its output."""


class Client:
    """A measured program: see client.h. It starts at once; ready() waits for its context."""

    def __init__(self, command, environment, where, log=None):
        self.name, self.log, self.left = os.path.basename(command[-1]), log, b""
        self.process = subprocess.Popen(command, env=environment, cwd=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run_on(self, processors):
        """Pins its first thread, and the threads that it makes later."""
        os.sched_setaffinity(self.process.pid, processors)

    def line(self, limit):
        while b"\n" not in self.left:
            if not select.select([self.process.stdout], [], [], limit)[0]:
                raise Gone("%s: no answer for %d s" % (self.name, limit))
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise Gone("%s: ended with status %d" % (self.name, self.process.wait()))
            self.left += more
        line, self.left = self.left.split(b"\n", 1)
        line = line.decode(errors="replace")
        if line.startswith("error"):
            raise Gone("%s: %s" % (self.name, line))
        return line

    def ready(self, limit=120):
        while self.line(limit) != "ready":
            pass
        return self

    def send(self, *words):
        self.asked = words[0]
        try:
            self.process.stdin.write((" ".join(str(w) for w in words) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() reports its end

    def answer(self, limit=60):
        """The words after "ok", as numbers where possible."""
        answer = self.line(limit).split()
        if not answer or answer[0] != "ok":
            raise Gone("%s: %s answered %s" % (self.name, self.asked, " ".join(answer)))
        return [number_or_word(word) for word in answer[1:]]

    def ask(self, *words):
        self.send(*words)
        return self.answer()

    def end_input(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


def close_all(clients):
    """Waits for all clients, which end at the end of their input."""
    for client in clients:
        client.end_input()
    for client in clients:
        if client.process.wait(60) != 0:
            raise Gone("%s: ended with status %d" % (client.name, client.process.returncode))


def kill_all(clients):
    """Ends all clients that still run."""
    for client in clients:
        if client.process.poll() is None:
            client.process.kill()
            client.process.wait()
        client.end_input()
        client.process.stdout.close()
