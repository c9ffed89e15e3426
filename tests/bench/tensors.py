# SPDX-License-Identifier: BSD-3-Clause
"""Copies between the host and the device as users of PyTorch and CuPy write them, measured like client.c: see
client.h.

    tensors.py torch|cupy

`copy NAME SIZE`, where NAME is a key of the table below, answers the median time of a copy of SIZE bytes, in
microseconds. The host's arrays are pageable and touched; a copy to the host makes a new array. Bytes are
compared."""
import statistics
import sys
import time

import numpy

TIMES = 3


def torch_copies():
    import torch
    torch.ones(1).cuda()

    def round_trip(host, device):
        return torch.from_numpy(host.numpy()).cuda().cpu().numpy()
    return torch.from_numpy, lambda host: host.cuda(), torch.cuda.synchronize, {
        "cuda": lambda host, device: host.cuda(),
        "cpu": lambda host, device: device.cpu(),
        "numpy": round_trip,
    }


def cupy_copies():
    import cupy
    cupy.ones(1)
    return lambda host: host, cupy.asarray, cupy.cuda.runtime.deviceSynchronize, {
        "asarray": lambda host, device: cupy.asarray(host),
        "asnumpy": lambda host, device: cupy.asnumpy(device),
    }


def on_host(array):
    """The bytes of an array of either library, on either side."""
    for name in ("get", "cpu"):
        if hasattr(array, name):
            array = getattr(array, name)()
    return array.numpy() if hasattr(array, "numpy") else array


def main():
    wrap, to_device, synchronize, copies = {"torch": torch_copies, "cupy": cupy_copies}[sys.argv[1]]()
    print("ready", flush=True)
    for line in sys.stdin:
        _, name, size = line.split()
        source = numpy.arange(int(size) // 8, dtype=numpy.int64)
        host = wrap(source)
        device, times, result = to_device(host), [], None
        for _ in range(TIMES):
            result = None  # so that the next array has fresh memory
            synchronize()
            begin = time.perf_counter()
            result = copies[name](host, device)
            synchronize()
            times.append((time.perf_counter() - begin) * 1e6)
        if not numpy.array_equal(on_host(result), source):
            print("error %s of %s bytes: other bytes came" % (name, size), flush=True)
            return 1
        print("ok %.2f" % statistics.median(times), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as why:  # no library, or no device
        print("error", " ".join(str(why).split()), flush=True)
        sys.exit(1)
