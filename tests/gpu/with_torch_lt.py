# SPDX-License-Identifier: BSD-3-Clause
"""A small GPT in bfloat16 whose matrices cuBLASLt multiplies: with_torch_lt.py train|serve|generate [STEPS]

train prints every loss to the bit, serve a sum of the answers to batches of changing sizes, generate the words.
With PYTORCH_NO_CUDA_MEMORY_CACHING=1 every tensor is a cudaMalloc and a cudaFree."""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
    import torch.nn.functional as F
    assert torch.cuda.is_available(), "no device"
except Exception as why:  # no PyTorch, or no device
    print(why)
    sys.exit(77)

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 2000, 512, 8, 4, 128


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.part, self.join = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        q, k, v = (p.view(rows, length, HEADS, -1).transpose(1, 2) for p in self.part(self.first(x)).split(WIDTH, 2))
        mask = torch.ones(length, length, dtype=torch.bool, device="cuda").tril()
        near = (q @ k.transpose(2, 3) / (WIDTH / HEADS) ** 0.5).masked_fill(~mask, float("-inf")).softmax(3)
        x = x + self.join((near @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device="cuda"))
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        words = torch.randint(0, WORDS, (8 + 8 * (step % 3), 65 + 16 * (step % 4)), device="cuda")
        loss = F.cross_entropy(model(words[:, :-1]).float().view(-1, WORDS), words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex(), flush=True)


@torch.no_grad()
def serve(model, steps):
    for step in range(steps):
        words = torch.randint(0, WORDS, (1 + step % 16, 16 + 7 * step % 100), device="cuda")
        print(step, model(words).double().sum().item().hex(), flush=True)


@torch.no_grad()
def generate(model, steps):
    words = torch.randint(0, WORDS, (4, 8), device="cuda")
    for _ in range(min(steps, LENGTH - 8)):
        words = torch.cat((words, model(words)[:, -1].argmax(1, keepdim=True)), 1)
    print(words.tolist())


def main():
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.preferred_blas_library("cublaslt")
    model = Model().to("cuda", torch.bfloat16)
    kind = sys.argv[1] if len(sys.argv) > 1 else "train"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else {"train": 40, "serve": 200, "generate": 100}[kind]
    {"train": train, "serve": serve, "generate": generate}[kind](model, steps)
    with open("/proc/self/maps") as maps:
        print("cuBLASLt:", "libcublasLt" in maps.read())


main()
