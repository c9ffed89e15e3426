# SPDX-License-Identifier: BSD-3-Clause
"""Runs one file of tests in a build folder, as `make check` would, and stops at its first failure."""
import collections
import re
import subprocess
import threading
import time

import builds

WAIT = 60    # seconds beyond ten times a test's former time: it may wait for an effect that a mutant omits
LOOP = 20    # seconds of CPU time that one of its processes may take beyond three times the former time
NOT_OK = re.compile(r"not ok (\d+)(?!.*# TODO)")
OK = re.compile(r"ok \d+ ?(.*?)(?: # skip.*)?$")
Outcome = collections.namedtuple("Outcome", "failed seconds")  # None, a case, or the kind of end; {case: seconds}

environments = {}


def environment(build):
    """The environment that `make check` gives to tests."""
    if build not in environments:
        words = builds.answer(["make", "-s", "--no-print-directory", "mutants-environment"], build)
        given = dict(word.split("=", 1) for word in words.split("\0") if "=" in word)
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKE_TERMERR", "MAKE_TERMOUT"):
            given.pop(name, None)
        environments[build] = given
    return environments[build]


def command(test, cases):
    if builds.is_unit(test):
        return ["./" + test]
    if test.endswith(".sh"):
        return ["sh", "../tree/" + test]
    only = ["-f", "^(%s)$" % "|".join(re.sub(r"([][\\.*^$+?(){}|])", r"\\\1", case) for case in cases)] if cases else []
    return ["bats", "--tap", *only, "../tree/" + test]


def run(build, test, seconds, cases=None, **variables):
    """Runs only these cases of a .bats file. `seconds` is their known time."""
    limited = ["sh", "-c", 'ulimit -c 0; ulimit -t %d; exec "$@"' % (LOOP + 3 * seconds), "sh", *command(test, cases)]
    took, failed, before = {}, None, time.monotonic()
    with builds.started(limited, build, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
                        env=dict(environment(build), **variables)) as process:
        late = threading.Event()
        timer = threading.Timer(WAIT + 10 * seconds, lambda: (late.set(), builds.kill(process)))
        timer.start()
        try:
            for line in process.stdout:
                now = time.monotonic()
                if NOT_OK.match(line):
                    failed = line.rstrip("\n")
                    break
                if OK.match(line):
                    case = OK.match(line)[1]
                    took[case], before = round(took.get(case, 0) + now - before, 2), now
            if not failed and process.wait() != 0:
                failed = "does not end" if late.is_set() else "ends with status %d" % process.returncode
        finally:
            timer.cancel()
    return Outcome(failed, took)
