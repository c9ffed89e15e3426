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
    """Every second tensor goes, and no hole is large enough."""
    size = torch.cuda.mem_get_info()[0] // 200
    held = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(190)]
    for i in range(0, len(held), 2):
        held[i] = held[i][: 1 << 20].clone()
    torch.empty(size * 60, dtype=torch.uint8, device="cuda")


{"device": run_out, "limit": limit, "holes": holes}[sys.argv[1]]()
