# SPDX-License-Identifier: BSD-3-Clause
"""The log's export beside PyTorch's own snapshot. snapshot.py make FILE: two steps of a training, then the snapshot; the
process ends as by SIGKILL, so that the log ends there, too. snapshot.py compare FILE EXPORT: the sums, segments and tensors."""
import os
import pickle
import sys


def make(path):
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    for i in range(3):
        optimizer.zero_grad()
        out = model(torch.randn(512 + 100 * i, 1024, device="cuda"))
        kept.append(out.detach().clone())
        out.square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
    with open(path, "wb") as out:
        pickle.dump(torch.cuda.memory._snapshot()["segments"], out)
    os.kill(os.getpid(), 9)


def compare(path, export):
    with open(path, "rb") as theirs, open(export, "rb") as ours:
        both = pickle.load(theirs), pickle.load(ours)["segments"]
    sizes = ("total_size", "allocated_size", "active_size")
    sums = [{size: sum(segment[size] for segment in side) for size in sizes} for side in both]
    tensors = [
        {(block["address"], block["size"]) for segment in side for block in segment["blocks"] if block["state"] == "active_allocated"}
        for side in both
    ]
    addresses = [{segment["address"] for segment in side} for side in both]
    print(f"PyTorch {sums[0]}, {len(addresses[0])} segments, {len(tensors[0])} tensors")
    print(f"gpumem  {sums[1]}, {len(addresses[1])} segments, {len(tensors[1])} tensors")
    print(f"equal: {len(addresses[0] & addresses[1])} segments, {len(tensors[0] & tensors[1])} tensors")
    sys.exit(sums[0] != sums[1] or addresses[0] != addresses[1] or tensors[0] != tensors[1])


{"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
