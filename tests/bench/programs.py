#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of programs/, natively and preloaded by turns, with the parameters of the thesis:
doc/programs.md. Run by run.sh.

    programs.py RESULT.csv WORK_FOLDER COMMENT...

Each round starts both programs afresh for each case, in an order that changes in each round. A case is one
process, which runs in-core, streamed and out-of-core. Its rows are total times: preloaded beside native, and
for each of the two, streamed beside in-core. Results must be equal: otherwise the case has failed, and is not
run again. Then each number of streams is run, three times in one process. The systems of systems.py are run
in every round. Environment: BENCH_SECONDS (200), the time to use: later no round begins. BENCH_ELEMENTS
(1280M), the elements of each array; many steps use a tenth of them; suffixes are k, M and G. BENCH_ROUNDS
(9), the maximum.
"""
import os
import subprocess
import sys
import time

import systems
from measure import environment, Gone, PAIRS, Table

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE, PRELOADED = "native", "preloaded"
MODES = ("in-core", "streamed", "out-of-core")
UNITS = {"k": 10 ** 3, "M": 10 ** 6, "G": 10 ** 9}
MANY = 3883
# program, steps, memory of the host, streams: from tables 4.3 and 4.4; out-of-core uses as many streams.
CASES = (
    ("oocmap", 1, "pinned", 8), ("oocstencil", 1, "pinned", 16),
    ("oocmap", 1, "pageable", 8), ("oocstencil", 1, "pageable", 16),
    ("oocmap", 64, "pinned", 8), ("oocstencil", 64, "pinned", 16),
    ("oocmap", MANY, "pinned", 2), ("oocstencil", MANY, "pinned", 16),
)
STREAMS, REPEATS = (1, 2, 4, 8, 16, 32, 64, 128), 3
ROUNDS_OF_MANY = 3
ROUNDS_OF_DATA = 5  # size of the data / device memory that out-of-core may use, as in the thesis: 25 GB a vector, 11 GB
LIMIT = 300  # seconds, for one process


def elements():
    text = os.environ.get("BENCH_ELEMENTS") or "1280M"
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def measured(variant, work, program, *options):
    """The values of each run of one process, as {key: text}."""
    command = [os.path.join(HERE, program)] + list(options)
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(variant == PRELOADED, work), cwd=work, timeout=LIMIT)
    if said.returncode:
        raise Gone("%s %s, %s: status %d" % (program, " ".join(options), variant, said.returncode))
    return [dict(word.split("=", 1) for word in line.split()[1:]) for line in said.stdout.splitlines()]


def both(turn, work, program, *options):
    """{variant: runs} with equal results."""
    order = (NATIVE, PRELOADED) if turn % 2 == 0 else (PRELOADED, NATIVE)
    runs = {variant: measured(variant, work, program, *options) for variant in order}
    results = {run["checksum"] for variant in runs for run in runs[variant]}
    if len(results) != 1:
        raise Gone("%s %s: results differ: %s" % (program, " ".join(options), " ".join(sorted(results))))
    if len(runs[NATIVE]) != len(runs[PRELOADED]):
        raise Gone("%s %s: not as many runs preloaded" % (program, " ".join(options)))
    return runs


def took(run):
    return float(run["total_ms"])


def options_of(count, steps, host, streams):
    return ("--elements=%d" % count, "--steps=%d" % steps, "--host=" + host, "--streams=" + streams,
            "--room=%d" % (2 * 4 * count // ROUNDS_OF_DATA))


def case(table, turn, work, count, program, steps, host, streams):
    runs = both(turn, work, program, "--mode=" + ",".join(MODES), *options_of(count, steps, host, str(streams)))
    size, label = 4 * count, "%s/t=%d/%s/" % (program, steps, host)
    if [run["mode"] for run in runs[NATIVE]] != list(MODES):
        raise Gone("%s: other modes than were asked for" % program)
    for at, mode in enumerate(MODES):
        table.add(label + mode, size, "ms", took(runs[PRELOADED][at]), NATIVE, took(runs[NATIVE][at]))
        for variant in (NATIVE, PRELOADED) if at else ():
            table.add("%s%s/%s" % (label, mode, variant), size, "ms", took(runs[variant][at]), MODES[0], took(runs[variant][0]))


def sweep(table, turn, work, count, program, mode):
    """Runs each number of streams, with one step."""
    runs = both(turn, work, program, "--mode=" + mode, "--repeat=%d" % REPEATS,
                *options_of(count, 1, "pinned", ",".join(map(str, STREAMS))))
    for ours, theirs in zip(runs[PRELOADED], runs[NATIVE]):
        table.add("%s/t=1/pinned/%s/streams=%s" % (program, mode, ours["streams"]), 4 * count, "ms", took(ours), NATIVE, took(theirs))


def attempt(table, broken, name, run):
    """A failure is reported once, and the case is not run again."""
    if name in broken:
        return
    try:
        run()
    except (Gone, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as why:
        broken.add(name)
        table.comment("skipped: %s: %s" % (name, why))
    table.write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    table, work, broken = Table(sys.argv[1], "programs", sys.argv[3:]), sys.argv[2], set()
    begin, count, turn = time.monotonic(), elements(), 0
    end = begin + float(os.environ.get("BENCH_SECONDS") or 200)
    rounds = int(os.environ.get("BENCH_ROUNDS") or PAIRS)
    while turn < rounds and time.monotonic() < end:
        for program, steps, host, streams in CASES:
            if steps != MANY or turn < ROUNDS_OF_MANY:
                attempt(table, broken, "%s, %d steps, %s" % (program, steps, host),
                        lambda: case(table, turn, work, count // 10 if steps == MANY else count, program, steps, host, streams))
        for name, program, arguments, size, rival, fields in systems.systems(count):
            attempt(table, broken, name, lambda: systems.add(table, both(turn, work, program, *arguments), name, size, rival, fields,
                                                             NATIVE, PRELOADED))
        if turn == 0:  # at the end of the first round, which may be the only one
            for program in ("oocmap", "oocstencil"):
                for mode in MODES[1:]:
                    attempt(table, broken, "%s, streams, %s" % (program, mode),
                            lambda: sweep(table, turn, work, count, program, mode))
        turn += 1
        print("# round %d %5.1f s" % (turn, time.monotonic() - begin), flush=True)
    table.add("failed", None, "cases", len(broken))
    table.comment("%d rounds in %.0f s" % (turn, time.monotonic() - begin))
    table.write()


if __name__ == "__main__":
    main()
