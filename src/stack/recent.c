/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/recent.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/thread.h"

enum { SHARDS = 16, NODES = 1 << 15, SLOTS = 2 * NODES, BITS = 16 };
_Static_assert(SLOTS == 1 << BITS, "a slot has so many bits");

/* These are no frames. ROOT_PYTHON: the root of stacks below Python; ROOT: of other stacks. */
enum { ROOT, ROOT_PYTHON, ROOTS };

/* A frame of the stacks with the inner frames `parent` and its parents. */
struct node {
	struct gm_unwound_return is;
	uint64_t serial;
	struct gm_frame frame;
	uint32_t parent;
	uint32_t child; /* the most recent next node; 0: none */
	/* From is.place: to the place of the next return address, 0 if this is the last; to the
	 * link of that place, 0 if it has none; and from is.place to the value there. */
	int32_t next, link, value;
	bool counts; /* false: no frame of the result; it only ends the walk */
	bool cut;
};
_Static_assert(sizeof(struct node) == 64, "a cache line");

struct shard {
	_Alignas(64) atomic_uint taken; /* by a reading or writing thread; others do without */
	uint32_t n;
	uint64_t generation; /* of the nodes; 0: no nodes */
	uintptr_t end;	     /* of ROOT_PYTHON; 0: unknown */
	uint64_t serials;    /* total of serials given */
	struct node *nodes;  /* NODES of them */
	uint32_t *slots;     /* SLOTS of them: nodes by parent and return address, 0: free */
};
static struct shard shards[SHARDS];
static bool opened;

void gm_recent_open(void)
{
#if defined(__x86_64__)
	opened = true;
#endif
}

static void shard_clear(struct shard *shard, const struct gm_recent_key *key)
{
	memset(shard->slots, 0, SLOTS * sizeof *shard->slots);
	memset(shard->nodes, 0, ROOTS * sizeof *shard->nodes);
	shard->n = ROOTS;
	shard->generation = key->generation;
	shard->end = key->end;
}

/* Prepare a taken shard for the key. False: no host memory. */
static bool shard_ready(struct shard *shard, const struct gm_recent_key *key)
{
	if (!shard->nodes)
		shard->nodes = aligned_alloc(64, NODES * sizeof *shard->nodes);
	if (!shard->slots)
		shard->slots = malloc(SLOTS * sizeof *shard->slots);
	if (!shard->nodes || !shard->slots)
		return false;
	if (!shard->end && shard->generation == key->generation)
		shard->end = key->end;
	if (shard->generation != key->generation || (key->end && key->end != shard->end))
		shard_clear(shard, key);
	return true;
}

static void shard_give(struct shard *shard)
{
	atomic_store_explicit(&shard->taken, 0, memory_order_release);
}

/* Take the calling thread's shard; NULL: another thread has it, or there is none. */
static struct shard *shard_take(const struct gm_recent_key *key)
{
	struct shard *shard = &shards[gm_thread_index() % SHARDS];
	if (!opened || !key->from.address ||
	    atomic_exchange_explicit(&shard->taken, 1, memory_order_acquire))
		return NULL;
	if (shard_ready(shard, key))
		return shard;
	shard_give(shard);
	return NULL;
}

static uint32_t root_of(const struct gm_recent_key *key)
{
	return key->end ? ROOT_PYTHON : ROOT;
}

static bool node_is(const struct node *node, uint32_t parent, struct gm_unwound_return is)
{
	return node->parent == parent && node->is.place == is.place &&
	       node->is.address == is.address;
}

/* The slot of a node, or the free slot for it. */
static uint32_t *slot_find(const struct shard *shard, uint32_t parent, struct gm_unwound_return is)
{
	uint64_t mixed = (is.address ^ is.place << 16 ^ (uint64_t)parent << 40) + parent;
	mixed *= 0x9e3779b97f4a7c15u;
	uint32_t i = (uint32_t)(mixed >> (64 - BITS));
	while (shard->slots[i] && !node_is(&shard->nodes[shard->slots[i]], parent, is))
		i = (i + 1) % SLOTS;
	return &shard->slots[i];
}

/* The next node; 0: unknown. */
static uint32_t child_find(struct shard *shard, uint32_t parent, struct gm_unwound_return is)
{
	uint32_t child = shard->nodes[parent].child;
	if (GM_LIKELY(child && node_is(&shard->nodes[child], parent, is)))
		return child;
	child = *slot_find(shard, parent, is);
	if (child)
		shard->nodes[parent].child = child;
	return child;
}

/* Read a place of the calling thread's stack. */
static __attribute__((no_sanitize("address", "thread", "undefined"))) struct gm_unwound_return
return_at(uintptr_t place)
{
	return (struct gm_unwound_return){place, *(const volatile uintptr_t *)place};
}

/* Does the next place depend on the return address alone, or is the frame register's value, by
 * which it was found, still the same? Frames of one function may have different lengths (alloca). A
 * link below `live` is in no frame. */
static bool next_stands(const struct node *node, uintptr_t live)
{
	const uintptr_t link = node->is.place + (uintptr_t)(intptr_t)node->link;
	return !node->link ||
	       (link >= live &&
		return_at(link).address == node->is.place + (uintptr_t)(intptr_t)node->value);
}

/* Compare each return address, from the innermost frame on. If one is the same, and next_stands,
 * the place of the next is on the stack, too. */
static bool frames_find(struct shard *shard, const struct gm_recent_key *key,
			struct gm_frame *frames, uint32_t *n, bool *cut, uint64_t *serial)
{
	const uintptr_t live = (uintptr_t)__builtin_frame_address(0);
	uintptr_t place = key->from.frame - sizeof place;
	uint32_t parent = root_of(key);
	const struct node *node;
	*n = 0;
	for (;;) {
		parent = child_find(shard, parent, return_at(place));
		if (!parent)
			return false;
		node = &shard->nodes[parent];
		if (node->counts)
			frames[(*n)++] = node->frame;
		if (!node->next)
			break;
		if (!next_stands(node, live))
			return false;
		place = node->is.place + (uintptr_t)(intptr_t)node->next;
	}
	*cut = node->cut;
	*serial = node->serial;
	return true;
}

bool gm_recent_find(const struct gm_recent_key *key, struct gm_frame *frames, uint32_t *n,
		    bool *cut, uint64_t *serial)
{
	struct shard *shard = shard_take(key);
	if (!shard)
		return false;
	const bool found = frames_find(shard, key, frames, n, cut, serial);
	shard_give(shard);
	return found;
}

/* Has the unwinder found the handler's caller as in `key`, and each place in a way that can be
 * checked? Are all return addresses in place? A signal frame's is not. */
static bool returns_stand(const struct gm_recent_key *key, const struct gm_unwound *unwound)
{
	const struct gm_unwound_return *first = &unwound->returns[0];
	if (!unwound->certain || first->address != key->from.address ||
	    first->place != key->from.frame - sizeof first->place)
		return false;
	for (uint32_t i = 0; i < unwound->n_returns; i++)
		if (!unwound->returns[i].place || (i && unwound->links[i].loose) ||
		    return_at(unwound->returns[i].place).address != unwound->returns[i].address)
			return false;
	return true;
}

static uint32_t child_add(struct shard *shard, uint32_t parent, struct gm_unwound_return is)
{
	uint32_t *slot = slot_find(shard, parent, is);
	if (!*slot) {
		shard->nodes[shard->n] = (struct node){.is = is, .parent = parent};
		*slot = shard->n++;
	}
	shard->nodes[parent].child = *slot;
	return *slot;
}

/* The distances from a return address to the next. False: one of them is too long. */
static bool node_set_next(struct node *node, const struct gm_unwound *unwound, uint32_t i)
{
	const uintptr_t from = node->is.place;
	const struct gm_unwound_link *link = &unwound->links[i];
	node->next = node->link = node->value = 0;
	if (i == unwound->n_returns)
		return true;
	node->next = (int32_t)(unwound->returns[i].place - from);
	node->link = link->place ? (int32_t)(link->place - from) : 0;
	node->value = link->place ? (int32_t)(link->value - from) : 0;
	return from + (uintptr_t)(intptr_t)node->next == unwound->returns[i].place &&
	       (!link->place ||
		(node->link && from + (uintptr_t)(intptr_t)node->link == link->place &&
		 from + (uintptr_t)(intptr_t)node->value == link->value));
}

void gm_recent_keep(const struct gm_recent_key *key, const struct gm_unwound *unwound,
		    const struct gm_frame *frames)
{
	struct shard *shard = unwound->n && returns_stand(key, unwound) ? shard_take(key) : NULL;
	uint32_t parent = root_of(key);
	if (!shard)
		return;
	if (shard->n + unwound->n_returns > NODES)
		shard_clear(shard, key);
	for (uint32_t i = 0; i < unwound->n_returns; i++) {
		parent = child_add(shard, parent, unwound->returns[i]);
		struct node *node = &shard->nodes[parent];
		/* If the frame's length differs from before, the old next node is not found
		 * again. */
		if (!node_set_next(node, unwound, i + 1)) {
			shard_clear(shard, key);
			break;
		}
		node->counts = i < unwound->n;
		node->frame = node->counts ? frames[i] : (struct gm_frame){0};
		node->cut = unwound->cut;
		node->serial = ++shard->serials * SHARDS + (uint64_t)(shard - shards);
	}
	shard_give(shard);
}

void gm_recent_forget(void)
{
	for (unsigned i = 0; i < SHARDS; i++) {
		shards[i].generation = 0;
		atomic_store_explicit(&shards[i].taken, 0, memory_order_relaxed);
	}
}
