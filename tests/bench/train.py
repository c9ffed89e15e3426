# SPDX-License-Identifier: BSD-3-Clause
"""A PyTorch program with PyTorch's own cache, measured like client.c: see client.h. It prints "ready" after
`import torch; torch.ones(1).cuda()`. Commands: `setup`, once, makes a network and trains a few steps; `train
STEPS` answers the median time of a step, in microseconds."""
import sys

try:
    import torch
    torch.ones(1).cuda()
    torch.cuda.synchronize()
except Exception as why:  # no PyTorch, or no device
    print("error", " ".join(str(why).split()), flush=True)
    sys.exit(1)
print("ready", flush=True)

import statistics
import time

BATCH, LENGTH, WIDTH, CLASSES = 32, 32, 128, 10
STEPS_TOGETHER = 5


class Training:
    """A small network of attention and linear layers: many short kernels, so that the cost of each call is visible."""

    def __init__(self):
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, dim_feedforward=256, dropout=0.0, batch_first=True)
        self.model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Flatten(),
                                         torch.nn.Linear(LENGTH * WIDTH, CLASSES)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.input = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")
        self.labels = torch.randint(0, CLASSES, (BATCH,), device="cuda")
        for _ in range(3):
            self.steps()

    def steps(self):
        """Returns the time of a step, the mean of a few."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS_TOGETHER):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(self.input), self.labels).backward()
            self.optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / STEPS_TOGETHER


training = None
for line in sys.stdin:
    command, *steps = line.split()
    if command == "setup":
        training = Training()
        print("ok", flush=True)
    else:
        times = [training.steps() for _ in range(max(1, int(steps[0]) // STEPS_TOGETHER))]
        print("ok %.2f" % (statistics.median(times) * 1e6), flush=True)
