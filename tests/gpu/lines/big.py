# SPDX-License-Identifier: BSD-3-Clause
"""The time of a training step that the GPU bounds, ms: 12 layers of width 1536, 16 rows of 512 words, in bfloat16."""
import time

import torch
import torch.nn.functional as F

torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(1536, 12, 6144, dropout=0.0, batch_first=True, norm_first=True)
layers = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
words, last = torch.nn.Embedding(32000, 1536), torch.nn.Linear(1536, 32000)
model = torch.nn.Sequential(words, layers, last).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step():
    batch = torch.randint(0, 32000, (16, 513), device="cuda")
    loss = F.cross_entropy(model(batch[:, :-1]).view(-1, 32000), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(5):
    step()
torch.cuda.synchronize()
begin = time.perf_counter()
for _ in range(30):
    step()
submitted = time.perf_counter() - begin
torch.cuda.synchronize()
print(f"submitted_ms={submitted / 30 * 1e3:.3f} step_ms={(time.perf_counter() - begin) / 30 * 1e3:.3f}")
