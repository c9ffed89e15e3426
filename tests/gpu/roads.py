#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""GPUMEM_LIMIT, cudaMemGetInfo and refusals on each road by which a process takes device memory, on a GPU.

    roads.py LIBRARY GPUMEMSTAT ROADS RESULTS [table|torch|cupy|jax]...

table: runs ROADS (roads.cu) preloaded with GPUMEM_LIMIT=1G, a process a road, and prints a table of roads. The
frameworks, torch with expandable segments, cupy with its async pool, and jax, each with GPUMEM_LIMIT=16G, run until
they are out of memory; who had the memory then is printed. By default all that are here. Logs and output are in RESULTS.
Exit status 1 if a cell is wrong.
"""
import json
import os
import re
import subprocess
import sys

MIB, GIB, PIECE, LIMIT = 1 << 20, 1 << 30, 64, 1024  # PIECE, LIMIT: MiB
# Road, the owner of its memory, whether it is refused; the driver may take more than was asked for.
ROADS = (("alloc", "live", True), ("create", "created", True), ("mapped", "created", True), ("async", "async", True),
         ("pool", "async", True), ("array", "arrays", True), ("graph", "graphs", False), ("managed", None, False), ("heap", "heaps", True))

FRAMEWORKS = {
    "torch": ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}, """
import torch
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 28, device="cuda"))
except torch.OutOfMemoryError as e:
    print("OOM", len(kept) << 30)
"""),
    "cupy": ({}, """
import cupy
cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
kept = []
try:
    while True:
        kept.append(cupy.empty(1 << 28, dtype="f4"))
except (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError) as e:
    print("OOM", len(kept) << 30)
"""),
    "jax": ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": "1.1"}, """
import jax, jax.numpy as jnp
kept = []
try:
    while True:
        kept.append(jnp.ones((1 << 28,), jnp.float32).block_until_ready())
except Exception as e:
    assert "RESOURCE_EXHAUSTED" in str(e), e
    print("OOM", len(kept) << 30)
"""),
}

wrong = []


def run(name, command, limit, extra=()):
    """(standard output, standard error, the log as JSON)"""
    log = os.path.join(results, name + ".gml")
    env = dict(os.environ, LD_PRELOAD=library, GPUMEM_LOG="events", GPUMEM_LOG_NAME=log, GPUMEM_LIMIT=limit, **dict(extra))
    said = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
    with open(os.path.join(results, name + ".txt"), "w") as file:
        file.write(said.stdout + said.stderr)
    if said.returncode:
        wrong.append("%s: status %d: %s" % (name, said.returncode, (said.stderr.strip().splitlines() or [""])[-1]))
    shown = subprocess.run([gpumemstat, "--json", log], stdout=subprocess.PIPE, text=True)
    return said.stdout, said.stderr, json.loads(shown.stdout)["logs"][0] if shown.stdout else {}


def check(name, what, holds):
    if not holds:
        wrong.append("%s: %s" % (name, what))
    return "yes" if holds else "NO"


def refusals(log):
    counters = log["devices"][0]["counters"]
    return counters["allocate_failed"] + counters["refused_calls"]


def road_row(name, owner, refused):
    out, err, log = run(name, [roads, name, "24"], "%dM" % LIMIT)
    free = [int(n) for n in re.findall(r"^(?:begin|took): (\d+) of %d$" % LIMIT, out, re.M)]
    pieces = int(re.search(r"^(\d+) pieces", out, re.M).group(1)) if name != "heap" else int(re.search(r"^heap: (\d+)$", out, re.M).group(1))
    lines = [line for line in err.splitlines() if line.startswith("gpumem: out of memory")]
    record = (log.get("out_of_memory") or [None])[0]
    had = record["owners"][owner] // MIB if record and owner else None
    rows = sum(record["owners"].values()) + record["device_free"] if record else 0
    total = log["devices"][0]["total"]
    # What was given back is there for cudaMalloc; the kernel gives nothing back.
    after = ("cudaMalloc: cudaSuccess" in out) == (name != "heap")
    held = (LIMIT - 2 * PIECE) // PIECE <= pieces <= LIMIT // PIECE if refused else pieces == 24
    limit = check(name, "pieces: %d, and %s" % (pieces, out.strip().splitlines()[-1]), held and after)
    # The heap of kernels grows while the kernel runs.
    follows = name == "heap" or all((a - b >= PIECE - 2 or b == 0) if name != "managed" else a == b for a, b in zip(free, free[1:]))
    info = check(name, "free: %s" % free, follows)
    if name == "heap":
        rest = ["-"] * 4
    elif refused:
        rest = [check(name, "refusals: %d" % refusals(log), refusals(log) >= 1),
                check(name, "owner: %s" % record, had is not None and had >= pieces * PIECE),
                check(name, "rows: %d of %d" % (rows, total), abs(rows - total) <= 2 * MIB),
                check(name, "line: %s" % lines, len(lines) >= 1 and "limit" in lines[0])]
    else:
        rest = [check(name, "refusals: %d" % refusals(log), refusals(log) == 0), "-", "-", check(name, "line: %s" % lines, not lines)]
    finding = [f["rule"] for f in log["findings"] if f["rule"].startswith("oom")]
    rest.append(check(name, "finding: %s" % finding, finding == (["oom_limit"] if refused else [])))
    print("| %s | %d | %s | %s | %s |" % (name, pieces, limit, info, " | ".join(rest)), flush=True)


def framework_show(name):
    extra, program = FRAMEWORKS[name]
    if subprocess.run([sys.executable, "-c", "import " + name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        print("\n%s: not here" % name)
        return
    out, err, log = run("framework-" + name, [sys.executable, "-c", program], "16G", extra.items())
    got = re.search(r"^OOM (\d+)$", out, re.M)
    held = int(got.group(1)) if got else -1
    print("\n%s, GPUMEM_LIMIT=16G: its own out-of-memory at %.2f GiB in arrays: %s" % (
        name, held / GIB, check(name, "%d bytes" % held, 13 * GIB <= held <= 16 * GIB)))
    for line in err.splitlines():
        if line.startswith("gpumem: out of memory"):
            print("    " + line)
    for record in (log.get("out_of_memory") or [])[:1]:
        owners = {key: value for key, value in record["owners"].items() if value}
        print("    the log: %s asked %s; %s" % (record["call"], record["asked"], owners))
    check(name, "no record", bool(log.get("out_of_memory")))


def table_show():
    print("| road | pieces of 64 MiB | limit | cudaMemGetInfo | counted | owner | the rows are the device | line | finding |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in ROADS:
        try:
            road_row(*row)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as why:
            wrong.append("%s: %r" % (row[0], why))


library, gpumemstat, roads, results = map(os.path.abspath, sys.argv[1:5])
os.makedirs(results, exist_ok=True)
for part in sys.argv[5:] or ["table", *FRAMEWORKS]:
    if part == "table":
        table_show()
    else:
        framework_show(part)
print("\n%d cells are wrong" % len(wrong))
for line in wrong:
    print("    " + line)
sys.exit(1 if wrong else 0)
