# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on four streams: tensors are made in one stream, copied to the host and read in others, and freed
meanwhile. Each use is registered by record_stream, or the own stream waits for it. Host functions delay the
streams. Every byte is checked. Usage: with_torch_streams.py [ITERATIONS]; with TORCH_ADAPTER, a library of
torch_adapter.cc, its memory is libgpumem-core's."""
import ctypes
import os
import random
import sys

try:
    import torch
    assert torch.cuda.is_available(), "no device"
except Exception as why:  # no PyTorch, or no device
    print(why)
    sys.exit(77)

STREAMS, WAITING = 4, 16


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def use_adapter(path):
    pool = torch.cuda.memory.CUDAPluggableAllocator(path, "torch_alloc", "torch_free")
    pool.allocator().set_record_stream_fn(address(ctypes.CDLL(path).torch_record_stream))
    torch.cuda.memory.change_current_allocator(pool)


class Delay:
    """A host function in a stream: usleep, so that no thread of the driver waits for Python."""

    def __init__(self):
        driver = ctypes.CDLL("libcuda.so.1")
        self.launch, self.sleep = driver.cuLaunchHostFunc, address(ctypes.CDLL(None).usleep)
        self.launch.argtypes = [ctypes.c_void_p] * 3

    def __call__(self, stream, microseconds):
        assert self.launch(stream.cuda_stream, self.sleep, microseconds) == 0


class Work:
    def __init__(self):
        self.random, self.delay = random.Random(5), Delay()
        self.streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self.wrong = {}  # wrong words, counted for each stream
        for stream in self.streams:
            with torch.cuda.stream(stream):
                self.wrong[stream] = torch.zeros((), dtype=torch.int64, device="cuda")
        self.copies = []  # (event, host tensor, value)
        self.wrong_copies = self.recorded = 0

    def look(self, stream, tensor, value):
        self.wrong[stream] += (tensor != value).sum()

    def copy_out(self, stream, tensor, value):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        self.copies.append((stream.record_event(), host, value))

    def check_oldest(self):
        event, host, value = self.copies.pop(0)
        event.synchronize()
        self.wrong_copies += int((host != value).any())

    def iteration(self, value):
        """A tensor of one stream, used on another, and freed at the end of this function."""
        owner, other = self.random.sample(self.streams, 2)
        words = int(2 ** self.random.uniform(8, 22))
        with torch.cuda.stream(owner):
            tensor = torch.full((words,), value, dtype=torch.int32, device="cuda")
            self.look(owner, tensor * 2, 2 * value)  # a temporary used only by the owner
        with torch.cuda.stream(other):
            other.wait_stream(owner)
            if self.random.random() < 0.3:
                self.delay(other, self.random.randrange(300))
            self.look(other, tensor, value)
            self.copy_out(other, tensor, value)
        if self.random.random() < 0.5:
            tensor.record_stream(other)
            self.recorded += 1
        else:
            owner.wait_stream(other)
        while len(self.copies) > WAITING:
            self.check_oldest()


def main():
    torch.set_num_threads(1)
    if os.environ.get("TORCH_ADAPTER"):
        use_adapter(os.environ["TORCH_ADAPTER"])
    iterations, work = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, Work()
    for value in range(1, iterations + 1):
        work.iteration(value)
    while work.copies:
        work.check_oldest()
    torch.cuda.synchronize()
    print("%d iterations, %d told by record_stream" % (iterations, work.recorded))
    print("%d words are wrong on the device" % sum(int(wrong) for wrong in work.wrong.values()))
    print("%d copies are wrong on the host" % work.wrong_copies)


if __name__ == "__main__":
    main()
