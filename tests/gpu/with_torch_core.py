# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on libgpumem-core (TORCH_ADAPTER, a library of torch_adapter.cc): the same sums of bytes as with its
own allocator, consistent statistics, contents protected by record_stream, and exceptions when memory is out or a
stream is captured."""
import ctypes
import hashlib
import os
import sys

try:
    import torch
    assert torch.cuda.is_available(), "no device"  # unlike init, creates no allocator
except Exception as why:  # no PyTorch, or no device
    print(why)
    sys.exit(77)

ADAPTER = os.environ.get("TORCH_ADAPTER", "./torch_adapter.so")


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


core = ctypes.CDLL(ADAPTER)  # finds the functions of libgpumem-core, which it needs, too
core.gpumem_trim.restype = ctypes.c_uint64
pool = torch.cuda.memory.CUDAPluggableAllocator(ADAPTER, "torch_alloc", "torch_free")
pool.allocator().set_record_stream_fn(ctypes.cast(core.torch_record_stream, ctypes.c_void_p).value)
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


def raises(what, text, call):
    try:
        call()
    except RuntimeError as why:
        assert text in str(why), why
        print(what, "raises:", text)
        return
    raise AssertionError(what + " raises nothing")


def side_stream(words=1 << 22, rounds=40):
    """A side stream reads tensors late. Their own stream frees them meanwhile, and uses its memory again."""
    side, wrong = torch.cuda.Stream(), 0
    for value in range(rounds):
        tensor = torch.full((words,), value, device="cuda", dtype=torch.int32)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            sums = (tensor != value).sum()
        tensor.record_stream(side)
        del tensor
        torch.full((words,), -1, device="cuda", dtype=torch.int32)  # would be in the same memory, if that were free
        torch.cuda.current_stream().wait_stream(side)
        wrong += int(sums)
    print("side stream:", wrong, "words are wrong")
    assert wrong == 0


def capture():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.ones(1000, device="cuda")


def churn():
    """For sizes that never recur, the kept memory is bounded."""
    kept = 0
    for turn in range(300):
        torch.empty((1 << 20) * (20 + turn % 97) + turn, device="cuda", dtype=torch.uint8).fill_(1)
        kept = max(kept, stats(core).kept if turn % 20 == 19 else 0)
    torch.cuda.synchronize()
    torch.empty(1 << 28, device="cuda", dtype=torch.uint8)
    print("kept of churn is bounded:", stats(core).kept <= 400 << 20)
    assert stats(core).kept <= 400 << 20, (kept, stats(core).kept)


side_stream()
churn()
raises("out of memory", "CUDA out of memory", lambda: torch.empty(1 << 42, device="cuda", dtype=torch.uint8))
raises("a capture", "in a stream capture", capture)
torch.cuda.synchronize()
show("after it", torch.sort(x)[0])
del x, y
torch.cuda.synchronize()
core.gpumem_trim()
print("kept after trimming", stats(core).kept)
