# SPDX-License-Identifier: BSD-3-Clause
"""Which tests run which line, from a coverage build whose tests each wrote their counts into a folder of their own.

    FOLDER/tests/unit/test_shelf.log/began
    FOLDER/tests/unit/test_shelf.log/<path of the build>/src/pool/shelf.gcda
"""
import collections
import json
import os
import subprocess
import tempfile

AT_ONCE = 60  # counts that one gcov reads


def test_name(tree, log):
    """tests/cli/env.log is of tests/cli/env.bats, or a script, or else a program."""
    stem = log[:-len(".log")]
    for suffix in (".bats", ".sh"):
        if os.path.exists(os.path.join(tree, stem + suffix)):
            return stem + suffix
    return stem


def logs_below(folder):
    for where, folders, _ in os.walk(os.path.join(folder, "tests")):
        for name in [name for name in folders if name.endswith(".log")]:
            folders.remove(name)
            yield os.path.relpath(os.path.join(where, name), folder)


def counts_of(folder):
    """The .gcda files, with the notes of the compiler beside each, where gcov looks for them."""
    for where, _, names in os.walk(folder):
        for name in names:
            stem, suffix = os.path.splitext(os.path.join(where, name))
            notes = "/" + os.path.relpath(stem, folder) + ".gcno"
            if suffix != ".gcda" or not os.path.exists(notes):
                continue
            if not os.path.exists(stem + ".gcno"):
                os.symlink(notes, stem + ".gcno")
            yield stem + ".gcda"


def lines_run(counts, tree):
    """{(path, line)} of the tree's files, that these counts have seen."""
    seen = set()
    for first in range(0, len(counts), AT_ONCE):
        with tempfile.TemporaryDirectory() as work:
            answer = subprocess.run(["gcov", "--json-format", "--stdout", *counts[first:first + AT_ONCE]], cwd=work,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        for document in filter(None, answer.stdout.splitlines()):
            data = json.loads(document)
            for file in data["files"]:
                path = os.path.normpath(os.path.join(data["current_working_directory"], file["file"]))
                if path.startswith(tree + "/"):
                    path = path[len(tree) + 1:]
                    seen.update((path, line["line_number"]) for line in file["lines"] if line["count"])
    return seen


def seconds_taken(tree, build, folder):
    """{test: seconds}: `began` was written before a test, its result after it."""
    return {test_name(tree, log): max(1.0, os.path.getmtime(os.path.join(build, log[:-len("log")] + "trs")) -
                     os.path.getmtime(os.path.join(folder, log, "began"))) for log in logs_below(folder)}


def read(tree, folder):
    """{"path:line": [test, ...]}"""
    tests = collections.defaultdict(list)
    for log in sorted(logs_below(folder)):
        for path, line in lines_run(sorted(counts_of(os.path.join(folder, log))), tree):
            tests["%s:%d" % (path, line)].append(test_name(tree, log))
    return tests
