# SPDX-License-Identifier: BSD-3-Clause
"""Programs of PyTorch, CuPy and JAX (framework_programs.py) with each allocator. Run by run.sh.

    frameworks.py RESULT.csv WORK_FOLDER COMMENT...

The workers of a part keep running, each with its program. They are asked for the same steps by turns, in an
order that changes; each turn adds one pair of values to each row of one of our configurations and a native
one. Before that each worker makes its first steps while the others wait, and a process of its own
(framework_memory.py) polls the device's used memory: a worker's peak is above the memory in use before its
context. Rows: PROGRAM/CONFIGURATION, ms a step; .../peak, GiB; .../tokens, the largest step under 16 GiB (LIMITS). The
peer `fastest` is the native configuration with the lowest median; a comment names it. `floor` is an
allocator of cudaMalloc that only keeps stacks of blocks (floor.c).

A preloaded worker of a part of n workers has GPUMEM_TRIM_AFTER=10s times n, because it works one n-th of the
time. With the default it would return idle memory after a second, as beside any other process that grows.
Environment: BENCH_SECONDS (200): later no part and no further pair begins; BENCH_PARTS, names of parts, default all;
BENCH_WIDTH, as 0.03: a part makes pairs until the interval of each ratio reaches no further to either side.
"""
import json
import os
import statistics
import subprocess
import sys
import time

from measure import Client, Gone, Table, interval, kill_all

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
LIMITS = {"set": 4 * GIB}  # of parts limit-*, by program; 16 GiB for others
PATIENCE = 100  # seconds for an answer
TRIM = 10  # seconds: the default of GPUMEM_TRIM_AFTER
CORE = os.path.join(HERE, "libgpumem-core.so.0")
FLOOR = os.path.join(HERE, "libfloor.so")  # cudaMalloc from stacks of freed blocks
ADAPTER = os.path.join(HERE, "torch_adapter.so")  # CORE for PyTorch
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}

# name: (preloaded?, environment)
CONFIGURATIONS = {
    "cache": (False, {}),
    "expandable": (False, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    "async": (False, {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "no-cache": (False, UNCACHED),
    "floor": (False, dict(UNCACHED, LD_PRELOAD=FLOOR)),
    "default": (True, {}),
    "lend": (True, {"GPUMEM_LEND": "1"}),
    "sync": (True, dict(UNCACHED, GPUMEM_FREE="sync")),
    "defer": (True, dict(UNCACHED, GPUMEM_FREE="defer")),
    "ordered": (True, dict(UNCACHED, GPUMEM_FREE="ordered")),
    "core": (False, {"BENCH_ALLOCATOR": ADAPTER}),
    "core-preloaded": (True, {"BENCH_ALLOCATOR": ADAPTER}),
}
CUPY = {
    "own": (False, {"BENCH_POOL": "own"}),
    "async": (False, {"BENCH_POOL": "async"}),
    "none": (False, {"BENCH_POOL": "none"}),
    "sync": (True, {"BENCH_POOL": "none"}),
    "defer": (True, {"BENCH_POOL": "none", "GPUMEM_FREE": "defer"}),
    "ordered": (True, {"BENCH_POOL": "none", "GPUMEM_FREE": "ordered"}),
    "core": (False, {"BENCH_ALLOCATOR": CORE}),
    "core-preloaded": (True, {"BENCH_ALLOCATOR": CORE}),
}
GROWS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # else a worker takes three quarters of the device
JAX = {
    "own": (False, GROWS),
    "async": (False, dict(GROWS, XLA_PYTHON_CLIENT_ALLOCATOR="cuda_async")),
    "platform": (False, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
    "default": (True, GROWS),
    "default-platform": (True, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
}
# The sizes of a part limit-*: the least, one that is too large, the step, the unit.
SIZES = {"train": (4096, 32768, 512, "tokens"), "varied": (4096, 32768, 256, "tokens"), "set": (1024, 4096, 16, "MiB")}
FAMILIES = {"cupy": CUPY, "jax": JAX}
FIRST = ("cache", "expandable", "async", "default", "ordered")
OTHERS = ("cache", "no-cache", "sync", "defer", "core", "core-preloaded")
LIMITED = ("cache", "expandable", "default", "lend", "ordered")
ONCE = ("cache", "expandable", "floor", "default", "defer", "ordered", "core")


class Part:
    """A program under some configurations: `first` steps alone, then `pairs` times `steps` by turns."""

    def __init__(self, name, program, names, first, pairs, steps):
        self.name, self.program, self.names, self.first, self.pairs, self.steps = name, program, names, first, pairs, steps


# Parts of a wave start together, because `import torch` is most of a start.
WAVES = (
    (Part("train", "train", FIRST, 16, 15, 4), Part("serve", "serve", FIRST + ("defer", "floor"), 60, 15, 12),
     Part("limit", "train", LIMITED, 8, 0, 0), Part("limit-varied", "varied", LIMITED, 0, 0, 0),
     Part("limit-set", "set", LIMITED, 0, 0, 0)),
    (Part("train-others", "train", OTHERS, 16, 15, 4), Part("serve-others", "serve", OTHERS, 60, 15, 12)),
    (Part("cupy", "cupy", tuple(CUPY), 50, 15, 50), Part("jax", "jax", tuple(JAX), 12, 15, 8)),
    (Part("resnet", "resnet", ONCE, 8, 6, 4), Part("gcn", "gcn", ONCE, 24, 6, 4), Part("churn", "churn", ONCE, 4, 6, 1)),
)


def limit_of(part):
    return LIMITS.get(part.program, 16 * GIB)


def configuration(program, name):
    return FAMILIES.get(program, CONFIGURATIONS)[name]


def is_native(program, name):
    preloaded, environment = configuration(program, name)
    return not preloaded and "BENCH_ALLOCATOR" not in environment


class Worker(Client):
    def __init__(self, suite, part, name):
        preloaded, knobs = configuration(part.program, name)
        compiled = os.path.join(suite.work, "jax-cache")  # else each worker compiles for half a minute
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "PYTORCH_", "XLA_", "BENCH_"))}
        environment.update(knobs, JAX_COMPILATION_CACHE_DIR=compiled, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
        log = os.path.join(suite.work, part.name + "." + name + ".gml") if preloaded else None
        if log:
            environment.update(LD_PRELOAD=suite.preload, GPUMEM_LOG_NAME=log,
                               GPUMEM_TRIM_AFTER="%ds" % (TRIM * len(part.names)))
            if part.name.startswith("limit"):
                environment["GPUMEM_LIMIT"] = str(limit_of(part))
        super().__init__([sys.executable, os.path.join(HERE, "framework_worker.py"), part.program], environment, suite.work, log)
        self.name, self.checks = part.name + "/" + name, []

    def ask(self, *words):
        self.send(*words)
        return self.answer(PATIENCE)

    def frees(self):
        """The counts of its frees in its log: "early 10, ..."; empty without GPUMEM_FREE=ordered."""
        said = subprocess.run([os.path.join(HERE, "gpumemstat"), "summary", "--json", self.log], capture_output=True, text=True)
        if said.returncode:
            return ""
        counters = json.loads(said.stdout)["logs"][0]["devices"][0]["counters"]
        return ", ".join("%s %d" % (name[len("ordered_"):], counters[name]) for name in counters
                         if name.startswith("ordered_") and counters[name])


class Suite:
    def __init__(self, table, work):
        self.table, self.work = table, work
        self.began = time.monotonic()
        self.seconds = float(os.environ.get("BENCH_SECONDS", 200))
        self.preload = os.path.abspath(os.environ.get("BENCH_PRELOAD") or os.path.join(HERE, "libgpumem.so"))
        self.width = float(os.environ.get("BENCH_WIDTH", 0))
        self.parts = os.environ.get("BENCH_PARTS", "").split()
        self.values = {}  # (program, kind, unit): {configuration: one value for each turn}
        self.fastest = {}  # program: configuration

    def is_over(self):
        return time.monotonic() - self.began > self.seconds

    def skip(self, name, why):
        self.table.comment("skipped: %s: %s" % (name, why))

    # --- memory

    def memory_start(self):
        ordinal = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
        command = [sys.executable, os.path.join(HERE, "framework_memory.py"), ordinal if ordinal.isdigit() else "0"]
        self.memory = Client(command, dict(os.environ), self.work).ready()
        self.table.comment("memory in use before: %.2f GiB" % (self.memory.ask("now")[0] / GIB))

    def peak_of(self, act):
        """Returns act()'s answer, and the peak of additional GiB in use during it."""
        before = self.memory.ask("now")[0]
        self.memory.ask("watch")
        answer = act()
        return answer, (self.memory.ask("peak")[0] - before) / GIB

    # --- rows

    def add(self, program, what, unit, values):
        """Adds one turn of {configuration: value}; `what`: peak, tokens or, for steps, empty."""
        for name, value in values.items():
            self.values.setdefault((program, what, unit), {}).setdefault(name, []).append(value)

    def rows_of(self, program, what, unit, values):
        natives = [name for name in values if is_native(program, name)]
        longest = max(len(turns) for turns in values.values())
        whole = [name for name in natives if len(values[name]) == longest and name != "floor"]
        peers = {name: values[name] for name in natives}
        if unit == "ms" and whole:
            best = min(whole, key=lambda name: statistics.median(values[name]))
            peers["fastest"] = values[best]
            self.fastest[program] = best
        for name, turns in values.items():
            case = "/".join(filter(None, (program, name, what)))
            for value in turns if name in natives else ():
                self.table.add(case, None, unit, value)
            for peer, others in peers.items() if name not in natives else ():
                for ours, theirs in zip(turns, others):
                    self.table.add(case, None, unit, ours, peer, theirs)

    def rows(self):
        """Makes all rows again: each of our configurations beside each native one."""
        self.table.rows.clear()
        for (program, what, unit), values in self.values.items():
            self.rows_of(program, what, unit, values)
        self.table.write()

    # --- a part

    def begin(self, part, workers):
        """Sets each worker up, and makes its first steps, one worker at a time. Removes workers that fail. What other
        workers hold must not change meanwhile: a native one returns nothing, a preloaded one nothing so early."""
        returns = None
        for name, worker in list(workers.items()):
            try:
                worker.ready(PATIENCE)

                def first():
                    worker.ask("setup")
                    return worker.ask("steps", 0, part.first)
                (_, check), peak = self.peak_of(first)
                worker.checks.append(check)
                self.add(part.name, "peak", "GiB", {name: peak})
                if returns is None and worker.log:
                    returns = time.monotonic() + TRIM * len(part.names)
                if returns and time.monotonic() > returns:
                    self.table.comment("%s: others returned memory, so its peak may be too low" % worker.name)
            except Gone as why:
                self.skip(worker.name, why)
                kill_all([workers.pop(name)])

    def turn(self, part, workers, nth):
        values, names = {}, list(workers)
        for name in names[nth % len(names):] + names[:nth % len(names)]:
            try:
                values[name], check = workers[name].ask("steps", part.first + nth * part.steps, part.steps)
                workers[name].checks.append(check)
            except Gone as why:
                self.skip(workers[name].name, why)
                kill_all([workers.pop(name)])
        self.add(part.name, "", "ms", {name: values[name] for name in names if name in values})

    def compare(self, part, workers):
        """Reports sums that differ from the first worker's. Some kernels add in any order, so native sums may differ, too."""
        names = list(workers)
        for name in names[1:]:
            differ = sum(a != b for a, b in zip(workers[name].checks, workers[names[0]].checks))
            self.table.comment("%s: sums of %s differ from those of %s in %d of %d turns" %
                               (part.name, name, names[0], differ, len(workers[name].checks)))

    def is_narrow(self, part):
        """Is the interval of each ratio of the part as narrow as BENCH_WIDTH asks? Always without it."""
        values = self.values[part.name, "", "ms"]
        for name in values if self.width else ():
            for peer in values:
                if is_native(part.program, name) or not is_native(part.program, peer):
                    continue
                low, high = interval([b / a for a, b in zip(values[name], values[peer])]) or (0, 1)
                if high - low > 2 * self.width:
                    return False
        return True

    def run_pairs(self, part, workers):
        self.begin(part, workers)
        self.rows()
        nth = 0
        while workers and not (nth and self.is_over()) and (nth < part.pairs or not self.is_narrow(part)):
            self.turn(part, workers, nth)
            nth += 1
        self.compare(part, workers)

    @staticmethod
    def largest(fits, low, high, step):
        """The largest multiple of `step` from `low` to below `high` that fits, by bisection; 0: not even `low` fits."""
        if not fits(low):
            return 0
        while high - low > step:
            middle = (low + high) // 2 // step * step
            if fits(middle):
                low = middle
            else:
                high = middle
        return low

    def run_limit(self, part, workers):
        for name, worker in list(workers.items()):
            try:
                worker.ready(PATIENCE).ask("setup")
                if not worker.log:  # else GPUMEM_LIMIT holds; the cache's own limit counts segments, lent or not
                    worker.ask("limit", limit_of(part))
                if part.first:
                    worker.ask("steps", 0, part.first)
                low, high, step, unit = SIZES[part.program]
                size = self.largest(lambda size: worker.ask("try", size)[0] == 1, low, high, step)
                self.add(part.program, unit, unit, {name: size})
                self.rows()
            except Gone as why:
                self.skip(worker.name, why)
            kill_all([workers.pop(name)])  # frees the device's memory for the next worker

    def run_part(self, part, workers):
        began = time.monotonic()
        try:
            (self.run_limit if part.name.startswith("limit") else self.run_pairs)(part, workers)
            for worker in workers.values():
                frees = worker.frees() if worker.log else ""
                if frees:
                    self.table.comment("frees of %s: %s" % (worker.name, frees))
        except Exception as why:  # of any kind: the other parts are still valid
            self.skip(part.name, why if isinstance(why, (Gone, OSError)) else repr(why))
        finally:
            kill_all(workers.values())
        self.rows()
        if part.name in self.fastest:
            self.table.comment("%s: the fastest native configuration is %s" % (part.name, self.fastest[part.name]))
        print("# part %s: %.1f s" % (part.name, time.monotonic() - began), flush=True)

    def run(self):
        self.memory_start()
        try:
            for wave in WAVES:
                parts = [part for part in wave if not self.parts or part.name in self.parts]
                if self.is_over():
                    for part in parts:
                        self.skip(part.name, "no time was left")
                    continue
                started = [(part, {name: Worker(self, part, name) for name in part.names}) for part in parts]
                for part, workers in started:
                    if self.is_over():
                        self.skip(part.name, "no time was left")
                        kill_all(workers.values())
                    else:
                        self.run_part(part, workers)
        finally:
            kill_all([self.memory])
        self.table.comment("%.0f s" % (time.monotonic() - self.began))
        self.table.write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Suite(Table(sys.argv[1], "frameworks", sys.argv[3:]), sys.argv[2]).run()


if __name__ == "__main__":
    main()
