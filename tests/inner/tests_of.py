# SPDX-License-Identifier: BSD-3-Clause
"""Which tests run a file: tests_of.py SOURCE RECORDS FILE TEST...; `make tests-of F=FILE` runs this.

RECORDS is what `make mutants` writes of the lines that each test runs (tests/mutants/covered.py). Tests are printed
with the number of lines of the file that they run, most first. A test without a record, since it is new or has changed,
is printed without a number if its sources or its name speak of the file: it includes the header, is linked with the
file, or has its name.
"""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mutants"))
sys.dont_write_bytecode = True
import covered  # noqa: E402


def say(text):
    print("tests-of: " + text, file=sys.stderr)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Names:
    """What sources and names tell of a file."""

    def __init__(self, source, path):
        self.source, self.stem = source, os.path.splitext(os.path.basename(path))[0]
        self.includes = {re.sub("^src/", "", os.path.splitext(path)[0] + ".h")}
        rules = "".join(read(name) for name in glob.glob(os.path.join(source, "tests/**/*.mk"), recursive=True))
        rules = rules.replace("\\\n", " ")
        self.linked = {name for name, sources in re.findall(r"^tests_(\w+)_SOURCES *= *(.*)$", rules, re.M)
                       if path in sources.split()}

    def includes_it(self, path, seen):
        """Directly, or by a header of tests/."""
        if path in seen or not os.path.exists(os.path.join(self.source, path)):
            return False
        seen.add(path)
        included = re.findall(r'^#include "([^"]+)"', read(os.path.join(self.source, path)), re.M)
        return not self.includes.isdisjoint(included) or any(
            self.includes_it(os.path.normpath(os.path.join(folder, name)), seen)
            for name in included for folder in (os.path.dirname(path), ""))

    def tell(self, test):
        name = re.sub("^test_", "", os.path.splitext(os.path.basename(test))[0])
        return name == self.stem or name.startswith(self.stem + "_") or self.includes_it(test + ".c", set()) \
            or re.sub("^tests_", "", test.replace("/", "_")) in self.linked


def former_name(source, older, path):
    """Of a file that was renamed since."""
    renamed = subprocess.run(["git", "diff", "-M", "--diff-filter=R", "--name-status", older, "HEAD"], cwd=source, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return {line.split("\t")[2]: line.split("\t")[1] for line in renamed.splitlines()}.get(path, path)


def recorded(source, records, path, tests):
    """{test: lines of the file that it runs}, of the tests with a record."""
    found, moves, names = {}, covered.Moves(source, "HEAD"), {}
    for test, row in covered.newest(records, ()).items():
        older = row["commit"]
        try:
            changed = moves.since(older)[0]
        except subprocess.CalledProcessError:
            continue  # a commit that this repository no longer has
        if test in tests and not row["failed"] and test not in changed and test + ".c" not in changed and \
                path.startswith(tuple(row.get("folders", ()))):
            if older not in names:
                names[older] = former_name(source, older, path)
            lines = row["lines"].get(names[older], {})
            found[test] = sum(1 for cases in lines.values() if cases)
    return found


def main():
    source, records, path, *tests = sys.argv[1:]
    if os.path.exists(path):
        path = os.path.relpath(path, source)
    if not path or not os.path.isfile(os.path.join(source, path)):
        say("there is no file '%s': give one of the project, as in make tests-of F=src/pool/limbo.c" % path)
        sys.exit(2)
    known = recorded(source, records, path, tests)
    by_name = Names(source, path)
    others = [test for test in tests if test not in known and by_name.tell(test)]
    if not known:
        say("%s has no record of %s, which `make mutants MUTANTS=0` writes; by includes and names alone, more tests may run it:" % (records, path))
    elif len(known) < len(tests):
        say("%d of %d tests have a record; of the rest those whose includes or names speak of %s have no number" % (
            len(known), len(tests), path))
    for test in sorted(known, key=lambda test: (-known[test], test)):
        if known[test]:
            print("%s %d" % (test, known[test]))
    for test in others:
        print(test)


if __name__ == "__main__":
    main()
