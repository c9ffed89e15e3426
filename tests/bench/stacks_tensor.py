# SPDX-License-Identifier: BSD-3-Clause
# A tensor made and freed below calls of Python and C, as PyTorch's cache reports it: stacks_tensor.py CACHE PYTHON C SIZE
# prints the time of a pair, the minimum of the means of many short runs, in ns.
import ctypes
import sys
import time

cuda, cache = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(sys.argv[1])
context, segment = ctypes.c_void_p(), ctypes.c_uint64()
if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
    sys.exit("no device")
if cuda.cuMemAlloc_v2(ctypes.byref(segment), ctypes.c_size_t(64 << 20)):
    sys.exit("no memory")
frames, calls, size = (int(arg) for arg in sys.argv[2:])
pairs = 1000


def run(more):
    if more:
        return run(more - 1)
    begin = time.perf_counter_ns()
    cache.tensor_pairs(ctypes.c_void_p(segment.value), ctypes.c_size_t(size), pairs, calls)
    return (time.perf_counter_ns() - begin) / pairs


print(f"{min(run(frames - 2) for _ in range(60)):.0f}")
