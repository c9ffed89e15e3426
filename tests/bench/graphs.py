#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Graphs that change, by dyngraph: three graphs, three layouts, batches of edges and of vertices: doc/programs.md.
Run by run.sh.

    graphs.py RESULT.csv WORK_FOLDER COMMENT...

A case is a process, which makes each run twice, of which the second one counts. Groups of cases follow one
another; in a group each round starts every case once, so that a run that is cut has as many of each. The lines
of a process are kept in RESULT.lines.txt beside the CSV as soon as it ends, and a later run takes them from
there: it goes on where this one ended. graphs_table.py prints tables of that file, and graphs_plot.py draws
it. Rows: CASE/PATTERN/n=BATCH/UPDATE/WAY/FIELD, medians of the processes; the footprint of granule also beside
the smaller one of aim and faim.

Environment: BENCH_SECONDS (200), the time to use: later no process begins. BENCH_ROUNDS (5), processes of a
case. BENCH_EDGES (16M), of each graph. BENCH_ONLY, patterns of names of cases, with commas: "mesh,*-vertices".
What was not run is named at the end. Exit status: 0, also if something was not run; 1 if a process failed.
"""
import fnmatch
import os
import re
import subprocess
import sys
import time
from collections import namedtuple

from measure import environment, Table

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE, PRELOADED = "native", "preloaded"
ROUNDS, LIMIT = 5, 300  # processes of a case; seconds, for one of them
GRAPHS = ("rmat", "mesh", "road")
LAYOUTS = "aim,faim,granule,ouro-va-p"
OURS, OTHERS = "granule", "aim and faim"  # ouroGraph on the project's heap; the peer of its footprint, the smaller one
FIELDS = ("build_ms", "insert_ms", "query_ms", "delete_ms", "insert_meps", "query_meps", "delete_meps", "pagerank_ms", "order_ms",
          "triangles_ms", "move_ms", "compact_ms", "vertex_insert_mvps", "vertex_delete_mvps", "built_bytes", "final_bytes")
UNITS = {"ms": "ms", "meps": "M/s", "mvps": "M/s", "bytes": "bytes"}  # by the end of a field's name

# Name, variant, options, most processes.
Case = namedtuple("Case", "name variant options rounds", defaults=(1 << 30,))


def edges():
    text = os.environ.get("BENCH_EDGES") or "16M"
    if not re.fullmatch(r"[1-9]\d*[kMG]?", text):
        sys.exit("graphs.py: BENCH_EDGES=%s: not a number" % text)
    return int(text.rstrip("kMG")) * {"k": 10 ** 3, "M": 10 ** 6, "G": 10 ** 9}.get(text[-1], 1)


def groups(count):
    """Lists of cases; what matters most comes first. `count`: edges of a graph."""
    batches = tuple(max(count // part, 16) for part in (1600, 160, 16))  # 10 K, 100 K and 1 M, of 16 M
    all_batches, one = "--batch=%d,%d,%d" % batches, "--batch=%d" % batches[1]
    whole = {graph: ("--graph=" + graph, "--edges=%d" % count) for graph in GRAPHS}
    tenth = {graph: ("--graph=" + graph, "--edges=%d" % max(count // 10, 2000)) for graph in GRAPHS}
    heap, timed = ("--heap=%d" % (4 << 30),), ("--rounds=3", "--repeat=2")
    yield [Case(graph, variant, whole[graph] + ("--way=" + ways, all_batches) + timed)
           for graph in GRAPHS for variant, ways in ((NATIVE, LAYOUTS), (PRELOADED, "faim,malloc"))]
    yield [Case(graph + "-vertices", NATIVE, whole[graph] + ("--way=aim,faim,granule", one, "--pattern=uniform", "--plain",
                                                            "--vertices=%d,%d,%d" % (batches[0] // 10 or 1, batches[0], batches[1])) + timed)
           for graph in GRAPHS]
    # Each result against the CPU's. Its triangles of the whole R-MAT graph take minutes.
    yield [Case(graph + "-verify", NATIVE, tenth[graph] + heap + (
        "--way=aim,faim,malloc,granule,ouro-va-p", one, "--rounds=2", "--verify", "--update=auto,sorted", "--vertices=%d" % (batches[0] // 10 or 1),
        "--reinit=move,compact"), 1) for graph in GRAPHS]
    yield [Case(graph + "-sorted", NATIVE, whole[graph] + ("--way=" + LAYOUTS, all_batches, "--update=sorted", "--plain") + timed)
           for graph in GRAPHS]
    yield [Case(graph + "-reinit", NATIVE, whole[graph] + ("--way=" + LAYOUTS, one, "--pattern=uniform", "--reinit=move,compact", "--plain") + timed)
           for graph in GRAPHS]
    # The driver's malloc takes seconds for the whole graph.
    yield [Case(graph + "-malloc", variant, tenth[graph] + heap + ("--way=malloc", one) + timed)
           for graph in GRAPHS for variant in (NATIVE, PRELOADED)]
    yield [Case("%s-%s" % (graph, name), NATIVE, ("--graph=" + graph, "--edges=%d" % size, "--way=aim,faim,granule", "--batch=%d" % batch,
                                                 "--pattern=uniform") + timed)
           # Of 16 M: 239 K, as Luxembourg's streets have, and 50 M.
           for graph in GRAPHS for name, size, batch in (("small", max(count * 239 // 16000, 1000), batches[0]),
                                                         ("large", count * 25 // 8, batches[2]))]


def wanted(case):
    only = [name for name in (os.environ.get("BENCH_ONLY") or "*").split(",") if name]
    return any(fnmatch.fnmatchcase(case.name, pattern) for pattern in only)


# --- lines that are kept ---

def heading(case, turn):
    return "== %s %s process %d: ./dyngraph %s" % (case.name, case.variant, turn + 1, " ".join(case.options))


def lines_read(path):
    """{heading: lines}, of processes that ended."""
    found = {}
    if not os.path.exists(path):
        return found
    with open(path) as file:
        for block in re.split(r"(?m)^(?=== )", file.read()):
            first, _, rest = block.partition("\n")
            if first.startswith("== ") and rest.endswith("# end\n"):
                found[first] = [line for line in rest.splitlines() if not line.startswith("#")]
    return found


def lines_keep(path, head, lines):
    with open(path, "a") as file:
        file.write("\n".join([head] + lines + ["# end"]) + "\n")


# --- processes ---

def process(case, work):
    """(lines, None), or (None, what went wrong)."""
    command = [os.path.join(HERE, "dyngraph")] + list(case.options)
    try:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(case.variant == PRELOADED, work), cwd=work,
                              timeout=LIMIT)
    except (OSError, subprocess.TimeoutExpired) as why:
        return None, str(why)
    lines = said.stdout.splitlines()
    if said.returncode or not lines:
        return None, "status %d: %s" % (said.returncode, said.stderr.strip().splitlines()[-1:] or "no output")
    return lines, None


def values(line):
    return dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)


def seconds(lines):
    """The last one of each run that a process repeats."""
    found = {}
    for run in map(values, lines):
        found[tuple(run.get(key) for key in ("way", "pattern", "batch", "update", "names"))] = run
    return list(found.values())


def rows_add(table, case, lines):
    for run in seconds(lines):
        names = "/v=" + run["names"] if "names" in run else ""
        label = "%s/%s/n=%s/%s%s/%s%s" % (case.name, run["pattern"], run["batch"], run["update"], names, run["way"],
                                         "" if case.variant == NATIVE else "/" + case.variant)
        size = 4 * int(run["edges"])
        for field in FIELDS:
            if field in run:
                table.add("%s/%s" % (label, field), size, UNITS[field.rsplit("_", 1)[1]], float(run[field]))
        if run["way"] == OURS:
            others = [float(other["final_bytes"]) for other in seconds(lines) if other["way"] in ("aim", "faim") and
                      all(other.get(key) == run.get(key) for key in ("pattern", "batch", "names"))]
            table.add(label + "/final_bytes", size, "bytes", float(run["final_bytes"]), OTHERS, min(others) if others else None)


class Suite:
    def __init__(self, path, work, comments, limit):
        self.table, self.work, self.end = Table(path, "graphs", comments), work, limit
        self.kept = re.sub(r"\.csv$", "", path) + ".lines.txt"
        self.known, self.missing, self.broken, self.ran = lines_read(self.kept), {}, set(), 0
        if self.known:
            self.table.comment("%d processes are taken from %s" % (len(self.known), os.path.basename(self.kept)))

    def run(self, case, turn):
        head = heading(case, turn)
        lines, label = self.known.get(head), "%s, %s" % (case.name, case.variant)
        if lines is None:
            if case in self.broken or time.monotonic() >= self.end:
                self.missing[label] = self.missing.get(label, 0) + 1
                return
            lines, why = process(case, self.work)
            self.ran += 1
            if lines is None:
                self.broken.add(case)
                self.table.comment("failed: %s: %s" % (head[3:], why))
                return
            lines_keep(self.kept, head, lines)
        rows_add(self.table, case, lines)
        self.table.write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    begin, rounds = time.monotonic(), int(os.environ.get("BENCH_ROUNDS") or ROUNDS)
    suite = Suite(sys.argv[1], sys.argv[2], sys.argv[3:], begin + float(os.environ.get("BENCH_SECONDS") or 200))
    for group in groups(edges()):
        for turn in range(rounds):
            for case in (case for case in group if wanted(case) and turn < case.rounds):
                suite.run(case, turn)
            print("# %s, process %d: %5.1f s" % (group[0].name, turn + 1, time.monotonic() - begin), flush=True)
    for label, count in suite.missing.items():
        suite.table.comment("not run: %s: processes: %d" % (label, count))
    suite.table.add("failed", None, "cases", len(suite.broken))
    suite.table.comment("%d processes in %.0f s" % (suite.ran, time.monotonic() - begin))
    suite.table.write()
    return 1 if suite.broken else 0


if __name__ == "__main__":
    sys.exit(main())
