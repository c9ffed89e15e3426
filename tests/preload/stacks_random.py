# SPDX-License-Identifier: BSD-3-Clause
# Allocates in Python functions that call one another at random, and computes the stacks that the log must
# have:
#   stacks_random.py run SEED ALLOCATIONS FILE      writes the interpreter's own frames to FILE
#   stacks_random.py check FILE LIVE.json LOG.csv   compares them with `live --json` and `export --format=csv`
# The driver is called by turns with and without the interpreter's lock. Each allocation has a size of its
# own.
import contextlib
import csv
import ctypes
import functools
import json
import random
import re
import sys

LEAST = 64 << 10


def chain(frame):
    frames = []
    while frame:
        frames.append([getattr(frame.f_code, "co_qualname", frame.f_code.co_name), frame.f_lineno])
        frame = frame.f_back
    return frames


class Run:
    def __init__(self):
        self.expected = {}
        self.block = ctypes.c_uint64()
        self.at = ctypes.byref(self.block)
        drivers = ctypes.PyDLL("libcuda.so.1"), ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        for result in (
            drivers[0].cuInit(0),
            drivers[0].cuDeviceGet(ctypes.byref(device), 0),
            drivers[0].cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
            drivers[0].cuCtxSetCurrent(context),
        ):
            assert result == 0
        self.calls = [driver.cuMemAlloc_v2 for driver in drivers]

    def allocate(self):
        number = len(self.expected)
        size, call = LEAST + 4 * number, self.calls[number % 2]
        argument, frames = ctypes.c_size_t(size), chain(sys._getframe())
        assert call(self.at, argument) == 0
        frames[0][1] = sys._getframe().f_lineno - 1
        self.expected[size] = frames


run = None


def go(depth):
    if depth <= 0:
        return run.allocate()
    random.choice(WAYS)(depth - 1)


def by_generator(d):
    def generator():
        yield 1
        go(d)
        yield 2

    for _ in generator():
        pass


def by_list(d):
    [go(d) for _ in range(1)]


def by_generator_expression(d):
    list(go(d) for _ in range(1))


def by_lambda(d):
    (lambda: go(d))()


def by_map(d):
    list(map(go, [d]))


def by_key(d):
    sorted([1], key=lambda _: go(d) or 0)


def by_reduce(d):
    functools.reduce(lambda a, b: go(d), [1, 2])


def by_handler(d):
    try:
        raise ValueError
    except ValueError:
        go(d)


def by_with(d):
    @contextlib.contextmanager
    def manager():
        go(d)
        yield

    with manager():
        pass


def by_class(d):
    class Body:
        value = go(d)


def by_property(d):
    class Owner:
        @property
        def value(self):
            return go(d)

    Owner().value


def by_finalizer(d):
    class Ends:
        def __del__(self):
            go(d)

    Ends()


def by_made_code(d):
    """At the addresses of code objects that ended."""
    number, above = random.randrange(1000), "\n" * random.randrange(5)
    text = f"{above}def made_{number}(d):\n    go(d)\nmade_{number}(d)\n"
    exec(compile(text, f"made_{random.randrange(1000)}.py", "exec"), {"go": go, "d": d})


def by_eval(d):
    eval("go(d)", {"go": go, "d": d})


def by_substitution(d):
    re.sub("a", lambda _: go(d) or "", "a")


def by_operator(d):
    class Operand:
        def __call__(self, d):
            go(d)

        __getitem__ = __call__

        def __eq__(self, other):
            go(d)
            return True

    operand = Operand()
    random.choice([lambda: operand(d), lambda: operand[d], lambda: operand == 3])()


def by_coroutine(d):
    async def inner():
        go(d)

    async def outer():
        await inner()

    with contextlib.suppress(StopIteration):
        outer().send(None)


def by_delegation(d):
    def inner():
        go(d)
        yield

    def outer():
        yield from inner()

    list(outer())


def by_lines(d):
    (
        go(
            d
        )
    )


def by_trace(d):
    sys.settrace(lambda *_: None)
    go(d)
    sys.settrace(None)


def by_recursion(d):
    def again(n):
        return again(n - 1) if n else go(d)

    again(random.randrange(3))


WAYS = [value for name, value in list(globals().items()) if name.startswith("by_")]


def do_run(seed, allocations, path):
    global run
    random.seed(int(seed))
    run = Run()
    while len(run.expected) < int(allocations):
        go(random.randrange(7))
    with open(path, "w") as file:
        json.dump(run.expected, file)
    print("done")


def do_check(path, live, log):
    with open(path) as file:
        expected = {int(size): frames for size, frames in json.load(file).items()}
    with open(live) as file:
        groups = {g["stack"]: g for g in json.load(file)["logs"][0]["devices"][0]["groups"]}
    right = 0
    with open(log) as file:
        for row in csv.DictReader(file):
            if row["event"] != "allocate" or int(row["size"]) not in expected:
                continue
            group, wanted = groups[int(row["stack"])], expected[int(row["size"])]
            got = [[f["function"], f["line"]] for f in group["frames"] if f["language"] == "python"]
            if group["cut"] and len(got) == 64:
                wanted = wanted[: len(got)]
            if got != wanted:
                sys.exit(f"allocation of {row['size']}: {got}, not {wanted}")
            right += 1
    print(f"{right} of {len(expected)}")


{"run": do_run, "check": do_check}[sys.argv[1]](*sys.argv[2:])
