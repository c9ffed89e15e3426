#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare measurements with the targets of doc/performance.md.

    report.py RESULT.csv

Prints a line for each target: the target, the worst measurement for it with its place, and whether the target
is met. A target without a measurement, or with fewer than nine pairs, is not met. Exit status 1 if a target
is not met, 2 if the file cannot be read.
"""
import csv
import sys

from measure import COLUMNS, PAIRS

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TENSORS = 3  # pairs of slow copies by PyTorch and CuPy


class Row:
    def __init__(self, fields):
        self.suite, self.case, self.unit, self.peer = (fields[name] for name in ("suite", "case", "unit", "peer"))
        self.size, self.count = int(fields["size"] or 0), int(fields["count"])
        self.ours, self.theirs, self.ratio, self.low, self.high = (
            float(fields[name]) if fields[name] else None for name in ("ours", "theirs", "ratio", "low", "high"))


# How a row is judged: the displayed value, and the margin above (positive) or below the bound.

def faster(bound, pairs=PAIRS):
    """The median of the ratios is at least `bound`."""
    return lambda r: ("%.3g times" % r.ratio, r.ratio / bound - 1, pairs)


def reaches(bound, pairs=PAIRS):
    """The interval of the ratio reaches `bound`: "not slower" 0.97, "within 1%" 0.99."""
    return lambda r: ("%.3f (%.3f to %.3f)" % (r.ratio, r.low, r.high), r.high / bound - 1, pairs)


def holds(bound, pairs=PAIRS):
    """The median of the ratios is at least `bound`, and its interval reaches at most 3% to either side."""
    return lambda r: ("%.3f (%.3f to %.3f)" % (r.ratio, r.low, r.high), min(r.ratio / bound - 1, 0.03 - (r.high - r.low) / 2), pairs)


def costs(most, share=0.0):
    """Costs at most `most`, or `share` of the peer's value, more than the peer, by the median of the ratios: separate
    medians would also differ by the machine's other load."""
    def judge(r):
        more = r.theirs * (1 / r.ratio - 1)
        return "%+.3g %s" % (more, r.unit), max(most, share * r.theirs) - more, PAIRS
    return judge


def may_cost(most):
    """The interval of the additional cost reaches down to at most `most`."""
    def judge(r):
        least = r.theirs * (1 / r.high - 1)
        return "%+.3g (%+.3g to %+.3g) %s" % (r.theirs * (1 / r.ratio - 1), least, r.theirs * (1 / r.low - 1), r.unit), most - least, PAIRS
    return judge


def at_least(bound):
    return lambda r: ("%.4g" % r.ours, r.ours - bound, 1)


def at_most(bound):
    return lambda r: ("%.4g %s" % (r.ours, r.unit), bound - r.ours, 1)


def never(r):
    return "%.3g" % r.ours, -r.ours, PAIRS


def shown(r):
    return "%.4g %s" % (r.ours, r.unit), 0.0, 1


def compared(r):
    return "%.3g times" % r.ratio, 0.0, 1


def sizes(low, high):
    return lambda size: low <= size < high


def anything(_):
    return True


def power_of_two(size):
    return size & (size - 1) == 0


# suite: (target, case, peer, sizes, judgement)
POOL = (
    ("warm pair, below 1 MiB: 3x native", "warm/sync", "native", sizes(0, MIB), faster(3)),
    ("warm pair, from 1 MiB: 50x native", "warm/sync", "native", sizes(MIB, 64 * MIB), faster(50)),
    ("warm pair, from 64 MiB: 100x native", "warm/sync", "native", sizes(64 * MIB, 1 << 62), faster(100)),
    ("warm pair, defer: faster than async", "warm/defer", "async", anything, faster(1)),
    ("8 threads, defer: faster than async", "threads=8/same/defer", "async", anything, faster(1)),
    ("free under a kernel, defer: never waits", "free-under-kernel/defer/waited", "", anything, never),
    ("peak of retired memory, defer: reported", "retired-peak/defer", "", anything, shown),
    ("cold, to 256 MiB: not slower", "cold/sync", "native", sizes(0, 256 * MIB + 1), reaches(0.97)),
    ("cold, above: at most 1.5x slower", "cold/sync", "native", sizes(256 * MIB + 1, 1 << 62), reaches(1 / 1.5)),
    ("8 threads, defer, to 1 MiB: 6x one thread", "threads=8/same/defer", "one thread", sizes(0, MIB + 1), faster(6)),
    ("8 threads, defer, mixed: 6x one thread", "threads=8/mixed/defer", "one thread", anything, faster(6)),
    ("8 threads, sync: not below native", "threads=8/same/sync", "native", anything, reaches(0.97)),
    ("training trace: utilisation 0.95", "replay/sync/utilisation", "native", anything, at_least(0.95)),
    ("PyTorch training step: within 1%", "train/sync", "native", anything, reaches(0.99)),
    ("cuBLAS loop: within 1%", "blas/sync", "native", anything, reaches(0.99)),
    ("import torch: 2% or 50 ms more", "torch-start/sync", "native", anything, costs(50, 0.02)),
    ("launch: at most 20 ns more", "launch/sync", "native", anything, costs(20)),
    ("exec: at most 60 us more", "exec/sync", "empty preload", anything, costs(60)),
)
HEAP = (
    ("warm malloc: within 1.5x of rw-bm", "thread/warm", "rw-bm", anything, faster(1 / 1.5)),
    ("warm, mixed in a warp: the same", "mixed/warm", "rw-bm", anything, faster(1 / 1.5)),
    ("first malloc: within 1.5x of corw", "thread/cold", "corw", anything, faster(1 / 1.5)),
    ("first, mixed in a warp: the same", "mixed/cold", "corw", anything, faster(1 / 1.5)),
    ("free: within 1.5x of corw", "thread/free", "corw", anything, faster(1 / 1.5)),
    ("free, mixed in a warp: the same", "mixed/free", "corw", anything, faster(1 / 1.5)),
    ("churn: faster than rw-bm", "thread/churn", "rw-bm", anything, faster(1)),
    ("churn: faster than corw", "thread/churn", "corw", anything, faster(1)),
    ("a full heap: 95% in use", "utilisation/granule", "", power_of_two, at_least(0.95)),
)
INKERNEL = (
    ("1M threads x malloc(64): 1000x native", "malloc", "native", anything, faster(1000)),
    ("10M threads x malloc(64): no NULL", "nulls", "", anything, at_most(0)),
    ("malloc that makes the heap grow: reported", "growth", "", anything, shown),
    ("launch beside malloc: at most 20 ns more", "launch-beside/sync", "native", anything, costs(20)),
)
RIVALS = ("gallatin", "ouro-s-p", "ouro-va-p", "ouro-vl-p", "ouro-s-c", "ouro-va-c", "ouro-vl-c", "native")
FRESH = (
    *(("warm malloc: faster than " + rival, "G/thread/warm", rival, anything, faster(1)) for rival in RIVALS),
    *(("churn, %s: faster than %s" % (ours, rival), ours + "/thread/churn", rival, anything, faster(1))
      for ours in ("G", "T") for rival in RIVALS),
    *(("warm, to 1 KiB: within 1.3x of " + bound, "G/thread/warm", bound, sizes(0, KIB + 1), faster(1 / 1.3))
      for bound in ("rw-bm", "corw")),
    *(("warm, to 8 KiB: within 1.5x of " + bound, "G/thread/warm", bound, anything, faster(1 / 1.5))
      for bound in ("rw-bm", "corw")),
    ("warm, T: within 1.5x of G", "T/thread/warm", "G", anything, faster(1 / 1.5)),
    ("cold: within 1.5x of corw and its mapping", "G/thread/cold", "corw + map", anything, faster(1 / 1.5)),
    ("takeover: 1 ms", "T/thread/takeover", "", anything, at_most(1000)),
    ("first kernel done, T: 2 ms after G's", "T/thread/start", "G", anything, costs(2)),
    *(("first free, %s: at most 2x a later one" % ours, ours + "/thread/first-free", "later", anything, faster(0.5))
      for ours in ("G", "T")),
    *(("mapped, %s: 1.5x live + 64 MiB" % ours, ours + "/thread/excess", "", anything, at_most(0)) for ours in ("G", "T")),
    *(("%s alone, %s: first at most 3x a later one" % (shape, ours), "%s/%s/first" % (ours, shape), "later", anything, faster(1 / 3))
      for shape in ("churn", "pass") for ours in ("G", "T")),
    *(("churn alone, %s: within 1.5x of %s" % (ours, bound), ours + "/churn/churn", bound, anything, faster(1 / 1.5))
      for ours in ("G", "T") for bound in ("rw-bm", "corw")),
    *(("%s alone, %s: faster than %s" % (shape, ours, rival), "%s/%s/%s" % (ours, shape, shape), rival, anything, faster(1))
      for shape in ("churn", "pass") for ours in ("G", "T") for rival in RIVALS),
)
def left_of_moved(r):
    """Page tables of registered memory are 1/512 of it; 2 MiB are for questions about pointers. Other processes of the
    device come and go by some MiB."""
    most = r.size / MIB / 512 + 8
    return "%.3g MiB of %.3g" % (r.ours, most), most - r.ours, PAIRS

COPY = (
    *(("%s, %s: not slower" % (case, who), "%s/%s" % (case, who), "native", anything, reaches(0.97))
      for case in ("h2d", "d2h", "d2h-fresh") for who in ("auto", "8")),
    ("1 GiB to the device, 8: 80% of pinned", "h2d/8", "pinned", anything, faster(0.8)),
    ("1 GiB from the device, 8: 75% of pinned", "d2h/8", "pinned", anything, faster(0.75)),
    ("1 GiB to the device, auto: 38 GB/s", "h2d-rate/auto", "", anything, at_least(38)),
    ("1 GiB from the device, auto: 31 GB/s", "d2h-rate/auto", "", anything, at_least(31)),
    ("1 GiB to fresh memory, 8: 2x native", "d2h-fresh/8", "native", sizes(GIB, GIB + 1), faster(2)),
    *(("1 GiB, %s: not slower" % name.replace("-", ": "), name + "/auto", "native", anything, faster(0.97, TENSORS))
      for name in ("torch-cuda", "torch-cpu", "torch-numpy", "cupy-asarray", "cupy-asnumpy")),
    ("first copy of a process: not slower", "first-h2d/auto", "native", anything, reaches(0.97)),
)
RESIDENCY_SLOW = 3  # rounds with cuCheckpointProcess
RESIDENCY = (
    ("sleep, kept store: 90% of the link", "out/warm", "link", anything, faster(0.9)),
    ("wake, kept store: 90% of the link", "in/warm", "link", anything, faster(0.9)),
    ("sleep, new pages: 25 GB/s", "out/fresh", "link", anything, at_least(25)),
    ("wake, from new pages: 90% of the link", "in/fresh", "link", anything, faster(0.9)),
    *(("first sleep, %s: 1.5 times a later one" % store, "first/" + store, "later", anything, faster(1 / 1.5)) for store in ("warm", "fresh")),
    ("sleep: 10x cuCheckpointProcess", "sleep/warm", "checkpoint", anything, faster(10, RESIDENCY_SLOW)),
    ("wake: 5x cuCheckpointProcess", "wake/warm", "checkpoint", anything, faster(5, RESIDENCY_SLOW)),
    *(("left on the device, %s: 1/512 and 2 MiB" % store, "left/" + store, "", anything, left_of_moved) for store in ("warm", "fresh")),
    *(("first kernel, %s: 50 ms" % store, "first-kernel/" + store, "", anything, at_most(50000)) for store in ("warm", "fresh")),
    *(("wake by a kernel, %s: 50 ms more" % store, "by-kernel/" + store, "command", anything, costs(0.05)) for store in ("warm", "fresh")),
    ("launch: the interval includes 0 ns more", "launch/unarmed", "GPUMEM_SLEEP=0", anything, may_cost(0)),
)
RECORD = (
    ("step with stacks, no cache: at most 3%", "step/no-cache", "events", anything, faster(0.97)),
    ("step with stacks, cache: at most 3%", "step/cache", "events", anything, faster(0.97)),
    ("step with stacks, no cache: reported", "step/no-cache", "small", anything, compared),
    ("event without a stack: 100 ns", "event", "", anything, at_most(100)),
    ("call stack: reported", "stack", "", anything, shown),
)
PROGRAMS = (("every case ran, with equal results", "failed", "", anything, at_most(0)),
            ("growth: faster than thrust::device_vector", "growth/vector", "thrust", anything, faster(1)), *(
    ("%s, %s, %s: not slower" % (program[3:], host, mode), "%s/t=1/%s/%s" % (program, host, mode), "native", anything, reaches(0.97))
    for program in ("oocmap", "oocstencil") for host in ("pinned", "pageable") for mode in ("in-core", "streamed", "out-of-core")))
# The thesis' 200 M updates a second, by the bandwidth of the memories: 200 x 3352 / 548.
GRAPHS = (("every case ran", "failed", "", anything, at_most(0)),
          *(("%s, %s: %s 1224 M/s" % (graph, way, what), "%s/uniform/n=1000000/vertices/%s/%s_meps" % (graph, way.replace(" ", "/"), what), "",
             anything, at_least(1224))
            for graph in ("rmat", "mesh", "road") for way in ("granule", "malloc preloaded") for what in ("insert", "delete")), *(
    ("%s: the smallest footprint" % graph, graph + "/uniform/n=1000000/vertices/granule/final_bytes", "aim and faim", anything, faster(1, 1))
    for graph in ("rmat", "mesh", "road")))
FRAMEWORKS_PAIRS = 15
# Peaks of equal runs differ by less than 1%.
FRAMEWORKS = (
    *(target for program in ("train", "serve") for target in (
        (program + ", unchanged: not slower", program + "/default", "cache", anything, holds(0.97, FRAMEWORKS_PAIRS)),
        (program + ", ordered: not slower than any", program + "/ordered", "fastest", anything, holds(0.97, FRAMEWORKS_PAIRS)),
        (program + ", unchanged: no more memory", program + "/default/peak", "cache", anything, faster(1 / 1.01, 1)),
        (program + ", ordered: 1.05x expandable segments", program + "/ordered/peak", "expandable", anything, faster(1 / 1.05, 1)))),
    ("largest step in 16 GiB, unchanged", "train/default/tokens", "cache", anything, faster(1, 1)),
    ("largest step in 16 GiB, ordered", "train/ordered/tokens", "expandable", anything, faster(1, 1)),
    ("CuPy without pool, ordered: beats async", "cupy/ordered", "async", anything, faster(1)),
    ("the same, memory: 1.1x no pool natively", "cupy/ordered/peak", "none", anything, faster(1 / 1.1, 1)),
    ("serve, ordered: at most 1.03x the floor", "serve/ordered", "floor", anything, holds(0.97, FRAMEWORKS_PAIRS)),
    ("JAX, unchanged: not slower", "jax/default", "own", anything, holds(0.97, FRAMEWORKS_PAIRS)),
    ("JAX, unchanged: no more memory", "jax/default/peak", "own", anything, faster(1 / 1.01, 1)),
)
TARGETS = {"copy": COPY, "frameworks": FRAMEWORKS, "residency": RESIDENCY, "pool": POOL, "heap": HEAP, "fresh": FRESH, "inkernel": INKERNEL,
           "programs": PROGRAMS, "graphs": GRAPHS, "record": RECORD}


def verdict(rows, case, peer, fits, how):
    """(text, met?) for the worst row of the target."""
    found = [r for r in rows if r.case == case and r.peer == peer and fits(r.size)]
    if not found:
        return "not measured", False
    judged = []
    for r in found:
        at = " at %s" % size_text(r.size) if r.size else ""
        try:
            text, margin, pairs = how(r)
        except TypeError:  # no ratio or no interval
            return "%d pairs%s: too few" % (r.count, at), False
        if r.count < pairs:
            return "%d pairs%s: too few" % (r.count, at), False
        judged.append((margin, text + at))
    margin, text = min(judged)
    return text, margin >= 0


def size_text(size):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % (unit // 2) == 0:
            return "%g %s" % (size / unit, name)
    return "%d B" % size


def read(path):
    """The rows of the file, and its comments."""
    with open(path, newline="") as file:
        lines = file.read().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    reader = csv.DictReader(line for line in lines if not line.startswith("#"))
    if ",".join(reader.fieldnames or ()) != COLUMNS:
        raise ValueError("its columns are not " + COLUMNS)
    return [Row(fields) for fields in reader], comments


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        rows, comments = read(sys.argv[1])
    except (OSError, ValueError, TypeError) as why:
        print("report.py: %s: %s" % (sys.argv[1], why), file=sys.stderr)
        return 2
    for comment in comments:
        print(comment)
    missed, targets = 0, TARGETS.get(rows[0].suite if rows else "pool", ())
    print("%-42s %-38s %s" % ("target", "measured, the worst", "met?"))
    for what, *target in targets:
        text, met = verdict(rows, *target)
        missed += not met
        print("%-42s %-38s %s" % (what, text, "yes" if met else "NO"))
    print("%d of %d targets met" % (len(targets) - missed, len(targets)))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
