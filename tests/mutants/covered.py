# SPDX-License-Identifier: BSD-3-Clause
"""Which cases of which tests run which line, as counted by a coverage build.

Each test runs once, with a folder of its own for the counts of each case. The lines it ran are one line of a
file; a later commit reuses it, with shifted line numbers, unless the test itself has changed.
"""
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import tempfile

import builds
import running

FOLDERS = ("api/", "programs/", "shim/", "src/", "tools/")  # of the lines that are recorded
STATEMENT = 6  # lines of a statement: gcov counts it at one of them
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# Each case of bats is a bash process of its own, which reads this first.
HOOK = 'case $0 in */bats-exec-test) GCOV_PREFIX=$MUTANTS_COUNTS/$4; export GCOV_PREFIX ;; esac\n'


def counts_of(folder):
    """The .gcda files, with the compiler's notes linked beside each, where gcov expects them."""
    for where, _, names in os.walk(folder):
        for name in names:
            stem, suffix = os.path.splitext(os.path.join(where, name))
            notes = "/" + os.path.relpath(stem, folder) + ".gcno"
            if suffix == ".gcda" and os.path.exists(notes):
                os.symlink(notes, stem + ".gcno")
                yield stem + ".gcda"


def lines_run(folder, tree, wanted):
    """{(path, line): whether it was run}, for the wanted folders of the tree, from the counts in a folder."""
    seen, counts = collections.defaultdict(bool), list(counts_of(folder))
    if not counts:
        return seen
    with tempfile.TemporaryDirectory() as work:
        answer = subprocess.run(["gcov", "--json-format", "--stdout", *counts], cwd=work, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=False)
    for document in filter(None, answer.stdout.splitlines()):
        data = json.loads(document)
        for file in data["files"]:
            path = os.path.relpath(os.path.join(data["current_working_directory"], file["file"]), tree)
            if path.startswith(wanted):
                for line in file["lines"]:
                    seen[path, line["line_number"]] |= line["count"] > 0
    return seen


def collect(tree, build, test, wanted):
    """The lines one test runs: {"test", "failed", "seconds": {case: seconds}, "lines": {path: {line: [number
    of a case, ...]}}, "folders": wanted}"""
    with tempfile.TemporaryDirectory(dir=build) as counts:
        hook = os.path.join(counts, "hook.sh")
        with open(hook, "w", encoding="ascii") as file:
            file.write(HOOK)
        outcome = running.run(build, test, 600, MUTANTS_COUNTS=counts, GCOV_PREFIX=os.path.join(counts, "all"), BASH_ENV=hook)
        lines = collections.defaultdict(lambda: collections.defaultdict(list))
        for number in ["all", *range(1, len(outcome.seconds) + 1)]:
            for (path, line), was_run in lines_run(os.path.join(counts, str(number)), tree, wanted).items():
                lines[path][line] += [number] if was_run else []
    return {"test": test, "failed": outcome.failed, "seconds": outcome.seconds, "lines": lines, "folders": wanted}


def newest(file, wanted):
    """{test: its last record} of the records in a file that have the wanted folders."""
    found = {}
    if os.path.exists(file):
        with open(file, encoding="utf-8") as rows:
            for row in map(json.loads, rows):
                if set(wanted) <= set(row.get("folders", ())):
                    found[row["test"]] = row
    return found


class Moves:
    """Maps lines of an older commit to this one."""

    def __init__(self, source, commit):
        self.source, self.commit, self.known = source, commit, {}

    def since(self, older):
        """Files that have changed, and {path: [(first line, lines, lines now)]}."""
        if older not in self.known:
            files, hunks, path = set(), collections.defaultdict(list), None
            for line in builds.answer(["git", "diff", "-U0", "--no-renames", older, self.commit], self.source).splitlines():
                if line.startswith(("--- a/", "+++ b/")):
                    path = line[6:]
                    files.add(path)
                elif HUNK.match(line):
                    first, lines, _, now = HUNK.match(line).groups()
                    hunks[path].append((int(first), int(lines or 1), int(now or 1)))
            self.known[older] = files, hunks
        return self.known[older]

    def line(self, older, path, line):
        moved = line
        for first, lines, now in self.since(older)[1].get(path, []):
            if first + max(lines, 1) <= line:
                moved += now - lines
        return moved


class Coverage:
    """The records of all tests in `file`, of the lines in some folders."""

    def __init__(self, file, source, commit, folders):
        self.file, self.moves, self.folders = file, Moves(source, commit), folders
        self.tests = {}    # {test: {case: seconds}}
        self.failed = set()
        self.lines = collections.defaultdict(dict)  # {(path, line): {test: cases, or None for all}}
        for row in newest(file, FOLDERS).values():
            self.add(row)

    def add(self, row):
        test, changed = row["test"], self.moves.since(row["commit"])[0]
        if test in changed or test + ".c" in changed:
            return
        self.tests[test] = row["seconds"]
        if row["failed"]:
            self.failed.add(test)
            return
        titles = list(row["seconds"])
        for path, lines in row["lines"].items():
            for line, numbers in lines.items() if path.startswith(self.folders) else ():
                tests = self.lines[path, self.moves.line(row["commit"], path, int(line))]
                if numbers:
                    all_cases = "all" in numbers or len(numbers) == len(titles)
                    tests[test] = None if all_cases else [titles[number - 1] for number in numbers]

    def complete(self, copy, tests, say):
        """Runs the tests without a record."""
        left = [test for test in tests if test not in self.tests]
        if not left:
            return
        build = copy.build("coverage")
        say("which lines %d tests run" % len(left))
        with concurrent.futures.ThreadPoolExecutor(copy.options.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(collect, copy.tree, build, test, FOLDERS) for test in left]):
                row = dict(done.result(), commit=self.moves.commit)
                with open(self.file, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                self.add(json.loads(json.dumps(row)))
                say("%4d s  %s%s" % (sum(row["seconds"].values()), row["test"], row["failed"] or ""))

    def of(self, path, line):
        """{test: cases}"""
        return next((self.lines[path, line - i] for i in range(STATEMENT) if (path, line - i) in self.lines), {})
