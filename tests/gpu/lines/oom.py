# SPDX-License-Identifier: BSD-3-Clause
"""Runs out of memory by mistake: the outputs of all layers are kept. oom.py device|limit|holes"""
import sys

import torch

gib = 1 << 30


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(8))

    def forward(self, x):
        kept = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            kept.append(x)
        return x, kept


def run_out():
    net, held = Net(4096).cuda(), []
    while True:
        out, kept = net(torch.randn(1 << 16, 4096, device="cuda"))
        held += kept


def limit():
    torch.cuda.set_per_process_memory_fraction(0.02)
    run_out()


def holes():
    """Each segment of the cache has a hole, and no hole is large enough."""
    n = torch.cuda.mem_get_info()[0] // gib - 1
    held = [torch.empty(gib, dtype=torch.uint8, device="cuda") for _ in range(n)]
    held = [tensor.numel() for tensor in held]  # the cache keeps their segments
    held = [torch.empty(size // 10 * 6, dtype=torch.uint8, device="cuda") for size in held]
    torch.empty(3 * gib, dtype=torch.uint8, device="cuda")


{"device": run_out, "limit": limit, "holes": holes}[sys.argv[1]]()
