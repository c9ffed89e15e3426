# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of 1 GiB on two GPUs, one process each, 100 rounds of each kind, each result checked.

    with_nccl_two.py              all-reduce, all-gather, send and receive in both directions at once
    with_nccl_two.py bandwidth    also prints the rate of each kind's median round, in GB/s
    with_nccl_two.py sleeps       600 rounds of all-reduce, while both processes are put to sleep together, 20
                                  times; needs GPUMEM_SLEEP=1
"""
import os
import subprocess
import sys
import time

try:
    import torch
    import torch.distributed as distributed
    import torch.multiprocessing
    assert torch.cuda.device_count() >= 2, "two GPUs are needed"
    assert distributed.is_nccl_available(), "no NCCL"
except Exception as why:  # no PyTorch, no device
    print(why)
    sys.exit(77)

ROUNDS, WARM, WORDS = 100, 5, 1 << 28
SLEEPS = 20


def all_reduce(mine, got, rank):
    got.copy_(mine)
    return lambda: distributed.all_reduce(got)


def all_gather(mine, got, rank):
    half = mine[rank * WORDS // 2:(rank + 1) * WORDS // 2]
    return lambda: distributed.all_gather_into_tensor(got, half)


def exchange(mine, got, rank):
    def run():
        for request in distributed.batch_isend_irecv([
                distributed.P2POp(distributed.isend, mine, 1 - rank), distributed.P2POp(distributed.irecv, got, 1 - rank)]):
            request.wait()
    return run


# Rank r starts with pattern + turn + r. Subtracts what `got` has to be; whole numbers below 2^24 are exact.
def reduced(got, pattern, turn, rank):
    got.sub_(2 * turn + 1).sub_(pattern).sub_(pattern)


def gathered(got, pattern, turn, rank):
    for owner, half in enumerate(got.sub_(pattern).sub_(turn).chunk(2)):
        half.sub_(owner)


def received(got, pattern, turn, rank):
    got.sub_(pattern).sub_(turn + 1 - rank)


# Name, what makes the call, what checks its result, parts of the 1 GiB that cross the bus in each direction.
KINDS = (("all-reduce", all_reduce, reduced, 1), ("all-gather", all_gather, gathered, 0.5), ("send and receive", exchange, received, 1))


def kind_run(rank, rounds, kind, tensors):
    """(rounds with the right result, seconds of the median round)"""
    mine, got, pattern = tensors
    _, prepare, subtract, _ = kind
    right, seconds = 0, []
    for turn in range(WARM + rounds):
        torch.add(pattern, turn + rank, out=mine)
        got.fill_(-1)
        call = prepare(mine, got, rank)
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        distributed.barrier()
        began.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        subtract(got, pattern, turn, rank)
        if turn >= WARM:
            right += got.count_nonzero().item() == 0
            seconds.append(began.elapsed_time(ended) / 1e3)
    return right, sorted(seconds)[rounds // 2]


def rank_run(rank, port, rounds, kinds, answers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", rank=rank, world_size=2)
    mine, got = (torch.empty(WORDS, dtype=torch.float32, device="cuda") for _ in range(2))
    pattern = torch.arange(WORDS, device="cuda").remainder_(1021).to(torch.float32)
    answers.put((rank, [kind_run(rank, rounds, kind, (mine, got, pattern)) for kind in KINDS[:kinds]]))
    distributed.destroy_process_group()


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ranks_sleep(ranks):
    """Put the ranks to sleep, until one has ended."""
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpumemstat")
    slept, said = 0, ""
    while slept < SLEEPS and all(process.is_alive() for process in ranks):
        order = subprocess.run([tool, "sleep", "--tree=%d" % os.getpid()], capture_output=True, text=True)
        both = order.stdout.count(" moved in ") == 2 and " 0 B moved " not in order.stdout
        slept += order.returncode == 0 and both
        said = order.stderr or said
        time.sleep(0.2)  # both wake, and work
    if slept < SLEEPS:
        sys.exit("only %d of %d sleeps: %s" % (slept, SLEEPS, said))


def main():
    context = torch.multiprocessing.get_context("spawn")
    answers, port = context.Queue(), free_port()
    rounds, kinds = (6 * ROUNDS, 1) if sys.argv[1:] == ["sleeps"] else (ROUNDS, len(KINDS))
    ranks = [context.Process(target=rank_run, args=(rank, port, rounds, kinds, answers)) for rank in range(2)]
    for process in ranks:
        process.start()
    if sys.argv[1:] == ["sleeps"] and os.environ.get("LD_PRELOAD"):
        ranks_sleep(ranks)
    said = sorted(answers.get(timeout=300) for _ in ranks)
    for process in ranks:
        process.join()
    for i, (name, _, _, parts) in enumerate(KINDS[:kinds]):
        for rank, found in said:
            print("%s, rank %d: %d of %d results right, ended with %s" % (name, rank, found[i][0], rounds, ranks[rank].exitcode))
        if sys.argv[1:] == ["bandwidth"]:
            print("bandwidth: %s: %.2f" % (name, parts * 4 * WORDS / max(found[i][1] for _, found in said) / 1e9))
    sys.exit(any(right != rounds for _, found in said for right, _ in found))


if __name__ == "__main__":
    main()
