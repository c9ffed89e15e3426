# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch shares CUDA tensors between processes: a parent sends some, a child reads, changes and answers."""
import torch
import torch.multiprocessing

SIZES = [1000, 1 << 20, (5 << 20) + 7]  # words: a slice of a small block, one block, and large ones


def child(tensors, answers):
    for tensor in iter(tensors.get, None):
        own = torch.ones_like(tensor)
        total = (tensor * own).sum(dtype=torch.int64).item()
        tensor.mul_(2)
        torch.cuda.synchronize()
        answers.put(total)
        del tensor, own


def main():
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(tensors, answers))
    process.start()
    for turn, size in enumerate(SIZES + SIZES):
        tensor = torch.arange(size, dtype=torch.int64, device="cuda") + turn
        part = tensor[size // 3:]
        before = part.sum(dtype=torch.int64).item()
        torch.cuda.synchronize()
        tensors.put(part)
        print("tensor of %8d: the child read %s, and changed %s, nothing else %s" % (
            part.numel(), answers.get() == before, part.sum(dtype=torch.int64).item() == 2 * before,
            tensor[:size // 3].sum().item() == sum(range(turn, size // 3 + turn))))
    tensors.put(None)
    process.join()
    print("child ended with", process.exitcode)


if __name__ == "__main__":
    main()
