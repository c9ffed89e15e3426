# SPDX-License-Identifier: BSD-3-Clause
"""JAX, with the allocator of the environment: its results, as sums of bytes. Its arrays are not the pool's."""
import hashlib
import sys

try:
    import jax
    import jax.numpy as jnp
    import numpy
    assert jax.devices()[0].platform in ("gpu", "cuda")
except Exception as why:  # no JAX, or no device
    print(why)
    sys.exit(77)


def show(what, array):
    host = numpy.ascontiguousarray(numpy.asarray(array))
    print(what, host.dtype, host.shape, hashlib.sha256(host.tobytes()).hexdigest()[:16])


@jax.jit
def layer(w, x):
    return jnp.maximum(w @ x, 0).sum(axis=0)


def loss(w, x):
    return layer(w, x).sum()


step = jax.jit(lambda x: x + 1, donate_argnums=0)
for n in (8, 200, 1000):
    w = (jnp.arange(n * n, dtype=jnp.int32) * 40503 % 7 - 3).reshape(n, n).astype(jnp.float32)
    x = (jnp.arange(n * n, dtype=jnp.int32) * 2657 % 5 - 2).reshape(n, n).astype(jnp.float32)
    show("layer", layer(w, x))
    show("gradient", jax.grad(loss)(w, x))
    show("many", jax.vmap(layer, in_axes=(None, 0))(w, jnp.stack([x, -x, x + 1])))
    show("random", jax.random.randint(jax.random.key(n), (n, n), 0, 1000))
    show("normal", jax.random.normal(jax.random.key(n), (n, 16)))
    image = x[:8 * (n // 8)].reshape(1, 1, 8, -1)
    show("convolution", jax.lax.conv(image, jnp.ones((4, 1, 3, 3)), (1, 1), "SAME"))
    show("sort", jnp.sort(x.ravel() * 10007 % 113))
    show("scan", jnp.cumsum(x.ravel().astype(jnp.int32)))
    for _ in range(20):
        w = step(w.at[0].add(1))
    show("in place", w)
