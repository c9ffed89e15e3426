/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which line of the forward pass a tensor of the backward pass belongs to. Autograd's threads run
 * no Python. Each operator of the forward pass makes a node for its backward, with the next number
 * of its thread (at::sequence_number::get_and_increment, which the preload defines, too):
 *
 *     forward:   node made -> number n of thread t -> stack of Python, kept in row (t, n)
 *     backward:  tensor made -> node under way (torch::autograd::get_current_node) -> its t and n
 *                -> stack of row (t, n)
 *
 * The table has 65,536 rows; a newer node replaces an older one. The node's members are where
 * PyTorch 2.11 has them. In a release with another Node no row is found, for both numbers must be
 * equal.
 */
#ifndef GM_SHIM_TORCH_SEQUENCE_H
#define GM_SHIM_TORCH_SEQUENCE_H

#include <stdint.h>

/* The stack of the operator whose backward the calling thread runs; 0: none, or unknown. `caller`:
 * an address in PyTorch. Any thread; takes no lock. */
uint32_t gm_sequence_stack(const void *caller);

/* In a forked child: the numbers of stacks are the parent's. */
void gm_sequence_forget(void);

#endif
