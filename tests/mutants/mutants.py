# SPDX-License-Identifier: BSD-3-Clause
"""Do the tests find one-line faults? `make mutants` runs this; HACKING.md, Checks.

    last commit --> a copy a worker (builds.py) --> a coverage build: which test runs which line (covered.py)
                         |
                         +--> random mutations, one at a time (sites.py) --> the tests that run its line (judge.py)

What takes longer than a budget, or another build, waits until all mutants have been tried without it. equivalent.txt lists mutants that
change nothing a test could see, and why. Everything is kept below mutants/ in the build folder; a second run goes on where
the first was stopped, and a run of a later commit keeps what is known of its lines. STATE, which is committed, has the
judgements of a run that goes on in another build folder.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import random
import re
import signal
import sys
import threading
import time

import builds
import covered
import judge
import sites

FOLDERS = ("shim/", "src/pool/", "src/context/", "src/copy/", "src/residency/", "src/rpc/", "src/stack/", "src/log/", "src/heap/")
NEW = 4             # a line that is new since a commit is drawn this many times as often as another
RATED = 10          # mutants whose judgement gives the rate
SLOW, FEWER = 120, 60  # seconds of a worker for a mutant beyond which a run makes only this many
LEAST = 0.95        # least part of mutants to be caught
EQUIVALENT = 0.05   # largest part that may be listed as equivalent
ROW = re.compile(r"([^#\s]\S*) @ (.*) => (.*) @ (.*)$")
COUNTED = ("caught", "equivalent", "survived")


def say(text):
    print(text, flush=True)


def read_rows(path):
    """{(path, old, new): remark}; a line is PATH @ OLD => NEW @ REMARK: neither sign occurs in C."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = ROW.match(line)
            if row:
                found[row.groups()[:3]] = row[4]
            elif line.strip() and not line.startswith("#"):
                sys.exit("mutants: %s: '%s' is not PATH @ OLD => NEW @ REMARK" % (path, line.rstrip("\n")))
    return found


def all_mutations(tree):
    for folder in FOLDERS:
        for path in sorted(glob.glob(folder + "**/*.[ch]", root_dir=tree, recursive=True)):
            with open(os.path.join(tree, path), encoding="utf-8") as file:
                yield from sites.mutations(path, file.read())


def lines_since(source, since, commit):
    """{(path, line)} of a commit that an older one did not have."""
    found, path = set(), None
    for line in builds.answer(["git", "diff", "-U0", "-M", since, commit, "--", *FOLDERS], source).splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif covered.HUNK.match(line):
            _, _, now, lines = covered.HUNK.match(line).groups()
            found.update((path, int(now) + i) for i in range(int(lines or 1)))
    return found


def draw(tree, seed, new=()):
    """One mutation of each line, in a random order, in which lines of `new` come earlier."""
    lines = collections.defaultdict(list)
    for mutation, text in all_mutations(tree):
        lines[mutation.path, mutation.line].append((mutation, text))
    chance = random.Random(seed)
    keys = {line: chance.random() ** (1 / (NEW if line in new else 1)) for line in sorted(lines)}
    order = sorted(lines, key=keys.get, reverse=True)
    return [chance.choice(lines[line]) for line in order]


def named(tree, rows):
    """The mutations that rows name; of equal ones the one at or next to the line in the remark, "line 12,
    ..."."""
    found = {}
    for mutation, text in all_mutations(tree):
        row = mutation.path, mutation.old, mutation.new
        line = re.match(r"line (\d+)", rows.get(row, ""))
        if line and (row not in found or abs(mutation.line - int(line[1])) < abs(found[row][0].line - int(line[1]))):
            found[row] = mutation, text
    return list(found.values())


class Results:
    """The judgements of each mutant of a commit: a file with one line a judgement; the last one holds.

    A survivor is open again if more tests are known to run its line now.
    """

    def __init__(self, file, commit, judging, state):
        self.file, self.commit, self.known = file, commit, {}
        for name in filter(os.path.exists, (state, file)):
            with open(name, encoding="utf-8") as rows:
                for row in map(json.loads, rows):
                    if row["commit"] == commit:
                        stage = judging.is_left(row["mutation"], row)
                        if row["verdict"] in ("survived", "open") and stage:
                            row = dict(row, verdict="open", stage=stage)
                        elif row["verdict"] == "open":
                            row = dict(row, verdict="survived")
                        self.known[tuple(row["mutation"])] = row

    def keep(self, name):
        """Write what a run in another build folder needs to go on. A mutant that is caught is judged."""
        with open(name, "w", encoding="utf-8") as file:
            for mutation, row in list(self.known.items()):
                row = dict(row, mutation=mutation, passed=[] if row["verdict"] == "caught" else row["passed"])
                if "commit" in row:
                    file.write(json.dumps(row) + "\n")

    def put(self, mutation, row):
        row = dict(row, commit=self.commit, mutation=mutation)
        self.known[tuple(mutation)] = row
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


class Work:
    """Hands out the mutants to judge, stage by stage (judge.py)."""

    def __init__(self, order, n, results, equivalent, again=None):
        self.again = again  # all of these are wanted
        self.order, self.n, self.results, self.lock, self.taken, self.rated = order, n, results, threading.Lock(), set(), None
        for mutation, _ in order:
            if (mutation.path, mutation.old, mutation.new) in equivalent:
                results.known[tuple(mutation)] = {"verdict": "equivalent", "seconds": 0, "test": None, "passed": []}

    def verdicts(self):
        """The first n that count, in the order of the draw: [(mutation, row)]; and those being judged or
        open."""
        found, unsure = [], []
        for mutation, text in self.order:
            if len(found) + len(unsure) == self.n:
                break
            row = self.results.known.get(tuple(mutation))
            if row and row["verdict"] in COUNTED:
                found.append((mutation, row))
            elif not row or row["verdict"] == "open":
                if row or mutation in self.taken:
                    unsure.append((mutation, text))
                else:
                    return found, unsure, (mutation, text)
        return found, unsure, None

    def next(self):
        """(mutation, text), or None."""
        with self.lock:
            _, unsure, fresh = self.verdicts()
            opened = [(mutation, text) for mutation, text in unsure if mutation not in self.taken]
            opened.sort(key=lambda task: self.results.known[tuple(task[0])]["stage"])
            if not fresh and not opened:
                return None
            task = fresh or opened[0]
            self.taken.add(task[0])
            return task

    def done(self, mutation, row):
        with self.lock:
            self.results.put(mutation, row)
            self.taken.discard(mutation)
            self.rate()

    def rate(self):
        """Say how long a mutant takes, once; make fewer if that is long."""
        took = [row["seconds"] for row in self.results.known.values() if row["verdict"] == "caught"]
        if not self.rated and len(took) >= RATED:
            self.rated = sum(took) / len(took)
            self.n = min(self.n, FEWER) if self.rated > SLOW and not self.again else self.n
            say("# %.0f s of a worker a mutant that is caught: %d mutants" % (self.rated, self.n))


def labour(work, judging, copy):
    while True:
        task = work.next()
        if not task:
            return
        mutation, text = task
        before = work.results.known.get(tuple(mutation), {"passed": [], "seconds": 0, "stage": 0})
        began = time.monotonic()
        row = judging.judge(copy, mutation, text, before["stage"], before["passed"])
        row["seconds"] = round(before["seconds"] + time.monotonic() - began, 1)
        work.done(mutation, row)
        say("%5.0f s  %-8s %s:%d: %s => %s  [%s]" % (row["seconds"], row["verdict"], mutation.path, mutation.line, mutation.old,
                                                 mutation.new, row["test"] or len(row["passed"])))


def report(found, seed, commit):
    """Print the contents of tests/mutants/RESULTS for a run; returns whether the rates are met."""
    count = collections.Counter(row["verdict"] for _, row in found)
    say("\n# seed %s, commit %s: %d mutants, %s; %d s of judging" % (
        seed[:12], commit[:12], len(found), ", ".join("%d %s" % (count[word], word) for word in COUNTED),
        sum(row["seconds"] for _, row in found)))
    for mutation, row in found:
        if row["verdict"] != "survived":
            say("# %s, %d s, %s:%d: %s => %s%s" % (row["verdict"], row["seconds"], mutation.path, mutation.line, mutation.old,
                                                   mutation.new, ", by " + row["test"] if row["test"] else ""))
    for mutation, row in found:
        if row["verdict"] == "survived":
            say("%s @ %s => %s @ line %d, %d tests" % (mutation.path, mutation.old, mutation.new, mutation.line,
                                                      len(row["passed"])))
    n = len(found)
    return n and count["caught"] + count["equivalent"] >= LEAST * n and count["equivalent"] <= EQUIVALENT * n


def stop(results):
    """What is known is kept; make removes its unfinished files."""
    results.keep(os.path.join(os.path.dirname(results.file), "STATE"))
    for process in list(builds.under_way):
        builds.kill(process, signal.SIGTERM)
        process.wait()
    os._exit(130)


def main():
    parser = argparse.ArgumentParser()
    for name in ("source", "build", "configure", "device-code", "seed", "commit", "again", "tests", "since"):
        parser.add_argument("--" + name)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("n", type=int)
    options = parser.parse_args()
    top = os.path.join(options.build, "mutants")
    commit = builds.answer(["git", "rev-parse", options.commit or "HEAD"], options.source)
    seed = options.seed or commit
    copies = [builds.Copy(options, commit, os.path.join(top, str(i + 1))) for i in range(options.jobs)]
    coverage = covered.Coverage(os.path.join(top, "covered"), options.source, commit, FOLDERS)
    coverage.complete(copies[0], copies[0].tests("plain" if options.n else "coverage"), say)
    if not options.n:
        return
    judging = judge.Judge(coverage, os.path.join(top, "trusted"))
    if options.again:
        order = named(copies[0].tree, read_rows(options.again))
    else:
        since = builds.answer(["git", "rev-parse", options.since], options.source) if options.since else None
        order = draw(copies[0].tree, seed, lines_since(options.source, since, commit) if since else ())
    results = Results(os.path.join(top, "results"), commit, judging, os.path.join(options.source, "tests/mutants/STATE"))
    n = max(options.n, len(order)) if options.again else options.n
    work = Work(order, n, results, read_rows(os.path.join(options.source, "tests/mutants/equivalent.txt")), options.again)
    for mutation, row in results.known.items():
        judging.chances.learn(mutation[0], row)
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stop(results))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(labour, work, judging, copy) for copy in copies]:
            done.result()
    results.keep(os.path.join(top, "STATE"))
    sys.exit(not report(work.verdicts()[0], seed, commit))


if __name__ == "__main__":
    main()
