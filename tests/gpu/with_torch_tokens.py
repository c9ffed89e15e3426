# SPDX-License-Identifier: BSD-3-Clause
"""Words that a small transformer generates, run after run, as sums: are they the same each time?

    with_torch_tokens.py [RUNS]

Each run starts from one seed, and generates words greedily: `fresh` with a new network, `trained` after a few
training steps. Both use first PyTorch's choice of kernels, then deterministic ones. Prints the frequency of
each sum."""
import collections
import hashlib
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

WORDS, WIDTH, HEADS, LAYERS, PROMPT, MADE, ROWS = 1000, 256, 8, 3, 32, 48, 8


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.places = torch.nn.Embedding(PROMPT + MADE, WIDTH)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.parts = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.joins = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, words):
        rows, length = words.shape
        x = self.words(words) + self.places(torch.arange(length, device="cuda"))
        for norm, part, join in zip(self.norms, self.parts, self.joins):
            q, k, v = (p.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2) for p in part(norm(x)).split(WIDTH, 2))
            x = x + join(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        return F.linear(x, self.words.weight)


def train(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        words = torch.randint(0, WORDS, (ROWS, 24 + 4 * (step % 3)), device="cuda")
        loss = F.cross_entropy(model(words[:, :-1]).view(-1, WORDS).float(), words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def run(trained):
    torch.manual_seed(7)
    model = Model().cuda().bfloat16()
    if trained:
        train(model)
    words = torch.randint(0, WORDS, (ROWS, PROMPT), device="cuda")
    with torch.no_grad():
        for _ in range(MADE):
            words = torch.cat((words, model(words)[:, -1].argmax(1, keepdim=True)), 1)
    return hashlib.sha256(words.cpu().numpy().tobytes()).hexdigest()[:12]


def main():
    torch.set_num_threads(1)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        for trained in (False, True):
            sums = collections.Counter(run(trained) for _ in range(runs))
            print("deterministic" if deterministic else "as chosen", "trained" if trained else "fresh",
                  " ".join("%s:%d" % pair for pair in sorted(sums.items())), flush=True)


if __name__ == "__main__":
    main()
