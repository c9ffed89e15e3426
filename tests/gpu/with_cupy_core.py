# SPDX-License-Identifier: BSD-3-Clause
"""CuPy on libgpumem-core (CORE_LIBRARY), for any stream and for one: what it computes, as sums of bytes."""
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


stream = cupy.cuda.Stream(non_blocking=True)
any_stream, one_stream = allocator(0), allocator(stream.ptr)
with cupy.cuda.using_allocator(any_stream.malloc):
    work("any stream")
with stream, cupy.cuda.using_allocator(one_stream.malloc):
    work("one stream")
cupy.cuda.runtime.deviceSynchronize()
print("trimmed", core.gpumem_trim() > 0)
