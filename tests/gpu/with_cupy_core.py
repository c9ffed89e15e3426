# SPDX-License-Identifier: BSD-3-Clause
"""CuPy on libgpumem-core (CORE_LIBRARY), for any stream and for one: its results, as sums of bytes; the
memory kept for sizes that do not recur; out of memory."""
import ctypes
import hashlib
import os
import sys

try:
    import cupy
    cupy.cuda.runtime.getDeviceCount()
except Exception as why:  # no CuPy, or no device
    print(why)
    sys.exit(77)

core = ctypes.CDLL(os.environ.get("CORE_LIBRARY", "libgpumem-core.so.0"))
core.gpumem_trim.restype = ctypes.c_uint64


def allocator(stream):
    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value
    return cupy.cuda.CFunctionAllocator(stream, address(core.gpumem_cupy_malloc), address(core.gpumem_cupy_free), core)


def work(what):
    x = cupy.arange(1 << 20, dtype=cupy.int64) * 2654435761 % 1009
    for step in range(50):
        x = cupy.concatenate([x[1:], x[:1]]) + cupy.full(x.shape, step)
        x[: 1 << 10] += cupy.cumsum(x[: 1 << 10])
    x %= 65521
    cupy.cuda.get_current_stream().synchronize()
    print(what, hashlib.sha256(cupy.asnumpy(cupy.sort(x)).tobytes()).hexdigest()[:16])


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "requested", "handed_out", "mapped", "idle", "retired", "kept", "largest_idle", "unreclaimable", "live_blocks",
        "requested_peak", "mapped_peak")]


def stats():
    s = Stats(size=ctypes.sizeof(Stats))
    assert core.gpumem_stats(0, ctypes.byref(s)) == 0
    return s


def churn():
    for turn in range(300):
        cupy.empty((1 << 20) * (20 + turn % 97) + turn, dtype=cupy.uint8).fill(1)
    cupy.cuda.get_current_stream().synchronize()
    cupy.empty(1 << 28, dtype=cupy.uint8)
    print("kept of churn is bounded:", stats().kept <= 400 << 20)
    assert stats().kept <= 400 << 20, stats().kept


def checked(allocator):
    """As in gpumem(3): CuPy does not check for NULL."""
    def malloc(size):
        memory = allocator.malloc(size)
        if size and not memory.ptr:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0)
        return memory
    return malloc


def out_of_memory():
    try:
        cupy.empty(1 << 42, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        print("out of memory raises")
        return
    raise AssertionError("out of memory raises nothing")


stream = cupy.cuda.Stream(non_blocking=True)
any_stream, one_stream = allocator(0), allocator(stream.ptr)
with cupy.cuda.using_allocator(checked(any_stream)):
    work("any stream")
    out_of_memory()
with stream, cupy.cuda.using_allocator(checked(one_stream)):
    work("one stream")
    churn()
    out_of_memory()
cupy.cuda.runtime.deviceSynchronize()
print("trimmed", core.gpumem_trim() > 0)
