# SPDX-License-Identifier: BSD-3-Clause
"""A PyTorch program with PyTorch's own cache, measured like client.c: see client.h. "ready" comes after
`import torch; torch.ones(1).cuda()`; `train STEPS` trains and answers the median time of a step, in microseconds."""
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

STEPS_TOGETHER = 5


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(4),
        torch.nn.Flatten(), torch.nn.Linear(64 * 64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10),
    ).cuda()


def step(model, optimizer, images, labels):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()


state = None
for line in sys.stdin:
    steps = int(line.split()[1])
    if state is None:
        model = network()
        state = (model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                 torch.randn(64, 3, 32, 32, device="cuda"), torch.randint(0, 10, (64,), device="cuda"))
        for _ in range(STEPS_TOGETHER):
            step(*state)
    times = []
    for _ in range(max(1, steps // STEPS_TOGETHER)):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS_TOGETHER):
            step(*state)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / STEPS_TOGETHER)
    print("ok %.2f" % (statistics.median(times) * 1e6), flush=True)
