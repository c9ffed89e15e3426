# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce of 1 GiB on two GPUs, one process each, 100 rounds, each sum checked.

    with_nccl_two.py [bandwidth]    with the word, also prints the bus bandwidth of the median round, in GB/s
    with_nccl_two.py sleeps         both processes are put to sleep together, 20 times; needs GPUMEM_SLEEP=1
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
if sys.argv[1:] == ["sleeps"]:
    ROUNDS = 600


def rank_run(rank, port, answers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", rank=rank, world_size=2)
    values = torch.empty(WORDS, dtype=torch.float32, device="cuda")
    pattern = torch.arange(WORDS, device="cuda").remainder_(1021).to(torch.float32)
    right, seconds = 0, []
    for turn in range(WARM + ROUNDS):
        torch.add(pattern, turn + rank, out=values)
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        distributed.barrier()
        began.record()
        distributed.all_reduce(values)
        ended.record()
        torch.cuda.synchronize()
        values.sub_(2 * turn + 1).sub_(pattern).sub_(pattern)  # whole numbers below 2^24: exact
        if turn >= WARM:
            right += values.count_nonzero().item() == 0
            seconds.append(began.elapsed_time(ended) / 1e3)
    answers.put((rank, right, sorted(seconds)[ROUNDS // 2]))
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
    ranks = [context.Process(target=rank_run, args=(rank, port, answers)) for rank in range(2)]
    for process in ranks:
        process.start()
    if sys.argv[1:] == ["sleeps"] and os.environ.get("LD_PRELOAD"):
        ranks_sleep(ranks)
    said = sorted(answers.get(timeout=300) for _ in ranks)
    for process in ranks:
        process.join()
    for rank, right, _ in said:
        print("rank %d: %d of %d sums right, ended with %s" % (rank, right, ROUNDS, ranks[rank].exitcode))
    if sys.argv[1:] == ["bandwidth"]:
        # In an all-reduce of n ranks each byte crosses the bus 2 (n - 1) / n times, here once.
        print("bandwidth %.2f" % (4.0 * WORDS / max(one[2] for one in said) / 1e9))
    sys.exit(any(right != ROUNDS for _, right, _ in said))


if __name__ == "__main__":
    main()
