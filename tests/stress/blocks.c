/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress.h"

#include <string.h>

#define WINDOW (4 * KIB)

static struct slot slots[SLOTS];

void stress_blocks_open(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		pthread_mutex_init(&slots[i].lock, NULL);
}

/* --- content --- */

/* Each byte depends on its place and on the tag, so that bytes of other blocks or places differ. */
static unsigned char byte_at(uint64_t tag, size_t at)
{
	uint64_t x = (tag + at / 8) * 0x9E3779B97F4A7C15u;
	return (unsigned char)(x >> (8 * (at % 8)));
}

/* The windows of a block that are written and read; false: no more. */
static bool window_next(size_t size, unsigned i, size_t *from, size_t *n)
{
	*n = size < WINDOW ? size : WINDOW;
	*from = i == 0 ? 0 : i == 1 ? size / 2 : size - *n;
	if (i == 1 && *from + *n > size)
		*n = size - *from;
	return i < 3;
}

bool stress_fill(const struct worker *w, CUdeviceptr base, size_t size, uint64_t tag)
{
	unsigned char bytes[WINDOW];
	size_t from, n;
	for (unsigned i = 0; window_next(size, i, &from, &n); i++) {
		for (size_t k = 0; k < n; k++)
			bytes[k] = byte_at(tag, from + k);
		if (!TRY(w, cuMemcpyHtoD(base + from, bytes, n)))
			return false;
	}
	return true;
}

void stress_check(const struct worker *w, CUdeviceptr base, size_t size, uint64_t tag)
{
	unsigned char bytes[WINDOW];
	size_t from, n;
	for (unsigned i = 0; window_next(size, i, &from, &n); i++) {
		if (!TRY(w, cuMemcpyDtoH(bytes, base + from, n)))
			continue;
		for (size_t k = 0; k < n; k++)
			if (bytes[k] != byte_at(tag, from + k)) {
				stress_fault(w, "byte %zu of a block of %zu is 0x%02x, not 0x%02x",
					     from + k, size, bytes[k], byte_at(tag, from + k));
				return;
			}
	}
}

/* Six in ten are slots, one in ten is large. */
size_t stress_size(struct worker *w)
{
	uint64_t kind = stress_random(w, 10);
	if (kind < 6)
		return 1 + stress_random(w, 64 * KIB);
	if (kind < 9)
		return 64 * KIB + 1 + stress_random(w, 2 * MIB);
	return 2 * MIB + 1 + stress_random(w, 20 * MIB);
}

void stress_free(const struct worker *w, CUdeviceptr base)
{
	for (unsigned tries = 0; !TRY(w, cuMemFree(base)); tries++)
		if (tries == 100) {
			stress_fault(w, "a block cannot be freed for lack of memory");
			return;
		}
}

/* --- slots --- */

struct slot *stress_slot(struct worker *w, bool used)
{
	unsigned at = (unsigned)stress_random(w, SLOTS);
	for (unsigned i = 0; i < 16; i++) {
		struct slot *slot = &slots[(at + i) % SLOTS];
		if (pthread_mutex_trylock(&slot->lock) != 0)
			continue;
		if ((slot->base != 0) == used) {
			if (!used)
				slot->device = (unsigned)stress_random(w, DEVICES);
			stress_use(w, slot->device);
			return slot;
		}
		pthread_mutex_unlock(&slot->lock);
	}
	return NULL;
}

void stress_slot_leave(struct slot *slot)
{
	pthread_mutex_unlock(&slot->lock);
}

void stress_forget(unsigned device)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].device == device)
			slots[i].base = 0;
}

uint64_t stress_requested(unsigned device)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].base && slots[i].device == device)
			bytes += slots[i].size;
	return bytes;
}

/* --- operations --- */

void stress_allocate(struct worker *w)
{
	struct slot *slot = stress_slot(w, false);
	if (!slot)
		return;
	size_t pitch, size = stress_size(w);
	bool pitched = size > 2 * KIB && stress_random(w, 16) == 0;
	if (pitched ? TRY(w, cuMemAllocPitch(&slot->base, &pitch, size / 16, 16, 4))
		    : TRY(w, cuMemAlloc(&slot->base, size))) {
		slot->size = pitched ? pitch * 16 : size;
		slot->tag = stress_random(w, UINT64_MAX);
		stress_fill(w, slot->base, slot->size, slot->tag);
	} else {
		slot->base = 0;
	}
	stress_slot_leave(slot);
}

void stress_release(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	if (!slot)
		return;
	stress_check(w, slot->base, slot->size, slot->tag);
	stress_free(w, slot->base);
	slot->base = 0;
	stress_slot_leave(slot);
}

void stress_rewrite(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	if (!slot)
		return;
	stress_check(w, slot->base, slot->size, slot->tag);
	TRY(w, cuMemsetD8(slot->base, 0xa5, slot->size));
	slot->tag = stress_random(w, UINT64_MAX);
	stress_fill(w, slot->base, slot->size, slot->tag);
	stress_slot_leave(slot);
}

/* Through a block of this thread's own. */
void stress_copy(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	CUdeviceptr copy;
	if (!slot)
		return;
	if (TRY(w, cuMemAlloc(&copy, slot->size))) {
		if (TRY(w, cuMemcpyDtoD(copy, slot->base, slot->size)))
			stress_check(w, copy, slot->size, slot->tag);
		stress_free(w, copy);
	}
	stress_slot_leave(slot);
}

/* Frees and copies that must be refused without effect. */
void stress_wrong(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	if (!slot)
		return;
	CUdeviceptr p = slot->base;
	char byte;
	if (slot->size > 1 && cuMemFree(p + 1) != CUDA_ERROR_INVALID_VALUE)
		stress_fault(w, "an address inside of a block was freed");
	if (cuMemcpyDtoH(&byte, p + slot->size, 0) == CUDA_SUCCESS &&
	    cuMemsetD8(p + slot->size - 1, 0, 2) == CUDA_SUCCESS)
		stress_fault(w, "a byte beyond a block of %zu was written", slot->size);
	stress_check(w, p, slot->size, slot->tag);
	stress_slot_leave(slot);
}
