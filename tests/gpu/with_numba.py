# SPDX-License-Identifier: BSD-3-Clause
"""numba: kernels, shared memory, streams, atomics, mapped and pinned memory, deferred frees, as sums of bytes."""
import hashlib
import sys

try:
    import numpy
    # Names that numba needs, and newer NumPy has dropped.
    for old, new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(numpy, old):
            setattr(numpy, old, getattr(numpy, new))
    import numba
    from numba import cuda
    assert cuda.is_available()
except Exception as why:  # no numba, or no device
    print(why)
    sys.exit(77)


def show(what, host):
    print(what, host.dtype, host.shape, hashlib.sha256(host.tobytes()).hexdigest()[:16])


@cuda.jit
def scale(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * 3 + 1


@cuda.jit
def reverse(x):
    part = cuda.shared.array(256, numba.int32)
    i = cuda.grid(1)
    part[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    x[i] = part[255 - cuda.threadIdx.x]


@cuda.jit
def count(bins, x):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i] % bins.size, 1)


for n in (256, 65536, 1 << 20):
    x = (numpy.arange(n, dtype=numpy.int64) * 40503 % 65521).astype(numpy.int32)
    stream = cuda.stream()
    for i in range(20):
        device = cuda.to_device(x, stream=stream)
        out = cuda.device_array_like(device)
        scale[n // 256, 256, stream](out, device)
        reverse[n // 256, 256, stream](out)
        bins = cuda.to_device(numpy.zeros(97, dtype=numpy.int32), stream=stream)
        count[n // 256, 256, stream](bins, out)
        stream.synchronize()
        if i % 10 == 0:
            show("kernel", out.copy_to_host())
            show("counted", bins.copy_to_host())
    mapped = cuda.mapped_array(n, dtype=numpy.int32)
    mapped[:] = x
    scale[n // 256, 256](mapped, cuda.to_device(x))
    cuda.synchronize()
    show("mapped", numpy.array(mapped))
    with cuda.defer_cleanup():  # arrays dropped here are freed afterwards, all at once
        host = cuda.pinned_array(n, dtype=numpy.int32)
        host[:] = x
        for i in range(50):
            part = cuda.to_device(host, stream=stream)[n // 4:n // 2]
            scale[n // 256, 256, stream](part, part)
            if i % 25 == 0:
                show("pinned", part.copy_to_host(stream=stream))
        stream.synchronize()
