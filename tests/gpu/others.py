#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the programs of others.txt natively, natively again, preloaded with GPUMEM_FREE=sync and with defer, and compare.

    others.py [--table FILE] [--jobs N] [--seconds N] PROGRAMS RESULTS [NAME]...

PROGRAMS is a folder with the built programs and the tests; libgpumem.so and gpumemstat are beside this script. A
preloaded run must print the same lines as the two native runs, except for lines on which these disagree, with the
same number of lines and the same exit status. A row is `equal`, `differs`, `unsure` (the native runs differ in
more than single lines) or `not run`, with the reason. RESULTS gets SUMMARY.txt, and the output of rows that are
not equal. Exit status 1 if a row differs or is unsure.

    others.py numba MODULE    runs a test file of the Numba package, with names that newer NumPy has dropped
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

BESIDE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 150  # seconds, for one run
WAIVED = 2   # exit status of NVIDIA's samples for a machine that cannot run them
TIMES = re.compile(r"time|sec\b|secs|seconds|\bms\b|msec|\bus\b|/s\b|bandwidth|throughput|performance|speed|elapsed|took"
                   r"|iterations while|cycles|overlap|memcopy|streamed|streams:|kernel:| in [0-9.]+s", re.IGNORECASE)
NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
RUNS = (("native", {}), ("native again", {}), ("sync", {"GPUMEM_FREE": "sync"}), ("defer", {"GPUMEM_FREE": "defer"}))


def without_times(lines):
    return [NUMBER.sub("#", line) if TIMES.search(line) else line for line in lines]


def without_ids(lines):
    return [re.sub(r"0x[0-9a-fA-F]+|(?<=_)\d{2,}|(?<=Thread=)\d+", "#", line) for line in lines]


RULES = {"exact": lambda lines: lines, "times": without_times, "ids": without_ids, "order": sorted}


def read_table(path):
    """[(name, from, [rule], command)]"""
    with open(path, encoding="utf-8") as file:
        rows = [line.split(None, 3) for line in file if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) != 4 or not set(row[2].split("+")) <= set(RULES):
            sys.exit("others: %s: '%s' is no row" % (path, " ".join(row).strip()))
    return [(name, source, rules.split("+"), command.strip()) for name, source, rules, command in rows]


class Said:
    """The output of a run."""

    def __init__(self, status, out, err, rules):
        self.status, self.err = status, err
        self.lines = out.splitlines()
        for rule in rules:
            self.lines = RULES[rule](self.lines)


def judge(native, again, preloaded):
    """(verdict, reason) of one preloaded run."""
    if (native.status, len(native.lines)) != (again.status, len(again.lines)):
        return "unsure", "natively exit %s with %d lines, then %s with %d" % (
            native.status, len(native.lines), again.status, len(again.lines))
    if preloaded.status != native.status:
        return "differs", "exit %s, natively %s" % (preloaded.status, native.status)
    if len(preloaded.lines) != len(native.lines):
        return "differs", "%d lines, natively %d" % (len(preloaded.lines), len(native.lines))
    agreed = [i for i, (one, other) in enumerate(zip(native.lines, again.lines)) if one == other]
    for i in agreed:
        if preloaded.lines[i] != native.lines[i]:
            return "differs", "line %d: '%s', natively '%s'" % (i + 1, preloaded.lines[i][:90], native.lines[i][:90])
    if not agreed:
        return "unsure", "the native runs agree on no line"
    return "equal", "%d of %d lines compared" % (len(agreed), len(native.lines))


class Runner:
    def __init__(self, options, inputs):
        self.options = options
        self.until = time.monotonic() + options.seconds
        self.programs = os.path.abspath(options.programs)
        self.results = os.path.abspath(options.results)
        self.work = tempfile.mkdtemp(prefix="others.")
        os.makedirs(self.results, exist_ok=True)
        self.environment = dict(
            os.environ, HERE=self.programs, DATA=os.path.join(self.work, "data"), CUDA="/usr/local/cuda/lib64",
            LC_ALL="C", OMP_NUM_THREADS="4",
            GPUMEM_LIBRARY_PATH=os.environ.get("GPUMEM_LIBRARY_PATH", os.path.join(BESIDE, "libgpumem.so")),
            PYTEST="%s -m pytest -v --no-header --tb=line -p no:cacheprovider -W ignore" % shlex.quote(sys.executable),
            NUMBA="%s %s numba" % (shlex.quote(sys.executable), shlex.quote(os.path.abspath(__file__))))
        if inputs:
            make_inputs(self.environment["DATA"])

    def run(self, name, rules, command, how, knobs):
        """Returns the output; a preloaded run has its logs below `logs` in the row's folder."""
        folder = os.path.join(self.work, name, how.replace(" ", "_"))
        os.makedirs(os.path.join(folder, "in"))
        words = ["bash", "-c", command]
        if knobs:
            os.makedirs(os.path.join(folder, "logs"))
            words = [os.path.join(BESIDE, "gpumemstat"), "record", "-o", os.path.join(folder, "logs", ""), "--", *words]
        with open(os.path.join(folder, "out"), "wb") as out, open(os.path.join(folder, "err"), "wb") as err:
            status = subprocess.call(["timeout", "-k", "5", str(LIMIT), *words], cwd=os.path.join(folder, "in"), stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=err, env=dict(self.environment, **knobs))
        texts = []
        for stream in ("out", "err"):
            with open(os.path.join(folder, stream), encoding="utf-8", errors="replace") as file:
                texts.append(file.read().replace(folder, "."))
        return Said(status, *texts, rules)

    def served(self, name, how):
        """Allocations by the pool and by the driver, in all processes of a run."""
        folder = os.path.join(self.work, name, how, "logs")
        logs = sorted(os.path.join(folder, log) for log in os.listdir(folder))
        if not logs:
            return "no log"
        answer = subprocess.run([os.path.join(BESIDE, "gpumemstat"), "summary", "--json", *logs], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=False)
        try:
            devices = list(itertools.chain.from_iterable(log["devices"] for log in json.loads(answer.stdout)["logs"]))
        except (ValueError, KeyError):
            return "logs that cannot be read"
        return "%d + %d by the driver" % tuple(sum(device["counters"]["allocate_" + by] for device in devices)
                                               for by in ("pool", "driver"))

    def row(self, name, source, rules, command):
        """(name, verdict, text)"""
        began = time.monotonic()
        if began > self.until:
            return name, "not run", "the time was over"
        said, parts, verdicts = {}, [], []
        for how, knobs in RUNS:
            said[how] = self.run(name, rules, command, how, knobs)
            if how == "native" and said[how].status in (126, 127, 77):
                return name, "not run", (said[how].err or "\n".join(said[how].lines)).strip().split("\n")[-1]
        for how, _ in RUNS[2:]:
            verdict, why = judge(said["native"], said["native again"], said[how])
            ours = [line for line in said[how].err.split("\n") if line.startswith("gpumem: ")]
            verdicts.append(verdict)
            parts.append("%s: %s, pool served %s%s" % (how, why, self.served(name, how), "; it said " + ours[0] if ours else ""))
        verdict = next((one for one in ("differs", "unsure") if one in verdicts), "equal")
        status = said["native"].status
        if status:
            parts.append("natively exit %d%s" % (status, ", waived" if source == "samples" and status == WAIVED else ""))
        parts.append("%.0f s" % (time.monotonic() - began))
        if verdict != "equal" or status:
            self.keep(name, said)
        shutil.rmtree(os.path.join(self.work, name))
        return name, verdict, "; ".join(parts)

    def keep(self, name, said):
        """Keeps a row's output, at most 20 KB a run: lines that differ from the first run, else the last lines."""
        with open(os.path.join(self.results, name + ".txt"), "w", encoding="utf-8") as file:
            for how, one in said.items():
                others = [line for i, line in enumerate(one.lines) if line not in said["native"].lines[i:i + 1]]
                shown = "\n".join(others if others else one.lines[-60:])[:20000]
                file.write("== %s: exit %s, %d lines\n%s\n-- stderr\n%s\n" % (
                    how, one.status, len(one.lines), shown, "\n".join(one.err.split("\n")[-20:])[-3000:]))


def make_inputs(folder):
    """Input files of the Rodinia programs: a graph, and temperatures and powers of a grid. The same at each run."""
    os.makedirs(folder)
    state = 1

    def chance(below):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (state >> 33) % below

    def write(name, lines):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.writelines(lines)

    nodes, degree = 65536, 6
    write("graph.txt", itertools.chain(
        ["%d\n" % nodes], ("%d %d\n" % (i * degree, degree) for i in range(nodes)), ["\n0\n\n%d\n" % (nodes * degree)],
        ("%d %d\n" % (chance(nodes), 1 + chance(9)) for _ in range(nodes * degree))))
    for suffix, n in (("512", 512 * 512), ("512x8", 512 * 512 * 8)):
        write("temp_" + suffix, ["%d.%03d\n" % (320 + chance(20), chance(1000)) for _ in range(n)])
        write("power_" + suffix, ["0.%06d\n" % chance(10000) for _ in range(n)])


def run_numba(module):
    """Runs a test file of the package, with the names that it needs of NumPy."""
    import unittest
    import numpy
    for old, new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(numpy, old):
            setattr(numpy, old, getattr(numpy, new))
    try:
        __import__("numba.cuda.tests." + module)
    except ImportError as why:
        print("Numba's package here has no such tests:", why)
        sys.exit(77)
    tests = unittest.defaultTestLoader.loadTestsFromName("numba.cuda.tests." + module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    sys.exit(not result.wasSuccessful())


def main():
    if sys.argv[1:2] == ["numba"]:
        run_numba(sys.argv[2])
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", default=os.path.join(BESIDE, "others.txt"))
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("programs")
    parser.add_argument("results")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rows = read_table(options.table)
    unknown = set(options.names) - {row[0] for row in rows}
    if unknown:
        sys.exit("others: %s has no row %s" % (options.table, ", ".join(sorted(unknown))))
    rows = [row for row in rows if not options.names or row[0] in options.names]
    runner = Runner(options, any("$DATA" in row[3] for row in rows))
    counts = {"equal": 0, "differs": 0, "unsure": 0, "not run": 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
            open(os.path.join(runner.results, "SUMMARY.txt"), "w", encoding="utf-8") as summary:
        waited = [pool.submit(runner.row, *row) for row in rows]
        for done in concurrent.futures.as_completed(waited):
            name, verdict, text = done.result()
            counts[verdict] += 1
            for file in (sys.stdout, summary):
                print("%-8s %-27s %s" % (verdict, name, text), file=file, flush=True)
        for file in (sys.stdout, summary):
            print(", ".join("%d %s" % (n, verdict) for verdict, n in counts.items()), file=file, flush=True)
    shutil.rmtree(runner.work)
    sys.exit(bool(counts["differs"] or counts["unsure"]))


if __name__ == "__main__":
    main()
