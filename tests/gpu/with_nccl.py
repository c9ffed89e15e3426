# SPDX-License-Identifier: BSD-3-Clause
"""A process with an NCCL communicator sleeps by an order, and its next collective is right."""
import os
import subprocess
import sys

try:
    import torch
    import torch.distributed as distributed
    assert torch.cuda.is_available() and distributed.is_nccl_available()
except Exception as why:  # no PyTorch, no device, no NCCL
    print(why)
    sys.exit(77)

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
values = torch.arange(1000, dtype=torch.float64, device="cuda")
distributed.all_reduce(values)
print("sum", values.sum().item())
if os.environ.get("LD_PRELOAD"):
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpumemstat")
    order = subprocess.run([tool, "sleep", str(os.getpid())], capture_output=True, text=True)
    if ": asleep, " not in order.stdout or " 0 B moved " in order.stdout:
        sys.exit("gpumemstat sleep said: " + order.stdout + order.stderr)
distributed.all_reduce(values)
print("sum", values.sum().item())
distributed.destroy_process_group()
