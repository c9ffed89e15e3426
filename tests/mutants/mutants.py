# SPDX-License-Identifier: BSD-3-Clause
"""Do the tests notice one-line faults? `make mutants` runs this; HACKING.md, Checks.

    last commit --> a tree of its own --> a coverage build: which test runs which line
                         |
                         +--> random mutations, one at a time --> the tests that run its line, nearest first

A mutant is caught when a test fails or does not end. One whose object code is that of the original is no mutant, and neither
is one that does not compile: another is drawn. equivalent.txt lists mutants that change nothing a test could see, and why.
A mutant that changes a memory order is tested under ThreadSanitizer. Everything is kept below mutants/ in the build folder;
a second run goes on where the first was stopped.
"""
import argparse
import glob
import hashlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time

import covered
import sites

FOLDERS = ["shim", "src/pool", "src/context", "src/log", "src/heap"]
LEAST = 0.95        # of the mutants are to be caught,
EQUIVALENT = 0.05   # and no more than this listed as equivalent
CHUNKS = [4, 12]    # tests that run together before all others
LIMIT = 60          # seconds that tests have beside three times what they took
STATEMENT = 6       # lines of a statement: gcov counts it at one of them
BUILDS = {
    "coverage": "--enable-debug --enable-coverage CFLAGS='-O0 -w'",
    "plain": "--enable-debug CFLAGS='-O1 -g0 -w'",
    "thread": "--enable-debug --enable-sanitize=thread CFLAGS='-O1 -g1 -w'",
}


def say(text):
    print(text, flush=True)


def run(command, where, log, limit=None, **variables):
    """The exit status of a command; None if it took longer than `limit` seconds."""
    with open(log, "ab") as output, subprocess.Popen(
            command, cwd=where, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, env=dict(os.environ, **variables)) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def answer(command, where):
    return subprocess.run(command, cwd=where, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


class Builds:
    """The commit's tree, and folders that are built from it."""

    def __init__(self, options):
        self.options = options
        self.top = os.path.join(options.build, "mutants")
        self.commit = answer(["git", "rev-parse", "HEAD"], options.source)
        self.tree = os.path.join(self.top, "tree")
        self.log = os.path.join(self.top, "log")
        stamp = os.path.join(self.top, self.commit)
        if not os.path.exists(stamp):
            shutil.rmtree(self.top, ignore_errors=True)
            os.makedirs(self.tree)
            self.must("git archive %s | tar -x -C %s" % (self.commit, shlex.quote(self.tree)), options.source)
            self.must("./autogen.sh", self.tree)
            with open(stamp, "w", encoding="ascii"):
                pass

    def must(self, command, where, **variables):
        if run(["sh", "-c", command], where, self.log, **variables) != 0:
            sys.exit("mutants: '%s' failed; see %s" % (command, self.log))

    def folder(self, name):
        """The path of a build, made if it is not there."""
        path = os.path.join(self.top, name)
        if not os.path.exists(os.path.join(path, "done")):
            os.makedirs(path, exist_ok=True)
            self.must("%s/configure --quiet %s %s" % (shlex.quote(self.tree), self.options.configure, BUILDS[name]), path)
            self.must("cp -p --parents %s %s" % (self.options.device_code, shlex.quote(path)),
                      self.options.build)
            self.keep_device_code(path)
            self.must("make -j%d check TESTS=" % self.options.jobs, path)
            with open(os.path.join(path, "done"), "w", encoding="ascii"):
                pass
        return path

    def keep_device_code(self, path):
        """nvcc takes minutes, and no test here runs what it makes."""
        for name in self.options.device_code.split():
            os.utime(os.path.join(path, name))

    def objects(self, path, since=0.0):
        """{object file: digest of all but what debuggers read}"""
        found, plain = {}, os.path.join(self.top, "plain.o")
        for where, _, names in os.walk(path):
            for name in [os.path.join(where, name) for name in names if name.endswith(".o")]:
                if os.path.getmtime(name) >= since:
                    subprocess.run(["objcopy", "--strip-debug", name, plain], check=True)
                    with open(plain, "rb") as file:
                        found[name] = hashlib.sha256(file.read()).hexdigest()
        return found


def read_coverage(builds):
    """The tests of each line, and the seconds of each test."""
    kept = os.path.join(builds.top, "covered.json")
    if not os.path.exists(kept):
        path, folder = builds.folder("coverage"), os.path.join(builds.top, "counts")
        say("which test runs which line: running all tests under coverage")
        shutil.rmtree(folder, ignore_errors=True)
        tests = answer(["make", "-s", "--no-print-directory", "mutants-tests"], path)
        builds.must("make -j%d check TESTS='%s'" % (builds.options.jobs, tests), path, COVERED=folder)
        data = [covered.read(builds.tree, folder), covered.seconds_taken(builds.tree, path, folder)]
        with open(kept + ".new", "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.rename(kept + ".new", kept)
        shutil.rmtree(folder)
    with open(kept, encoding="utf-8") as file:
        return json.load(file)


def read_equivalent(source):
    """{(path, old, new)}; a line is PATH | OLD | NEW | REASON."""
    with open(os.path.join(source, "tests/mutants/equivalent.txt"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(" | ") for line in file if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) != 4:
            sys.exit("mutants: equivalent.txt: '%s' has %d parts, not 4" % (" | ".join(row), len(row)))
    return {tuple(row[:3]) for row in rows}


def draw(tree, seed):
    """All mutations in a random order, in which each line is as likely as any other."""
    lines = {}
    for folder in FOLDERS:
        for path in sorted(glob.glob(folder + "/**/*.[ch]", root_dir=tree, recursive=True)):
            with open(os.path.join(tree, path), encoding="utf-8") as file:
                for mutation, text in sites.mutations(path, file.read()):
                    lines.setdefault((path, mutation.line), []).append((mutation, text))
    chance = random.Random(seed)
    order = sorted(lines)
    chance.shuffle(order)
    return [chance.choice(lines[line]) for line in order]


class Judge:
    """Runs the tests that a mutated line has."""

    def __init__(self, builds, tests, seconds):
        self.builds, self.tests, self.seconds = builds, tests, seconds
        self.width, self.digests, self.others = {}, {}, {}
        for of_line in tests.values():
            for test in of_line:
                self.width[test] = self.width.get(test, 0) + 1

    def order(self, mutation):
        """Unit tests first, of them the one that has the file's name, then those that run little else."""
        stem = os.path.splitext(os.path.basename(mutation.path))[0]
        lines = ["%s:%d" % (mutation.path, mutation.line - i) for i in range(STATEMENT)]
        names = next((self.tests[line] for line in lines if line in self.tests), [])
        return sorted(names, key=lambda test: (not test.startswith("tests/unit/"), stem not in test, self.width[test]))

    def chunks(self, names):
        for size in CHUNKS + [len(names)]:
            if names:
                yield names[:size]
            names = names[size:]

    def make(self, path, tests, limit):
        if path not in self.others:
            self.others[path] = answer(["make", "-s", "--no-print-directory", "mutants-programs"], path)
        programs = [test for test in tests if not test.endswith((".bats", ".sh"))]
        return run(["make", "-j%d" % self.builds.options.jobs, "check", "TESTS=" + " ".join(tests),
                    "check_PROGRAMS=" + " ".join([self.others[path], *programs])], path, self.builds.log, limit)

    def fault(self, mutation, path, began):
        """Why it is no mutant, or None."""
        if path not in self.digests:
            self.digests[path] = self.builds.objects(path)
        if self.make(path, [], None) != 0:
            return "does not compile"
        changed = self.builds.objects(path, began).items()
        if all(self.digests[path].get(name) == digest for name, digest in changed):
            return "same code"
        return None

    def judge(self, mutation, text):
        path = self.builds.folder("thread" if mutation.kind == "order" else "plain")
        file = os.path.join(self.builds.tree, mutation.path)
        with open(file, encoding="utf-8") as original:
            content = original.read()
        lines = content.split("\n")
        lines[mutation.line - 1] = text
        try:
            began = time.time() - 1
            with open(file, "w", encoding="utf-8") as mutated:
                mutated.write("\n".join(lines))
            self.builds.keep_device_code(path)
            why = self.fault(mutation, path, began)
            if why:
                return why
            for chunk in self.chunks(self.order(mutation)):
                limit = LIMIT + 3 * sum(self.seconds[test] for test in chunk)
                status = self.make(path, chunk, limit)
                if status != 0:
                    return "caught" if status else "caught, for it does not end"
            return "survived"
        finally:
            with open(file, "w", encoding="utf-8") as restored:
                restored.write(content)
            self.builds.keep_device_code(path)


def key(mutation):
    return "%s:%d: %s => %s" % (mutation.path, mutation.line, mutation.old, mutation.new)


def main():
    parser = argparse.ArgumentParser()
    for name in ("source", "build", "configure", "device-code", "seed"):
        parser.add_argument("--" + name)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("n", type=int)
    options = parser.parse_args()
    builds = Builds(options)
    seed = options.seed or builds.commit
    tests, seconds = read_coverage(builds)
    equivalent = read_equivalent(options.source)
    judge = Judge(builds, tests, seconds)
    results = os.path.join(builds.top, "results")
    known = {}
    if os.path.exists(results):
        with open(results, encoding="utf-8") as file:
            known = dict(reversed(line.rstrip("\n").split(" <- ", 1)) for line in file)
    counts = {"caught": 0, "equivalent": 0, "survived": 0}
    for mutation, text in draw(builds.tree, seed):
        if sum(counts.values()) == options.n:
            break
        if (mutation.path, mutation.old, mutation.new) in equivalent:
            counts["equivalent"] += 1
            continue
        verdict = known.get(key(mutation))
        if not verdict:
            began = time.monotonic()
            verdict = judge.judge(mutation, text)
            with open(results, "a", encoding="utf-8") as file:
                file.write("%s <- %s\n" % (verdict, key(mutation)))
            say("%4d s  %-10s %s" % (time.monotonic() - began, verdict.split(",")[0], key(mutation)))
        if verdict.split(",")[0] in counts:
            counts[verdict.split(",")[0]] += 1
    n = sum(counts.values())
    say("seed %s: %d mutants, %d caught, %d equivalent, %d survived" % (seed, n, *counts.values()))
    sys.exit(not (n and counts["caught"] + counts["equivalent"] >= LEAST * n and counts["equivalent"] <= EQUIVALENT * n))


if __name__ == "__main__":
    main()
