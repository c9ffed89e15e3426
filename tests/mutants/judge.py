# SPDX-License-Identifier: BSD-3-Clause
"""Judges mutants by the tests.

A mutant is caught when a test fails or does not end. A mutation with the original's object code is no mutant,
and neither is one that does not compile. Survivors are tested once more under the sanitizers that find leaks,
as in make check-sanitize; a memory order under ThreadSanitizer alone.
"""
import os
import threading

import builds
import running

STAGES = ("plain", "plain", "sanitize")  # builds; the first stage has a budget; memory orders use "thread"
BUDGET = 60         # seconds of tests in the first stage
NO_MUTANT = ("does not compile", "same code")
LINK = 0.5          # least seconds of a test: it is linked, and started
OWN = 2             # a test named after the file counts as this many catches
SLOWER = {"plain": 1, "sanitize": 3, "thread": 15}  # factors on a test's time during the coverage run
TESTS = {"plain": ("tests/", "src/"), "sanitize": ("tests/unit/", "tests/preload/"), "thread": ("tests/unit/", "tests/preload/")}


def name(kind, test):
    """The name under which a passed test is recorded."""
    return test if kind == "plain" else "%s (%s)" % (test, kind)


class Chances:
    """The probability that a test catches a mutant of a file: its rate there and, with few data,
    elsewhere."""

    def __init__(self):
        self.ran, self.caught = {}, {}

    def learn(self, path, row):
        """Learn from the judgement of a mutant of a file."""
        if row["verdict"] not in NO_MUTANT:
            for test in filter(None, row["passed"] + [row["test"]]):
                for key in (test, (test, path)):
                    self.ran[key] = self.ran.get(key, 0) + 1
                    self.caught[key] = self.caught.get(key, 0) + (test == row["test"])

    def of(self, test, path):
        elsewhere = (self.caught.get(test, 0) + 0.2) / (self.ran.get(test, 0) + 1)
        own = OWN if os.path.splitext(os.path.basename(path))[0] in test else 0
        return (self.caught.get((test, path), 0) + own + elsewhere) / (self.ran.get((test, path), 0) + own + 1)


class Judge:
    """`trusted`, a file, names the tests known to pass without a mutant."""

    def __init__(self, coverage, trusted):
        self.coverage, self.chances, self.lock = coverage, Chances(), threading.Lock()
        self.file, self.trusted, self.broken = trusted, set(), set()
        if os.path.exists(trusted):
            with open(trusted, encoding="utf-8") as rows:
                self.trusted = set(rows.read().splitlines())

    def seconds(self, test, cases):
        took = self.coverage.tests[test]
        return LINK + sum(took.values() if cases is None else (took[case] for case in cases))

    def order(self, tests, path):
        """First the tests with the lowest cost for their probability of a catch."""
        return sorted(tests, key=lambda test: self.seconds(test, tests[test]) / self.chances.of(test, path))

    def target(self, test):
        return test if builds.is_unit(test) else builds.PROGRAMS

    def trust(self, copy, build, test, cases, kind):
        """Whether a test passes without the mutant; a pass is remembered."""
        key = "%s %s %s" % (copy.commit, kind, test)
        if key not in self.trusted and copy.make(build, self.target(test)):
            if running.run(build, test, SLOWER[kind] * self.seconds(test, cases), cases).failed:
                self.broken.add((kind, test))
            else:
                with self.lock, open(self.file, "a", encoding="utf-8") as file:
                    file.write(key + "\n")
                    self.trusted.add(key)
        return (kind, test) not in self.broken

    def is_mutant(self, copy, build, nearest):
        """None for a mutant, else the reason. Builds the nearest test's target first; all targets if that is
        unchanged."""
        for targets in [[nearest], [builds.PROGRAMS, builds.UNIT]]:
            if not copy.make(build, *targets):
                return "does not compile"
            if copy.is_changed(build):
                return None
        return "same code"

    def verdict(self, copy, build, mutation, kind, tests, budget, passed):
        """(verdict, test, failure); `passed` grows. The file is changed already."""
        spent, left = 0, self.order(tests, mutation.path)
        if kind != "sanitize":
            wrong = self.is_mutant(copy, build, self.target(left[0]) if left else builds.PROGRAMS)
            if wrong:
                return wrong, None, None
        for test in left:
            seconds = SLOWER[kind] * self.seconds(test, tests[test])
            if budget and spent and spent + seconds > budget:
                return "open", None, None
            spent += seconds
            if not copy.make(build, self.target(test)):
                return "caught", test, "does not link"
            failed, took = running.run(build, test, seconds, tests[test])
            if failed:
                return "caught", test, failed
            if kind == "plain":
                self.coverage.tests[test].update(took)
            passed.append(name(kind, test))
        return "survived", None, None

    def judge(self, copy, mutation, text, stage=0, passed=()):
        """{"verdict", "test", "failed", "passed", "stage"}; "open" continues in a later stage."""
        kind = "thread" if mutation.kind == "order" else STAGES[stage]
        build, passed = copy.build(kind), list(passed)
        while True:
            left = self.left(mutation.path, mutation.line, kind, passed)
            before = copy.change(mutation.path, mutation.line, text)
            try:
                verdict, test, failed = self.verdict(copy, build, mutation, kind, left, None if stage else BUDGET, passed)
            finally:
                copy.restore(mutation.path, before)
            if verdict != "caught" or self.trust(copy, build, test, left[test], kind):
                break
        if verdict == "survived" and kind == "plain":
            verdict, stage = "open", STAGES.index("sanitize")
        elif verdict == "open":
            stage = 1
        row = {"verdict": verdict, "test": test, "failed": failed, "passed": passed, "stage": stage}
        self.chances.learn(mutation.path, row)
        return row

    def left(self, path, line, kind, passed):
        """The tests that have not passed yet: {test: cases}."""
        covering = self.coverage.of(path, line)
        return {test: covering[test] for test in covering
                if test.startswith(TESTS[kind]) and name(kind, test) not in passed and (kind, test) not in self.broken}

    def is_left(self, mutation, row):
        """The next stage with tests that a survivor has not been given, or None."""
        for stage in range(1, len(STAGES)):
            kind = "thread" if mutation[2] == "order" else STAGES[stage]
            if self.left(*mutation[:2], kind, row["passed"]):
                return stage
        return None
