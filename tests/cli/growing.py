# SPDX-License-Identifier: BSD-3-Clause
"""The requests of a GPT-like training whose steps have more and more tokens, as RMM's CSV: growing.py STEPS
TOKENS.

A step allocates the activations that each of 12 layers keeps for the backward pass, and the logits and their
gradients. Then it allocates the parameters' gradients while it frees the activations. Sizes are those of
width 768, 50257 words, bf16 and fp32.
"""
import sys

WIDTH, LAYERS, WORDS, HEADS = 768, 12, 50257, 12
LAYER = [4 * n for n in (3 * WIDTH * WIDTH, 3 * WIDTH, WIDTH * WIDTH, WIDTH, 4 * WIDTH * WIDTH, 4 * WIDTH,
                         4 * WIDTH * WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDTH)]
PARAMETERS = [4 * WORDS * WIDTH, 4 * 1024 * WIDTH] + LAYERS * LAYER


class Trace:
    def __init__(self):
        self.time = self.end = 0
        print("Thread,Time,Action,Pointer,Size,Stream")

    def event(self, action, block):
        self.time += 10
        print("1,00:00:%02d:%06d,%s,0x%x,%d,0" % (*divmod(self.time, 1000000), action, *block))

    def take(self, *sizes):
        blocks = [(self.end + sum(sizes[:i]), size) for i, size in enumerate(sizes)]
        self.end += sum(sizes)
        for block in blocks:
            self.event("allocate", (block[0] + (7 << 44), block[1]))
        return blocks

    def free(self, *blocks):
        for block in blocks:
            self.event("free", (block[0] + (7 << 44), block[1]))

    def brief(self, *sizes):
        self.free(*self.take(*sizes))


def layer_forward(trace, row, n):
    kept = trace.take(row, 4 * n, 4 * n, 3 * row)
    trace.brief(LAYER[0] // 2)
    kept += trace.take(row, 4 * n * HEADS)
    projected = trace.take(row)
    kept += trace.take(row)
    trace.free(*projected)
    kept += trace.take(row, 4 * n, 4 * n, 4 * row, 4 * row)
    projected = trace.take(row)
    kept += trace.take(row)
    trace.free(*projected)
    return kept


def layer_backward(trace, row, kept, gradient):
    inner = trace.take(4 * row, 4 * row)
    trace.free(kept[10], inner[0], kept[11])
    outer = trace.take(row)
    trace.free(inner[1], *kept[7:10])
    passed = trace.take(row)
    trace.free(*outer, *gradient, kept[12])
    attention = trace.take(row)
    trace.free(kept[4])
    heads = trace.take(3 * row)
    trace.free(*attention, kept[3], kept[5])
    gradient = trace.take(row)
    trace.free(*heads, *passed, *kept[:3], kept[6])
    made = []
    for size in LAYER:
        half = trace.take(size // 2)
        made += trace.take(size)
        trace.free(*half)
    return gradient, made


def step(trace, n):
    row = 2 * n * WIDTH
    tokens, embedded = trace.take(8 * n, 8 * n), trace.take(row)
    kept = [layer_forward(trace, row, n) for _ in range(LAYERS)]
    final, weights, logits = trace.take(row), trace.take(2 * WORDS * WIDTH), trace.take(2 * n * WORDS)
    wide = trace.take(4 * n * WORDS)
    trace.free(*logits)
    probabilities = trace.take(4 * n * WORDS)
    trace.free(*wide)
    wide = trace.take(4 * n * WORDS)
    trace.free(*probabilities)
    logits = trace.take(2 * n * WORDS)
    trace.free(*wide)
    gradients = trace.take(PARAMETERS[0])
    passed = trace.take(row)
    trace.free(*logits, *weights, *final)
    for layer in reversed(kept):
        passed, made = layer_backward(trace, row, layer, passed)
        gradients += made
    trace.free(*passed, *embedded, *tokens)
    return gradients + trace.take(PARAMETERS[1])


def main():
    steps, tokens = int(sys.argv[1]), int(sys.argv[2])
    trace = Trace()
    trace.take(*PARAMETERS)
    for i in range(steps):
        gradients = step(trace, int(1000 * (tokens / 1000) ** (i / (steps - 1))) // 8 * 8)
        if i == 0:
            trace.take(*PARAMETERS, *PARAMETERS)  # moments of the optimiser
        trace.free(*gradients)


main()
