# SPDX-License-Identifier: BSD-3-Clause
"""A program of framework_programs.py in a process that keeps running, measured like client.c: see client.h.

    framework_worker.py PROGRAM

It prints "ready" after the import of its library, before it has a context. Commands:

    setup        make the program; answers the device's name
    steps FIRST COUNT   make these steps; answers milliseconds a step, by the clock around all of them, and a checksum
    limit BYTES  set the allocator's limit, if the allocator has one
    try SIZE     make two steps of that size; answers 1, or 0 if memory was out

Environment: BENCH_ALLOCATOR, a library of torch_adapter.cc, or for CuPy libgpumem-core, as the allocator;
BENCH_POOL (cupy): own, async or none. The shapes of a step depend only on its number, so they are the same in every
process."""
import sys
import time

import framework_programs as programs


def answer(library, program, words):
    command, numbers = words[0], [int(word) for word in words[1:]]
    if command == "steps":
        first, count = numbers
        library.synchronize()
        begin, check = time.perf_counter(), 0
        for step in range(first, first + count):
            check = program.step(step)
        library.synchronize()
        taken = time.perf_counter() - begin
        return "%.4f %d" % (taken * 1e3 / count, program.checksum(check))
    if command == "limit":
        library.limit(*numbers)
        return ""
    if command == "try":
        return str(int(library.fits(lambda: program.step_of(*numbers))))
    raise ValueError("no such command: " + command)


def main():
    library = programs.library_of(sys.argv[1])
    print("ready", flush=True)
    program = None
    for line in sys.stdin:
        words = line.split()
        if words == ["setup"]:
            library.begin()
            program = programs.PROGRAMS[sys.argv[1]](library)
            print("ok", library.name(), flush=True)
        else:
            print("ok", answer(library, program, words), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as why:  # no library, no device, or no memory
        print("error", " ".join(str(why).split()), flush=True)
        sys.exit(1)
