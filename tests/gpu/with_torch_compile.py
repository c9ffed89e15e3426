# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile with mode="reduce-overhead": CUDA graph trees record each shape in a private pool of the allocator,
replay it, keep outputs alive between replays, and fall back to a new recording when memory they rely on is gone.
Results are compared with those of the same model without compilation, and printed to the bit."""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
try:
    import torch
    import torch._inductor.config
    import triton  # noqa: F401: the compiler of its kernels
    assert torch.cuda.is_available(), "no device"
    from torch._inductor import cudagraph_trees
    from torch._dynamo.utils import counters
except Exception as why:  # no PyTorch, no Triton, no device
    print(why)
    sys.exit(77)

torch.manual_seed(1)
torch.set_float32_matmul_precision("highest")
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 512), torch.nn.GELU(),
    torch.nn.Linear(512, 256)).cuda()
compiled = torch.compile(model, mode="reduce-overhead")
random = torch.Generator(device="cuda").manual_seed(3)


def forward():
    """Three shapes by turns: three branches of the tree; every seventh output is kept across replays."""
    kept = []
    for turn in range(60):
        inputs = torch.randn((64, 32, 200)[turn % 3], 256, device="cuda", generator=random)
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            wanted, found = model(inputs), compiled(inputs)
        assert torch.allclose(wanted, found, atol=1e-4), turn
        if turn % 7 == 0:
            kept.append((found.clone(), found.double().sum().item()))
        del found
        other = torch.empty(1 + turn * 50000, device="cuda")  # memory outside of the graphs' pool comes and goes
        other.fill_(turn)
    for i, (tensor, total) in enumerate(kept):
        print("output %d: %s, as at first: %s" % (i, total.hex(), tensor.double().sum().item() == total))


def train():
    """Recordings of forward and backward; the optimizer changes the parameters in place."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(30):
        inputs = torch.randn(64, 256, device="cuda", generator=random)
        torch.compiler.cudagraph_mark_step_begin()
        loss = (compiled(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("step %d: %s" % (step, loss.item().hex()))


forward()
manager = cudagraph_trees.get_container(0).tree_manager
roots = sum(len(nodes) for nodes in manager.roots.values()) if manager else 0
print("recorded graphs: %s" % (roots > 0))
train()
print("skipped: %d" % counters["inductor"]["cudagraph_skips"])
