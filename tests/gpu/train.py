# SPDX-License-Identifier: BSD-3-Clause
"""Train a small network deterministically; every loss is printed to the bit. With
PYTORCH_NO_CUDA_MEMORY_CACHING=1 every tensor is a cudaMalloc and a cudaFree."""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
    assert torch.cuda.is_available()
except Exception as why:  # no PyTorch, or no device
    print(why)
    sys.exit(77)

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
device = torch.device("cuda")
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
    torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(4),
    torch.nn.Flatten(), torch.nn.Linear(64 * 64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(int(os.environ.get("TRAIN_STEPS", "40"))):
    images = torch.randn(32 + 16 * (step % 3), 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (images.shape[0],), device=device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), flush=True)
print("sum of parameters", sum(p.double().sum().item() for p in model.parameters()).hex())
