# SPDX-License-Identifier: BSD-3-Clause
"""Programs of PyTorch, CuPy and JAX with allocations like those of real programs: a training with variable shapes,
serving with caches that grow, ResNet50, a graph network over random graphs, churn. For framework_worker.py.

A program has step(number), whose shapes and values depend on the number and the state; checksum(value) of the
step's result; and train also has step_of(tokens). They know nothing of gpumem: `Torch` and `Cupy` set the
allocator."""
import ctypes
import os
import random

CORE = os.environ.get("BENCH_ALLOCATOR")


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class Torch:
    def __init__(self):
        global torch, F
        import torch
        import torch.nn.functional as F
        if CORE:
            pool = torch.cuda.memory.CUDAPluggableAllocator(CORE, "torch_alloc", "torch_free")
            pool.allocator().set_record_stream_fn(address(ctypes.CDLL(CORE).torch_record_stream))
            torch.cuda.memory.change_current_allocator(pool)

    def begin(self):
        torch.manual_seed(1)
        torch.zeros(1, device="cuda")
        self.synchronize()

    def name(self):
        return torch.cuda.get_device_name(0)

    def synchronize(self):
        torch.cuda.synchronize()

    def limit(self, size):
        if not CORE and os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") != "1":
            torch.cuda.set_per_process_memory_fraction(size / torch.cuda.get_device_properties(0).total_memory)

    def fits(self, step):
        """Makes the step twice: the second one has the state of the first. Before, frees memory of earlier tries."""
        try:
            if not CORE:
                torch.cuda.empty_cache()
            step()
            step()
            self.synchronize()
            return True
        except RuntimeError as why:
            if "out of memory" not in str(why):
                raise
            return False


class Cupy:
    def __init__(self):
        global cupy
        import cupy

    def begin(self):
        pools = {"own": None, "none": lambda: None, "async": lambda: cupy.cuda.MemoryAsyncPool().malloc}
        if CORE:
            core = ctypes.CDLL(CORE)
            self.pool = cupy.cuda.CFunctionAllocator(1, address(core.gpumem_cupy_malloc), address(core.gpumem_cupy_free), core)
            cupy.cuda.set_allocator(self.pool.malloc)
        elif pools[os.environ.get("BENCH_POOL", "own")]:
            cupy.cuda.set_allocator(pools[os.environ["BENCH_POOL"]]())
        cupy.random.seed(1)
        self.synchronize()

    def name(self):
        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def synchronize(self):
        cupy.cuda.runtime.deviceSynchronize()


class Jax:
    def __init__(self):
        global jax, jnp
        import jax
        import jax.numpy as jnp

    def begin(self):
        self.synchronize()

    def name(self):
        return jax.devices()[0].device_kind

    def synchronize(self):
        """Work of a device runs in the order of the calls."""
        jax.block_until_ready(jnp.zeros(()) + 1)


# --- GPT-like training: each step has another number of sequences, of another length

LAYERS, WIDTH, HEADS, WORDS = 6, 2048, 16, 16384
LONGEST, TOKENS = 1024, (3072, 8192)


def make_block():
    """One layer of a decoder."""
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def split(self, x):
            rows, length, _ = x.shape
            return (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                    for part in self.qkv(self.before(x)).split(WIDTH, dim=2))

        def join(self, x, heads):
            x = x + self.out(heads.transpose(1, 2).reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.between(x))))

        def forward(self, x):
            q, k, v = self.split(x)
            return self.join(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    return Block()


def make_gpt():
    return torch.nn.ModuleDict({
        "words": torch.nn.Embedding(WORDS, WIDTH), "places": torch.nn.Embedding(LONGEST, WIDTH),
        "blocks": torch.nn.ModuleList(make_block() for _ in range(LAYERS)), "norm": torch.nn.LayerNorm(WIDTH)})


class Train:
    def __init__(self, library):
        self.model = make_gpt().cuda().bfloat16()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def learn(self, rows, length, seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        words = torch.randint(0, WORDS, (rows, length + 1), device="cuda", generator=generator)
        model = self.model
        x = model["words"](words[:, :-1]) + model["places"](torch.arange(length, device="cuda"))
        for block in model["blocks"]:
            x = block(x)
        scores = F.linear(model["norm"](x), model["words"].weight)
        loss = F.cross_entropy(scores.float().view(-1, WORDS), words[:, 1:].reshape(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def step(self, number):
        draw = random.Random(number)
        length = draw.randrange(64, LONGEST + 1, 8)
        return self.learn(max(1, draw.randint(*TOKENS) // length), length, number)

    def step_of(self, tokens):
        """Sequences of 512, as many as fit `tokens`."""
        self.optimizer.zero_grad(set_to_none=True)
        return self.learn(max(1, tokens // 512), 512, tokens)

    @staticmethod
    def checksum(loss):
        return round(float(loss) * 1000)


class Varied(Train):
    """Its size is the number of tokens of its largest step."""

    def step_of(self, tokens):
        self.optimizer.zero_grad(set_to_none=True)
        for number in range(12):
            draw = random.Random(number)
            length = draw.randrange(64, LONGEST + 1, 8)
            most = tokens if number in (5, 11) else draw.randint(tokens // 4, tokens)
            self.learn(max(1, most // length), length, number)


class Set:
    """A set of tensors that changes, as of a server: sizes of 64 KiB to 90 MiB, so many MiB of them alive, each filled with
    its number and checked at its end."""
    COUNT = 10000

    def __init__(self, library):
        pass

    def step_of(self, size):
        draw, tensors, live, wrong = random.Random(1), [], 0, torch.zeros((), dtype=torch.long, device="cuda")
        for number in range(self.COUNT):
            count = int(2 ** (16 + 10.5 * draw.random())) // 4
            while live + 4 * count > size << 20:
                at = draw.randrange(len(tensors))
                tensor, value = tensors[at]
                tensors[at] = tensors[-1]
                tensors.pop()
                live -= 4 * tensor.numel()
                wrong += (tensor[0] != value) + (tensor[-1] != value) + (tensor[tensor.numel() // 2] != value)
            tensors.append((torch.full((count,), number, dtype=torch.int32, device="cuda"), number))
            live += 4 * count
        for tensor, value in tensors:
            wrong += (tensor != value).any()
        if int(wrong):
            raise ValueError("%d tensors have wrong contents" % int(wrong))


# --- serving: caches of keys and values that grow by a word a step; requests start and end

REQUESTS, LONGEST_PROMPT, LONGEST_ANSWER, ROOM = 48, 768, 512, 128


class Serve:
    """A cache has a row for each request, its words at the end of the first `at` columns, and room for up to ROOM more."""

    def __init__(self, library):
        self.model = make_gpt().cuda().bfloat16().requires_grad_(False)
        self.cache = [[torch.zeros((0, HEADS, 0, WIDTH // HEADS), dtype=torch.bfloat16, device="cuda") for _ in range(2)]
                      for _ in range(LAYERS)]
        self.at, self.length, self.left = 0, [], []
        self.last = torch.zeros((0, 1), dtype=torch.long, device="cuda")
        self.sum = torch.zeros((), dtype=torch.long, device="cuda")

    def run(self, words, at, attend):
        """Returns the next word of each row; attend(layer, q, k, v)."""
        model, count = self.model, words.shape[1]
        at = min(at, LONGEST - count)
        x = model["words"](words) + model["places"](torch.arange(at, at + count, device="cuda"))
        for layer, block in enumerate(model["blocks"]):
            x = block.join(x, attend(layer, *block.split(x)))
        return F.linear(model["norm"](x[:, -1:]), model["words"].weight).argmax(2)

    def resize(self, length, rows=None, more=0):
        """Resizes the caches to `length` used columns, with these rows (default: all) and `more` new rows."""
        used = min(self.at, length)
        for pair in self.cache:
            for nth, part in enumerate(pair):
                count = part.shape[0] if rows is None else len(rows)
                pair[nth] = part.new_zeros((count + more, HEADS, (length // ROOM + 1) * ROOM, WIDTH // HEADS))
                old = part[:, :, self.at - used:self.at]
                pair[nth][:count, :, length - used:length] = old if rows is None else old[rows]
        self.at = length

    def leave(self):
        stay = [row for row, left in enumerate(self.left) if left > 0]
        if len(stay) < len(self.left):
            self.length, self.left = [self.length[row] for row in stay], [self.left[row] for row in stay]
            rows = torch.tensor(stay, dtype=torch.long, device="cuda")
            self.last = self.last[rows]
            self.resize(max(self.length, default=0), rows)

    def prompt(self, draw):
        length, made = draw.randrange(32, LONGEST_PROMPT, 8), []
        words = torch.tensor([[draw.randrange(WORDS) for _ in range(length)]], device="cuda")

        def attend(layer, q, k, v):
            made.append((k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        last = self.run(words, 0, attend)
        return length, last, made

    def come(self, draw, count):
        fresh, rows = [self.prompt(draw) for _ in range(count)], len(self.left)
        self.resize(max([self.at] + [length for length, _, _ in fresh]), more=count)
        for row, (length, last, made) in enumerate(fresh, rows):
            for pair, new in zip(self.cache, made):
                for part, values in zip(pair, new):
                    part[row, :, self.at - length:self.at] = values[0]
            self.last = torch.cat((self.last, last))
            self.length.append(length)
            self.left.append(draw.randint(8, LONGEST_ANSWER))

    def attend(self, layer, q, k, v):
        for part, values in zip(self.cache[layer], (k, v)):
            part[:, :, self.at:self.at + 1] = values
        keys, values = (part[:, :, :self.at + 1] for part in self.cache[layer])
        return F.scaled_dot_product_attention(q, keys, values)

    def step(self, number):
        draw = random.Random(number)
        with torch.no_grad():
            self.leave()
            missing = REQUESTS - draw.randrange(8) - len(self.left)
            if missing > 0:
                self.come(draw, missing)
            if self.at == self.cache[0][0].shape[2]:
                self.resize(self.at)
            self.last = self.run(self.last, self.at, self.attend)
            self.sum = (self.sum * 31 + self.last.sum()) % 1000003
        self.at += 1
        self.length = [length + 1 for length in self.length]
        self.left = [left - 1 for left in self.left]
        return self.sum

    @staticmethod
    def checksum(value):
        return int(value)


# --- ResNet50

class Resnet:
    BATCH = 96

    def __init__(self, library):
        nn = torch.nn

        def normed(inside, outside, size, stride):
            return [nn.Conv2d(inside, outside, size, stride, size // 2, bias=False), nn.BatchNorm2d(outside)]

        class Bottleneck(nn.Module):
            def __init__(self, inside, width, stride):
                super().__init__()
                self.main = nn.Sequential(*normed(inside, width, 1, 1), nn.ReLU(True), *normed(width, width, 3, stride),
                                          nn.ReLU(True), *normed(width, 4 * width, 1, 1))
                self.short = nn.Identity()
                if stride != 1 or inside != 4 * width:
                    self.short = nn.Sequential(*normed(inside, 4 * width, 1, stride))

            def forward(self, x):
                return F.relu(self.main(x) + self.short(x), inplace=True)
        layers, inside = [*normed(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
        for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for nth in range(count):
                layers.append(Bottleneck(inside, width, 2 if nth == 0 and width > 64 else 1))
                inside = 4 * width
        self.model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000)).cuda()
        self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, number):
        generator = torch.Generator("cuda").manual_seed(number)
        images = torch.randn((self.BATCH, 3, 224, 224), device="cuda", generator=generator)
        labels = torch.randint(0, 1000, (self.BATCH,), device="cuda", generator=generator)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.model(images.to(memory_format=torch.channels_last))
        loss = F.cross_entropy(scores.float(), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    checksum = staticmethod(Train.checksum)


# --- a graph network: each step has another random graph

class Gcn:
    NODES, EDGES, FEATURES = (50_000, 150_000), (500_000, 2_000_000), 128

    def __init__(self, library):
        self.layers = torch.nn.ModuleList(torch.nn.Linear(self.FEATURES, self.FEATURES) for _ in range(3)).cuda()
        self.optimizer = torch.optim.AdamW(self.layers.parameters(), lr=1e-3)

    def step(self, number):
        draw, generator = random.Random(number), torch.Generator("cuda").manual_seed(number)
        nodes, edges = draw.randint(*self.NODES), draw.randint(*self.EDGES)
        x = torch.randn((nodes, self.FEATURES), device="cuda", generator=generator)
        source, target = torch.randint(0, nodes, (2, edges), device="cuda", generator=generator)
        degree = torch.ones(nodes, device="cuda").index_add_(0, target, torch.ones(edges, device="cuda")).rsqrt()
        weight = (degree[source] * degree[target]).unsqueeze(1)
        for layer in self.layers:
            y = layer(x)
            x = F.relu(torch.zeros_like(y).index_add(0, target, y[source] * weight) + y)
        loss = x.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    checksum = staticmethod(Train.checksum)


# --- tensors of random sizes, allocated and freed at random

class Churn:
    OPERATIONS, LIVE, LARGEST = 1000, 6 << 30, 256 << 20

    def __init__(self, library):
        self.kept, self.bytes = [], 0

    def step(self, number):
        """A step has 1000 operations, so its milliseconds are microseconds of an operation."""
        draw = random.Random(number)
        for turn in range(self.OPERATIONS):
            while self.kept and (self.bytes > self.LIVE or draw.random() < 0.4):
                self.bytes -= self.kept.pop(draw.randrange(len(self.kept))).numel()
            size = int(2 ** draw.uniform(10, 28))
            self.kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            self.kept[-1][:4096].fill_(turn & 255)
            self.bytes += size
        return sum(int(part[0]) for part in self.kept[::16])

    @staticmethod
    def checksum(value):
        return value


# --- CuPy: expressions whose temporaries have different sizes in each step

class Arrays:
    SIZES = (1 << 18, 1 << 24)

    def __init__(self, library):
        self.kept = []

    def step(self, number):
        draw = random.Random(number)
        x = cupy.arange(draw.randint(*self.SIZES), dtype=cupy.float32)
        for _ in range(4):
            x = cupy.sqrt(x * x + 1) - x / (x + 2)
            x = cupy.concatenate((x[1:], x[:1]))
        self.kept = self.kept[-7:] + [x]
        return number

    @staticmethod
    def checksum(value):
        return value


# --- JAX: a training with sequences of four lengths, each of which is compiled once

class Decoder:
    LAYERS, WIDTH, HEADS, WORDS = 4, 1024, 8, 8192
    LENGTHS, TOKENS, RATE = (128, 256, 512, 1024), 8192, 1e-3

    def __init__(self, library):
        sizes = {"words": (self.WORDS, self.WIDTH)}
        for layer in range(self.LAYERS):
            sizes.update({"qkv%d" % layer: (self.WIDTH, 3 * self.WIDTH), "out%d" % layer: (self.WIDTH, self.WIDTH),
                          "up%d" % layer: (self.WIDTH, 4 * self.WIDTH), "down%d" % layer: (4 * self.WIDTH, self.WIDTH)})
        keys = jax.random.split(jax.random.key(1), len(sizes))
        weights = {name: jax.random.normal(key, size, jnp.bfloat16) * 0.02 for key, (name, size) in zip(keys, sizes.items())}
        self.state = weights, jax.tree.map(jnp.zeros_like, weights)
        self.learn = jax.jit(self.learn, donate_argnums=0)

    @staticmethod
    def norm(x):
        return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5)

    def loss(self, weights, words):
        x = weights["words"][words[:, :-1]]
        rows, length, _ = x.shape
        later = jnp.tril(jnp.ones((length, length), bool))
        for layer in range(self.LAYERS):
            q, k, v = jnp.split((self.norm(x) @ weights["qkv%d" % layer]).reshape(rows, length, self.HEADS, -1), 3, -1)
            scores = jnp.where(later, jnp.einsum("rqhw,rkhw->rhqk", q, k) / q.shape[-1] ** 0.5, -1e4)
            heads = jnp.einsum("rhqk,rkhw->rqhw", jax.nn.softmax(scores.astype(jnp.float32)).astype(x.dtype), v)
            x = x + heads.reshape(x.shape) @ weights["out%d" % layer]
            x = x + jax.nn.gelu(self.norm(x) @ weights["up%d" % layer]) @ weights["down%d" % layer]
        scores = jax.nn.log_softmax((self.norm(x) @ weights["words"].T).astype(jnp.float32))
        return -jnp.take_along_axis(scores, words[:, 1:, None], 2).mean()

    def learn(self, state, words):
        weights, momentum = state
        loss, gradient = jax.value_and_grad(self.loss)(weights, words)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return (jax.tree.map(lambda w, m: w - self.RATE * m, weights, momentum), momentum), loss

    def step(self, number):
        length = random.Random(number).choice(self.LENGTHS)
        words = jax.random.randint(jax.random.key(number), (self.TOKENS // length, length + 1), 0, self.WORDS)
        self.state, loss = self.learn(self.state, words)
        return loss

    checksum = staticmethod(Train.checksum)


PROGRAMS = {"train": Train, "varied": Varied, "serve": Serve, "set": Set, "resnet": Resnet, "gcn": Gcn, "churn": Churn,
            "cupy": Arrays, "jax": Decoder}


def library_of(program):
    return {"cupy": Cupy, "jax": Jax}.get(program, Torch)()
