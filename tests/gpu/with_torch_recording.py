# SPDX-License-Identifier: BSD-3-Clause
"""Train a small network while `gpumemstat log` begins and ends a recording of this process. GPUMEMSTAT is the
tool. Every loss is printed to the bit, so that the output is that of a native run. Under the preload the
recording must name lines of this file, and what lived before; else a line says what is wrong. Standard error
gets one line of JSON: the losses, the time of each answer, and steps per second before, during and after."""
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
    assert torch.cuda.is_available()
except Exception as why:  # no PyTorch, or no device
    print(why)
    sys.exit(77)

STEPS = int(os.environ.get("RECORDING_STEPS", "200"))
PRELOADED = "libgpumem" in os.environ.get("LD_PRELOAD", "")
AROUND = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
device = torch.device("cuda")
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
    torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(4),
    torch.nn.Flatten(), torch.nn.Linear(64 * 64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
faults = []


def batch_make():
    return torch.randn(64, 3, 32, 32, device=device)


def train_step():
    images = batch_make()
    labels = torch.randint(0, 10, (images.shape[0],), device=device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())


def steps_run(name, figures):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        train_step()
    torch.cuda.synchronize()
    figures["steps_per_second_" + name] = STEPS / (time.perf_counter() - begin)


def tool_run(*words):
    """What the tool says. Meanwhile the process makes calls, but no step: their number is that of a native run."""
    begin = time.perf_counter()
    tool = subprocess.Popen([os.environ["GPUMEMSTAT"], *words], env=AROUND, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while tool.poll() is None:
        torch.zeros(1024, device=device).sum().item()
    return tool.stdout.read().strip(), time.perf_counter() - begin


def ask(request, expected, figures):
    if not PRELOADED:
        return ""
    said, figures["answer_seconds_" + request] = tool_run("log", str(os.getpid()), request)
    if expected not in said:
        faults.append("log %s: %s" % (request, said))
    return said.rpartition(" in ")[2]


def lines_check(operand, path):
    """The recording has calls of batch_make in this file, and the row of before."""
    if not PRELOADED:
        return
    # A file, since a pipe would be full before the process reads it.
    with open(path, "w+", encoding="utf-8") as out:
        tool = subprocess.run([os.environ["GPUMEMSTAT"], "live", "--json", operand], env=AROUND,
                              stdout=out, stderr=subprocess.PIPE, text=True, check=False)
        out.seek(0)
        text = out.read()
    try:
        groups = json.loads(text)["logs"][0]["devices"][0]["groups"]
    except (ValueError, LookupError):
        faults.append("live %s: %s" % (operand, tool.stderr.strip()))
        return
    calls = [call for group in groups for call in group["frames"]]
    own = [call for call in calls if call.get("function") == "batch_make" and
           (call.get("file") or "").endswith(os.path.basename(__file__)) and call.get("line")]
    before = [group for group in groups
              if any(call.get("function") == "before recording" for call in group["frames"])]
    if not own:
        faults.append("live %s: no line of batch_make" % operand)
    if len(before) != 1 or before[0]["bytes"] <= 0:
        faults.append("live %s: %d rows of before" % (operand, len(before)))


def main():
    figures = {}
    live = os.environ.get("RECORDING_LIVE", "/tmp/recording.%d.json" % os.getpid())
    for _ in range(20):
        train_step()
    steps_run("before", figures)
    path = ask("events", "records events in ", figures)
    steps_run("during", figures)
    kept = [batch_make() for _ in range(3)]
    lines_check(str(os.getpid()), live)
    ask("small", "ended the recording", figures)
    steps_run("after", figures)
    lines_check(path, live)
    if os.path.exists(live):
        os.unlink(live)
    for step, loss in enumerate(losses):
        print(step, loss)
    print("sum of parameters", sum(p.double().sum().item() for p in model.parameters()).hex())
    print("kept", sum(batch.double().sum().item() for batch in kept).hex())
    for fault in faults:
        print(fault)
    print(json.dumps({**figures, "preloaded": PRELOADED, "faults": faults, "losses": losses}),
          file=sys.stderr)


main()
