# SPDX-License-Identifier: BSD-3-Clause
"""torch.multiprocessing on a GPU: four workers take tensors of their parent from a queue and answer with tensors of
their own, which outlive the worker's names for them; a pool of processes maps a function over shared tensors; and
workers train one shared model in turns, as Hogwild does without locks."""
import sys

try:
    import torch
    import torch.multiprocessing
    assert torch.cuda.is_available(), "no device"
except Exception as why:  # no PyTorch, no device
    print(why)
    sys.exit(77)

WORKERS, TURNS, STEPS = 4, 40, 20
SIZES = [1000, 1 << 18, (1 << 20) + 3, (6 << 20) + 1]  # words


def square_run(questions, answers, done):
    """Answer each tensor by one of this process, and keep that until the parent is done with it."""
    kept = [torch.zeros(1, device="cuda")]  # a worker without a question has memory of its own, too
    for number, tensor in iter(questions.get, None):
        answer = tensor * tensor + number
        torch.cuda.synchronize()
        kept.append(answer)
        answers.put((number, answer))
        del tensor, answer
        if len(kept) > 4:
            kept.pop(0)
    done.wait()


def pool_start():
    torch.zeros(1, device="cuda")


def sum_of(tensor):
    return tensor.double().sum().item()


def model_train(model, turn, lock):
    data = torch.Generator(device="cuda").manual_seed(turn)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with lock:  # one at a time: the result is the same in each run
        for _ in range(STEPS):
            inputs = torch.randn(64, 128, device="cuda", generator=data)
            optimizer.zero_grad()
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()


def queues(context):
    questions, answers, done = context.Queue(), context.Queue(), context.Event()
    workers = [context.Process(target=square_run, args=(questions, answers, done)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    sent = {}
    for number in range(TURNS):
        sent[number] = torch.arange(SIZES[number % len(SIZES)], device="cuda", dtype=torch.int64) + number
    torch.cuda.synchronize()
    for number, tensor in sent.items():
        questions.put((number, tensor))
    right = 0
    for _ in range(TURNS):
        number, answer = answers.get(timeout=120)
        tensor = sent.pop(number)
        right += torch.equal(answer, tensor * tensor + number)
        del answer, tensor
    print("queues: %d of %d answers right" % (right, TURNS))
    for _ in workers:
        questions.put(None)
    done.set()
    for worker in workers:
        worker.join()
    print("queues: workers ended with", [worker.exitcode for worker in workers])


def pools(context):
    parts = [torch.full((size,), i + 1, device="cuda", dtype=torch.float32) for i, size in enumerate(SIZES * 2)]
    torch.cuda.synchronize()
    with context.Pool(2, pool_start) as pool:
        sums = pool.map(sum_of, parts)
    print("a pool: %s" % (sums == [part.double().sum().item() for part in parts]))


def shared_model(context):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)).cuda()
    model.share_memory()
    before, lock = sum(p.double().sum().item() for p in model.parameters()), context.Lock()
    for turn in range(2):
        worker = context.Process(target=model_train, args=(model, turn, lock))
        worker.start()
        worker.join()
        print("a shared model: worker ended with", worker.exitcode)
    after = sum(p.double().sum().item() for p in model.parameters())
    print("a shared model: changed %s, parameters %s" % (after != before, after.hex()))


def main():
    context = torch.multiprocessing.get_context("spawn")
    queues(context)
    pools(context)
    shared_model(context)


if __name__ == "__main__":
    main()
