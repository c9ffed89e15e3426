#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""malloc in kernels as a user has it, beside other allocators: makes rows of the output of
tests/bench/fresh.cu.

    fresh.py RESULT.csv WORK [COMMENT]...

Each value is from a process of its own, with a fresh heap and default knobs. G is gpumem_device.cuh on a heap
that grows, T is an unmodified program under the preload, native the same without it. rw-bm and corw are this
project's, on a heap that is mapped beforehand; they serve one size. Slack is memory that G and T map ahead,
and return when other memory lacks: "excess" leaves it out; the slack of T is read from its log. "corw + map"
is the time of corw's first mallocs there and of mapping that memory. Other allocators are those of `make
bench-bundle PEERS=DIR`. A round runs every heap for every case, in a random order. Environment: BENCH_SECONDS
(200), the time to use: later no round begins; BENCH_ROUNDS (9), the maximum; BENCH_PEERS, the heaps to run
(default: all that are present); BENCH_CASES, as thread:16:1000000.
"""
import glob
import json
import os
import random
import re
import subprocess
import sys
import time

from measure import Gone, Table

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 20  # seconds, for one process
MILLION = 1000000
SIZES = [16, 64, 256, 1024, 4096, 8192, 24, 40, 777, 32, 128, 512, 2048]
CASES = ([("thread", size, MILLION) for size in SIZES[:9]] + [("mixed", size, MILLION) for size in (64, 512, 4096)] +
         [("beside", size, MILLION) for size in (16, 64, 1024)] + [("warp", size, 32 * 100000) for size in (16, 512, 4096)] +
         [(shape, size, MILLION) for shape in ("churn", "pass", "queue") for size in (16, 64, 256, 1024, 4096, 16384)] +
         [("thread", size, MILLION) for size in SIZES[9:]])
OURS = ("G", "T")
PROGRAMS = {"G": "header", "T": "plain", "native": "plain"}  # others: the name itself
MAPPED = ("rw-bm", "corw")


def present():
    """Heaps whose programs are present; ours first."""
    names = [name[len("fresh-"):] for name in sorted(os.listdir(HERE)) if name.startswith("fresh-")]
    found = [name for name, program in PROGRAMS.items() if program in names]
    found += [name for name in names if name not in PROGRAMS.values()]
    wanted = os.environ.get("BENCH_PEERS", "").split() or found
    return [name for name in found if name in wanted]


def cases():
    text = os.environ.get("BENCH_CASES", "").split()
    return [(shape, int(size), int(n)) for shape, size, n in (word.split(":") for word in text)] or CASES


def environment(name, work):
    variables = dict(os.environ, CUDA_MODULE_LOADING="EAGER", GPUMEM_LOG_NAME=os.path.join(work, "%p.gml"))
    variables["LD_LIBRARY_PATH"] = HERE + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    variables.pop("LD_PRELOAD", None)
    if name == "T":
        variables["LD_PRELOAD"] = os.environ.get("BENCH_PRELOAD") or os.path.join(HERE, "libgpumem.so")
    return variables


def rows_of_log(work):
    """{row: (unit, value)} of the process with a log in `work`, which is removed: slack at its end; the takeover, and
    its parts."""
    logs = glob.glob(os.path.join(work, "*.gml"))
    if not logs:
        return {}
    command = [os.path.join(HERE, "gpumemstat"), "summary", "--json"] + logs
    said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    for log in logs:
        os.remove(log)
    devices = [device for log in said["logs"] for device in log["devices"]]
    rows = {"slack": ("bytes", float(sum(device["heap_memory"]["slack"]["current"] for device in devices if device.get("heap_memory"))))}
    for context in [context for device in devices for context in device.get("contexts", ()) if context["taken_over"]]:
        rows["takeover"] = ("us", context["took_ns"] / 1e3)
        rows.update(("takeover-" + step.replace(" ", "-"), ("us", float(us)))
                    for step, us in re.findall(r"([a-z ]+) (\d+)(?:, |$)", context["text"].partition("; us: ")[2]))
    return rows


def measured(table, name, case, work):
    """{row: (unit, value)} of one process; without rows that it did not reach."""
    command = [os.path.join(HERE, "fresh-" + PROGRAMS.get(name, name))] + [str(word) for word in case]
    variables = environment(name, work)
    variables["FRESH_START"] = str(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=work)
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        said = said[:said.rfind("\n") + 1]
        table.comment("cut after %d s: %s %s" % (LIMIT, name, " ".join(str(word) for word in case)))
    else:
        if process.returncode:
            table.comment("failed: %s %s: %s" % (name, " ".join(str(word) for word in case),
                                                 (said.splitlines() or ["nothing"])[-1]))
    rows = [line.split() for line in said.splitlines() if line.startswith("row ")]
    if any(len(row) != 4 for row in rows):
        raise Gone("fresh-%s says: %s" % (name, said))
    values = {row[1]: (row[2], float(row[3])) for row in rows}
    values.update(rows_of_log(work) if name == "T" else {})
    return values


def add_own(table, label, size, values):
    """The first free, and the first kernel of a churn or pass alone, beside a later one. Excess: memory without
    slack, beyond 1.5 times the blocks and 64 MiB."""
    for column in [column for column in values if column.startswith("takeover")]:
        table.add("%s/%s" % (label, column), size, "us", values[column][1])
    alone = label.split("/")[1]
    if "first-" + alone in values:
        table.add(label + "/first", size, "us", values["first-" + alone][1], "later", values[alone][1])
    if "free" in values:
        table.add(label + "/first-free", size, "us", values["first-free"][1], "later", values["free"][1])
    if "live" in values and "mapped-churn" in values and "slack" in values:
        mapped = values["mapped-churn"][1] - values["slack"][1]
        table.add(label + "/excess", size, "bytes", mapped - 1.5 * values["live"][1] - (64 << 20))


def grows(shape, column):
    """Is the row that of a heap without memory?"""
    return column in ("start", "ready", "cold", "first-" + shape)


def add(table, case, values):
    """Rows of one round: ours beside each other heap, and the memory of all heaps."""
    shape, size, threads = case
    label = shape if threads in (MILLION, 32 * 100000) else "%s=%d" % (shape, threads)
    if "cold" in values.get("corw", {}) and "map" in values["corw"]:
        values["corw + map"] = {"cold": ("us", values["corw"]["cold"][1] + values["corw"]["map"][1])}
    for name in values:
        for column, (unit, value) in values[name].items():
            if unit == "bytes" and column != "live":
                table.add("%s/%s/%s" % (name, label, column), size, unit, value)
    for ours in [name for name in OURS if name in values]:
        add_own(table, "%s/%s" % (ours, label), size, values[ours])
        for peer in [name for name in values if name != ours]:
            for column, (unit, value) in values[ours].items():
                theirs = values[peer].get(column)
                if theirs and unit != "bytes" and (peer not in MAPPED or not grows(shape, column)):
                    table.add("%s/%s/%s" % (ours, label, column), size, unit, value, peer, theirs[1])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    table, begin = Table(sys.argv[1], "fresh", sys.argv[3:]), time.monotonic()
    end = begin + float(os.environ.get("BENCH_SECONDS") or 200)
    heaps = present()
    if not heaps:
        sys.exit("fresh.py: no fresh-* program in %s" % HERE)
    table.comment("heaps: " + " ".join(heaps))
    try:
        for number in range(int(os.environ.get("BENCH_ROUNDS") or 9)):
            for case in cases():
                if time.monotonic() > end:
                    return
                values = {}
                for name in random.sample(heaps, len(heaps)):
                    values[name] = measured(table, name, case, sys.argv[2])
                add(table, case, {name: values[name] for name in heaps})
                table.write()
            print("# round %d %5.1f s" % (number + 1, time.monotonic() - begin), flush=True)
    except Gone as why:
        sys.exit("fresh.py: %s" % why)
    finally:
        table.write()


if __name__ == "__main__":
    main()
