# SPDX-License-Identifier: BSD-3-Clause
# Allocates in Python functions of known names, for the stacks in its log: stacks.py WAY. PyDLL calls the
# driver with the interpreter's lock, CDLL without it.
import atexit
import ctypes
import gc
import os
import sys
import threading

with_lock, without_lock = ctypes.PyDLL("libcuda.so.1"), ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20


def must(result):
    if result:
        sys.exit(f"CUDA error {result}")


def use_device():
    must(with_lock.cuInit(0))
    device, context = ctypes.c_int(), ctypes.c_void_p()
    must(with_lock.cuDeviceGet(ctypes.byref(device), 0))
    must(with_lock.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    must(with_lock.cuCtxSetCurrent(context))
    return context


def allocate(size, driver=with_lock):
    block = ctypes.c_uint64()
    must(driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)))
    return block.value


def free(block, driver=with_lock):
    must(driver.cuMemFree_v2(ctypes.c_uint64(block)))


def deep(depth, size):
    return allocate(size) if depth == 0 else deep(depth - 1, size)


def in_another(context, size):
    must(with_lock.cuCtxSetCurrent(context))
    allocate(size, without_lock)


class Layer:
    def forward(self):
        return deep(2, MIB)


def way_calls(context):
    Layer().forward()
    for _ in range(2):
        deep(100, 2 * MIB)
    allocate(5 * MIB, without_lock)
    thread = threading.Thread(target=in_another, args=(context, 6 * MIB))
    thread.start()
    thread.join()
    # The next code object is made at the address of the one that ended.
    for i in range(200):
        namespace = {"allocate": allocate}
        exec(compile(f"def made_{i}():\n    return allocate({8 * MIB})\n", f"made_{i}.py", "exec"), namespace)
        block = namespace[f"made_{i}"]()
        if i < 199:
            free(block)
        del namespace
        gc.collect()


def generated():
    for size in range(7 * MIB, 9 * MIB, MIB):
        yield allocate(size, without_lock)


def way_released(context):
    """Releases the lock in each call, as PyTorch does. No garbage collection may run in between."""
    for _ in generated():
        pass
    list(map(lambda size: deep_released(3, size), [MIB]))
    namespace = {"allocate": allocate, "without_lock": without_lock}
    exec(compile(f"def gr\u00f6\u00dfe():\n    return allocate({2 * MIB}, without_lock)\n", "ascii.py", "exec"), namespace)
    namespace["gr\u00f6\u00dfe"]()
    for i in range(200):  # a code object at the address of the one before
        exec(compile(f"def made_{i}():\n\n\n    return allocate({12 * MIB}, without_lock)\n", f"made_{i}.py", "exec"), namespace)
        block = namespace.pop(f"made_{i}")()
        if i < 199:
            free(block, without_lock)
        gc.collect()
    deep_released(100, 3 * MIB)


def deep_released(depth, size):
    return allocate(size, without_lock) if depth == 0 else deep_released(depth - 1, size)


def traced(frame, event, arg):
    return traced


async def awaited(size):
    return allocate(size, driver=without_lock)


async def awaits(size):
    return await awaited(size)


def watch(ended):
    """Makes objects of the main thread's frames while it allocates."""
    while not ended.is_set():
        for frame in sys._current_frames().values():
            while frame:
                frame.f_lineno, frame.f_locals
                frame = frame.f_back


def way_watched(context):
    sys.settrace(traced)
    sys.setprofile(lambda *_: None)
    deep_released(3, 5 * MIB)
    sys.setprofile(None)
    sys.settrace(None)
    try:
        awaits(6 * MIB).send(None)
    except StopIteration:
        pass
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(ended,))
    thread.start()
    for _ in range(2000):
        free(deep_released(3, 7 * MIB), without_lock)
    deep_released(3, 7 * MIB)
    ended.set()
    thread.join()


class Last:
    """Ends with the interpreter, perhaps after the interpreter's modules."""

    def __init__(self):
        self.block, self.size = ctypes.c_uint64(), ctypes.c_size_t(9 * MIB)
        self.at, self.call = ctypes.byref(self.block), without_lock.cuMemAlloc_v2

    def __del__(self):
        self.call(self.at, self.size)


def in_daemon(context):
    must(with_lock.cuCtxSetCurrent(context))
    while True:
        free(allocate(MIB, without_lock), without_lock)


def way_ends(context):
    # gpumem finds the interpreter's functions here: a call during another thread's search has no Python
    # frames.
    free(allocate(MIB))
    for _ in range(3):
        threading.Thread(target=in_daemon, args=(context,), daemon=True).start()
    atexit.register(allocate, 8 * MIB, without_lock)
    sys.last_of_all = Last()


class Cycle:
    """Its finalizer, run by a garbage collection, frees device memory, and allocates."""

    freed = 0

    def __init__(self):
        self.itself, self.block = self, allocate(MIB)

    def __del__(self):
        free(self.block)
        free(allocate(MIB))
        free(allocate(MIB, without_lock), without_lock)
        Cycle.freed += 1


def way_finalizers(context):
    # The stack of 40 calls makes 40 objects: with some of these thresholds one of them starts a collection.
    # Since Python 3.12 a collection waits for the end of the call.
    for more in range(100):
        gc.set_threshold(100000)
        gc.collect()
        Cycle()
        gc.set_threshold(gc.get_count()[0] + more)
        free(deep(40, MIB))
    gc.collect()
    if Cycle.freed != 100:
        sys.exit(f"{Cycle.freed} were freed")


def in_thread(context, driver):
    must(with_lock.cuCtxSetCurrent(context))
    for _ in range(200):
        free(allocate(MIB, driver), driver)


def way_threads(context):
    threads = [threading.Thread(target=in_thread, args=(context, d)) for d in (with_lock, without_lock) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:  # the pending exception must stay the same
        raise KeyError("mine")
    except KeyError as error:
        allocate(MIB)
        if error.args != ("mine",) or sys.exc_info()[1] is not error:
            sys.exit("another exception")


def subinterpreter(interpreters):
    try:  # one that may load ctypes
        return interpreters.create(isolated=False)
    except TypeError:
        return interpreters.create()


def way_interpreters(context):
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    allocate(MIB)
    for _ in range(3):
        other = subinterpreter(interpreters)
        interpreters.run_string(
            other,
            "import ctypes\n"
            "block = ctypes.c_uint64()\n"
            "def in_other():\n"
            f"    return ctypes.PyDLL('libcuda.so.1').cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t({2 * MIB}))\n"
            "assert in_other() == 0\n",
        )
        interpreters.destroy(other)
    in_thread(context, without_lock)
    allocate(MIB)
    # An interpreter that releases the lock: its thread's frames in the main interpreter are known.
    other = subinterpreter(interpreters)
    interpreters.run_string(
        other,
        "import ctypes\n"
        f"ctypes.CDLL('libcuda.so.1').cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t({3 * MIB}))\n",
    )
    interpreters.destroy(other)


def way_fork(context):
    allocate(MIB)
    child = os.fork()
    if child == 0:
        ctypes.c_uint64()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the child failed")
    allocate(MIB)


globals()["way_" + sys.argv[1]](use_device())
print("done")
