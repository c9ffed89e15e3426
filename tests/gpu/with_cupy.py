# SPDX-License-Identifier: BSD-3-Clause
"""CuPy with the allocators named: its results, as sums of bytes. Usage: with_cupy.py
none|pool|async|managed..."""
import hashlib
import sys

try:
    import cupy
    import cupyx
    import cupyx.scipy.sparse
    import numpy
    cupy.cuda.runtime.getDeviceCount()
except Exception as why:  # no CuPy, or no device
    print(why)
    sys.exit(77)


def show(what, array):
    host = numpy.ascontiguousarray(cupy.asnumpy(array))
    print(what, host.dtype, host.shape, hashlib.sha256(host.tobytes()).hexdigest()[:16])


SQUARE = cupy.RawKernel(r"""extern "C" __global__ void square(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}""", "square")


def work(n):
    a = (cupy.arange(n * n, dtype=cupy.int64) * 2654435761 % 1009).reshape(n, n)
    show("elementwise", a * 3 + (a >> 2))
    show("product", (a % 8).astype(cupy.float32) @ (a % 5).astype(cupy.float32))
    show("sort", cupy.sort(a.ravel()))
    show("argsort", cupy.argsort(a.ravel() * (n * n) + cupy.arange(n * n)))
    show("scan", cupy.cumsum(a.ravel()))
    show("unique", cupy.unique(a))
    show("transform", cupy.fft.fft(a[0].astype(cupy.complex64)))
    out = cupy.empty(n * n, dtype=cupy.int32)
    SQUARE(((n * n + 255) // 256,), (256,), (a.ravel().astype(cupy.int32), out, n * n))
    show("raw kernel", out)
    for size in (1, 1000, 4097, 1 << 20, 3 << 20):
        x = cupy.arange(size, dtype=cupy.uint8)
        x = cupy.concatenate([x, x[::-1]])
        show("grown", x)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    parts = []
    for i, stream in enumerate(streams):
        with stream:
            parts.append(cupy.full(100000, i, dtype=cupy.int32).cumsum())
    for stream in streams:
        stream.synchronize()
    show("streams", cupy.stack(parts))


def sparse(n):
    host = numpy.arange(n * 8) * 40503
    rows, columns, values = (cupy.asarray(x) for x in (host % n, host // 7 % n, (host % 5 - 2).astype(numpy.float32)))
    m = cupyx.scipy.sparse.coo_matrix((values, (rows, columns)), shape=(n, n)).tocsr()
    show("sparse by vector", m @ cupy.arange(n, dtype=cupy.float32))
    square = m @ m
    square.sort_indices()
    show("sparse by itself", square.data)


def pinned(n):
    host = cupyx.empty_pinned(n, dtype=numpy.int32)
    host[:] = numpy.arange(n)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        device = cupy.empty(n, dtype=cupy.int32)
        device.set(host, stream=stream)
        device += 1
        back = cupyx.zeros_pinned(n, dtype=numpy.int32)
        device.get(stream=stream, out=back)
    stream.synchronize()
    print("pinned", hashlib.sha256(back.tobytes()).hexdigest()[:16])


ALLOCATORS = {"none": None, "pool": cupy.cuda.MemoryPool().malloc, "async": cupy.cuda.MemoryAsyncPool().malloc,
              "managed": cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc}
for name in sys.argv[1:]:
    print("allocator", name)
    cupy.cuda.set_allocator(ALLOCATORS[name])
    for n in (16, 300, 1024):
        work(n)
    sparse(5000)
    pinned(100000)
