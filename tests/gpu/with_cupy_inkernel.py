# SPDX-License-Identifier: BSD-3-Clause
"""CuPy's raw modules with kernels that call malloc, new and virtual functions, by NVRTC: their results."""
import sys

try:
    import cupy
    cupy.cuda.runtime.getDeviceCount()
except Exception as why:  # no CuPy, or no device
    print(why)
    sys.exit(77)

LISTS = r"""
struct node { node *next; int value; };
extern "C" __global__ void make(node **list, int n, int length)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    list[t] = 0;
    for (int i = 0; i < length; i++) {
        node *one = (node *)malloc(sizeof *one);
        if (!one) return;
        one->next = list[t], one->value = t + i;
        list[t] = one;
    }
}"""
SUMS = r"""
struct node { node *next; int value; };
extern "C" __global__ void sum(node **list, int n, long long *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    out[t] = 0;
    for (node *one = list[t]; one;) {
        node *next = one->next;
        out[t] += one->value;
        free(one);
        one = next;
    }
}"""
OBJECTS = r"""
struct shape { virtual __device__ int area() const = 0; virtual __device__ ~shape() {} };
struct square : shape { int a; __device__ square(int a) : a(a) {} __device__ int area() const override { return a * a; } };
struct strip : shape {
    int *part, n;
    __device__ strip(int n) : part(new int[n]), n(n) { for (int i = 0; i < n; i++) part[i] = i; }
    __device__ ~strip() { delete[] part; }
    __device__ int area() const override { int s = 0; for (int i = 0; i < n; i++) s += part[i]; return s; }
};
extern "C" __global__ void objects(int n, long long *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    shape *one = t % 2 ? (shape *)new square(t % 100) : (shape *)new strip(t % 50);
    out[t] = one->area();
    delete one;
}"""

N, LENGTH = 50000, 10
cupy.cuda.runtime.deviceSetLimit(cupy.cuda.runtime.cudaLimitMallocHeapSize, 256 << 20)
grid, block = ((N + 127) // 128,), (128,)
t = cupy.arange(N, dtype=cupy.int64)
for options in ((), ("-G",), ("-rdc=true",)):
    lists, sums, objects = (cupy.RawModule(code=code, options=options) for code in (LISTS, SUMS, OBJECTS))
    slots, out = cupy.zeros(N, dtype=cupy.uint64), cupy.zeros(N, dtype=cupy.int64)
    for turn in range(3):
        lists.get_function("make")(grid, block, (slots, N, LENGTH))
        sums.get_function("sum")(grid, block, (slots, N, out))
        wrong = out != LENGTH * t + LENGTH * (LENGTH - 1) // 2
        print("options", *options, "round", turn, "threads without NULL", int((slots != 0).sum()), "wrong", int(wrong.sum()))
    objects.get_function("objects")(grid, block, (N, out))
    side = t % 50
    wrong = out != cupy.where(t % 2 == 1, (t % 100) ** 2, side * (side - 1) // 2)
    print("options", *options, "objects wrong", int(wrong.sum()))
