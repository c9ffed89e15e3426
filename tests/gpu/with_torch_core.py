# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on libgpumem-core (CORE_LIBRARY): the same sums of bytes as with its own allocator, and statistics that add up."""
import ctypes
import hashlib
import os
import sys

try:
    import torch
    assert torch.cuda.is_available(), "no device"  # unlike init, it makes no allocator
except Exception as why:  # no PyTorch, or no device
    print(why)
    sys.exit(77)

CORE = os.environ.get("CORE_LIBRARY", "libgpumem-core.so.0")


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "requested", "handed_out", "mapped", "idle", "retired", "kept", "largest_idle", "unreclaimable", "live_blocks",
        "requested_peak", "mapped_peak")]


def show(what, tensor):
    print(what, tuple(tensor.shape), hashlib.sha256(tensor.cpu().numpy().tobytes()).hexdigest()[:16])


def stats(core):
    s = Stats(size=ctypes.sizeof(Stats))
    assert core.gpumem_stats(0, ctypes.byref(s)) == 0
    assert s.mapped == s.handed_out + s.idle + s.retired and s.kept <= s.handed_out
    return s


core = ctypes.CDLL(CORE)
core.gpumem_trim.restype = ctypes.c_uint64
pool = torch.cuda.memory.CUDAPluggableAllocator(CORE, "gpumem_torch_alloc", "gpumem_torch_free")
torch.cuda.memory.change_current_allocator(pool)

x = torch.arange(4 << 20, device="cuda", dtype=torch.int64) * 2654435761 % 1009
show("elementwise", x * 3 + (x >> 2))
show("sort", torch.sort(x)[0])
for step in range(50):  # the same sizes again and again, on two streams
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x.clone()
            for size in (1000, 100_000, 3_000_000):
                y[:size] += torch.full((size,), step, device="cuda", dtype=torch.int64)
        torch.cuda.current_stream().wait_stream(stream)
        x = y
        torch.cuda.synchronize()
show("two streams", x)
assert stats(core).live_blocks > 0 and stats(core).kept > 0
del x, y
torch.cuda.synchronize()
core.gpumem_trim()
print("kept after trimming", stats(core).kept)
