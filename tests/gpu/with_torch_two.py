# SPDX-License-Identifier: BSD-3-Clause
"""Train a small language model on two GPUs, a process each; both print each loss to the bit.

    with_torch_two.py ddp     each process has the whole model; gradients are averaged
    with_torch_two.py fsdp    each process has half of each layer, and gathers it before use

With PYTORCH_NO_CUDA_MEMORY_CACHING=1 every tensor is a cudaMalloc and a cudaFree.
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
    import torch.distributed as distributed
    import torch.multiprocessing
    from torch.distributed.fsdp import fully_shard
    assert torch.cuda.device_count() >= 2, "two GPUs are needed"
    assert distributed.is_nccl_available(), "no NCCL"
except Exception as why:  # no PyTorch, no device
    print(why)
    sys.exit(77)

STEPS = int(os.environ.get("TRAIN_STEPS", "30"))
TOKENS, WIDTH, LAYERS, LENGTH = 1000, 256, 4, 64


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(TOKENS, WIDTH)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens):
        hidden = self.tokens(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def spread(model, how, rank):
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def rank_run(rank, port, how, answers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", rank=rank, world_size=2)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = spread(Model().cuda(), how, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    random = torch.Generator(device="cuda").manual_seed(2 + rank)
    losses = []
    for step in range(STEPS):
        tokens = torch.randint(0, TOKENS, (8 + 4 * (step % 3), LENGTH + 1), device="cuda", generator=random)
        optimizer.zero_grad()
        found = model(tokens[:, :-1]).reshape(-1, TOKENS)
        loss = torch.nn.functional.cross_entropy(found, tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    answers.put((rank, losses))
    distributed.destroy_process_group()


def main(how):
    import with_nccl_two
    context = torch.multiprocessing.get_context("spawn")
    answers, port = context.Queue(), with_nccl_two.free_port()
    ranks = [context.Process(target=rank_run, args=(rank, port, how, answers)) for rank in range(2)]
    for process in ranks:
        process.start()
    for rank, losses in sorted(answers.get(timeout=200) for _ in ranks):
        for step, loss in enumerate(losses):
            print("rank %d, step %d: %s" % (rank, step, loss))
    for process in ranks:
        process.join()
    print("ended with", [process.exitcode for process in ranks])


if __name__ == "__main__":
    main(sys.argv[1])
