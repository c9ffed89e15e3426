# SPDX-License-Identifier: BSD-3-Clause
# Like stacks.c, with Python calls that hold the interpreter's lock, or have released it: stacks.py DEPTH
# [released].
import ctypes
import sys
import time

cuda = (ctypes.CDLL if sys.argv[2:] else ctypes.PyDLL)("libcuda.so.1")
device, context, block = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
if (
    cuda.cuInit(0)
    or cuda.cuDeviceGet(ctypes.byref(device), 0)
    or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    or cuda.cuCtxSetCurrent(context)
):
    sys.exit(1)
allocate, free, size, at = cuda.cuMemAlloc_v2, cuda.cuMemFree_v2, ctypes.c_size_t(1 << 20), ctypes.byref(block)


def below(calls):
    if calls:
        return below(calls - 1)
    least = 1e9
    for _ in range(60):
        begin = time.perf_counter()
        for _ in range(500):
            allocate(at, size)
            free(block)
        least = min(least, (time.perf_counter() - begin) / 500)
    return least


print(f"{below(int(sys.argv[1])) * 1e9:.0f}")
