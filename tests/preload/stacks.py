# SPDX-License-Identifier: BSD-3-Clause
# Allocates in Python functions of known names, for the stacks in its log: stacks.py WAY. A driver opened by PyDLL is
# called with the interpreter's lock, one opened by CDLL without it.
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


class Layer:
    def forward(self):
        return deep(2, MIB)


def way_calls(context):
    Layer().forward()
    for _ in range(2):
        deep(100, 2 * MIB)
    allocate(4 * MIB, without_lock)
    # A code object that ends makes place for another one at its address.
    for i in range(200):
        namespace = {"allocate": allocate}
        exec(compile(f"def made_{i}():\n    return allocate({8 * MIB})\n", f"made_{i}.py", "exec"), namespace)
        block = namespace[f"made_{i}"]()
        if i < 199:
            free(block)
        del namespace
        gc.collect()


class Cycle:
    """Its finalizer, of a garbage collection, frees device memory, and allocates."""

    freed = 0

    def __init__(self):
        self.itself, self.block = self, allocate(MIB)

    def __del__(self):
        free(self.block)
        free(allocate(MIB))
        free(allocate(MIB, without_lock), without_lock)
        Cycle.freed += 1


def way_finalizers(context):
    # The stack of 40 calls makes 40 objects: one of them is the one too many for some of these thresholds. As of
    # Python 3.12 a collection waits until the call is over.
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
    try:  # an exception on its way stays as it is
        raise KeyError("mine")
    except KeyError as error:
        allocate(MIB)
        if error.args != ("mine",) or sys.exc_info()[1] is not error:
            sys.exit("another exception")


def way_interpreters(context):
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    allocate(MIB)
    for _ in range(3):
        try:  # one that may load ctypes
            other = interpreters.create(isolated=False)
        except TypeError:
            other = interpreters.create()
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
