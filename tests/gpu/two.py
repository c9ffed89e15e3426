#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rates between two GPUs: natively, preloaded by default, and with GPUMEM_FREE=ordered.

    two.py RESULT.csv [COMMENT]...

Each of TWO_ROUNDS (9) rounds runs each program in each of these ways, in an order that changes: with_nccl_two.py,
mpi, which shares blocks as a CUDA-aware MPI does, and peer. Each must say the same as natively but for the rates. A
ratio above 1 means that the preloaded process was faster. Ends early after TWO_SECONDS, after a whole round.
Exit status 1 if a program failed, or said anything else.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import time

from measure import Table, environment

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = (["python3", "with_nccl_two.py", "bandwidth"], ["./mpi", "bandwidth"], ["./peer", "bandwidth"])
WAYS = {"native": None, "default": {}, "ordered": {"GPUMEM_FREE": "ordered"}}
RATE = re.compile(r"bandwidth: (.*): ([0-9.]+)$")


def program_run(command, way, work):
    """({name: rate}, other lines)"""
    variables = environment(WAYS[way] is not None, work)
    variables.update(WAYS[way] or {}, NCCL_NVLS_ENABLE="0")
    said = subprocess.run(command, cwd=HERE, env=variables, capture_output=True, text=True, timeout=200, check=False)
    rates = dict(RATE.match(line).groups() for line in said.stdout.splitlines() if RATE.match(line))
    others = [line for line in said.stdout.splitlines() if not RATE.match(line)]
    if said.returncode != 0 or not rates:
        raise RuntimeError("%s, %s: exit status %d: %s" % (command, way, said.returncode, (said.stdout + said.stderr)[-2000:]))
    return {name: float(rate) for name, rate in rates.items()}, others


def main(path, *comments):
    table, rounds, good = Table(path, "two", comments), int(os.environ.get("TWO_ROUNDS", 9)), True
    end = time.monotonic() + float(os.environ.get("TWO_SECONDS", "inf"))
    for _ in range(rounds):
        if time.monotonic() > end:
            break
        for command in PROGRAMS:
            found = {}
            for way in random.sample(list(WAYS), len(WAYS)):
                with tempfile.TemporaryDirectory() as work:
                    try:
                        found[way] = program_run(command, way, work)
                    except (RuntimeError, subprocess.TimeoutExpired) as why:
                        print(why, flush=True)
                        good = False
            for way in sorted(set(found) - {"native"}):
                if "native" not in found:
                    continue
                if found[way][1] != found["native"][1]:
                    print("%s, %s: it does not say the same: %s" % (command, way, found[way][1]), flush=True)
                    good = False
                for name, rate in found[way][0].items():
                    table.add(name.replace(" ", "-") + "/" + way, 1 << 30, "GB/s", rate, "native", found["native"][0].get(name))
        table.write()
    return good


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip().split("\n\n")[1].strip())
    sys.exit(not main(*sys.argv[1:]))
