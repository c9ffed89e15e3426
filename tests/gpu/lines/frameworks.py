# SPDX-License-Identifier: BSD-3-Clause
"""A few steps of a framework: frameworks.py gpt2|llama|compile|checkpoint|function|triton|cupy|numba|jax. Status 77: it is missing."""
import sys


def trained(model, batches, loss_of):
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(batches):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    torch.cuda.synchronize()


def gpt2():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    words = torch.randint(0, 50000, (4, 256), device="cuda")
    model = GPT2LMHeadModel(GPT2Config(n_layer=6)).cuda()
    trained(model, 3, lambda m: m(words, labels=words).loss)


def llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = torch.randint(0, 30000, (4, 256), device="cuda")
    config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16, num_key_value_heads=4)
    trained(LlamaForCausalLM(config).cuda().bfloat16(), 3, lambda m: m(words, labels=words).loss)


def network(width=2048, layers=6):
    import torch

    return torch.nn.Sequential(*(part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU()))).cuda()


def compile():
    import torch

    x = torch.randn(8192, 2048, device="cuda")
    trained(torch.compile(network()), 4, lambda m: m(x).square().mean())


def checkpoint():
    import torch
    from torch.utils.checkpoint import checkpoint as again

    x = torch.randn(8192, 2048, device="cuda", requires_grad=True)
    trained(network(), 3, lambda m: again(m[6:], again(m[:6], x, use_reentrant=False), use_reentrant=False).square().mean())


def function():
    import torch

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    x = torch.randn(8192, 2048, device="cuda")
    trained(network(), 3, lambda m: Cube.apply(m(x)).mean())


def triton():
    import torch
    import triton as t
    import triton.language as tl

    with open("triton_kernel.py", "w") as out:
        out.write("import triton\nimport triton.language as tl\n\n@triton.jit\ndef add(a, b, c, n, BLOCK: tl.constexpr):\n"
                  "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
                  "    tl.store(c + i, tl.load(a + i, i < n) + tl.load(b + i, i < n), i < n)\n")
    sys.path.insert(0, ".")
    from triton_kernel import add

    a, b = (torch.randn(1 << 24, device="cuda") for _ in range(2))
    kept = []
    for _ in range(4):
        c = torch.empty_like(a)
        add[(t.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), BLOCK=1024)
        kept.append(c)
    torch.cuda.synchronize()
    assert torch.equal(kept[0], a + b)


def cupy():
    import cupy as cp

    a = cp.random.rand(4096, 4096)
    kept = [a @ a for _ in range(4)]
    kept.append(cp.fft.fft2(a))
    assert float(kept[0].sum()) == float(kept[1].sum())


def numba():
    import numpy
    from numba import cuda

    kept = [cuda.to_device(numpy.ones(1 << 22)) for _ in range(4)]
    kept.append(cuda.device_array(1 << 22))
    assert kept[0].copy_to_host().sum() == 1 << 22


def jax():
    import jax as j
    import jax.numpy as jnp

    a = jnp.ones((4096, 4096))
    kept = [j.jit(lambda x: x @ x)(a) for _ in range(4)]
    assert float(kept[0][0, 0]) == 4096


try:
    globals()[sys.argv[1]]()
except ImportError as missing:
    print(missing)
    sys.exit(77)
