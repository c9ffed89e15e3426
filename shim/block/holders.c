/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/holders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "log/log.h"
#include "pool/pool.h"
#include "shim/foreign/foreign.h"
#include "stack/held.h"
#include "stack/name.h"
#include "stack/stack.h"
#include "stack/table.h"

enum { LEAST = 256, NAMED = 3, NAME_MOST = 48, WRITTEN = 64 };

/* --- groups --- */

/* An open hash table in `of` until it is sorted; blocks 0: a free place. At most three quarters of
 * its places are in use. */
struct search {
	struct gm_holders *out;
	unsigned device;
	size_t n;
};

static struct gm_holder *place_of(const struct gm_holders *in, uint32_t stack, uint64_t size)
{
	const uint64_t key = stack ? (uint64_t)stack << 40 : size;
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 24) & (in->of.room - 1);
	for (;; i = (i + 1) & (in->of.room - 1)) {
		struct gm_holder *h = &in->of.at[i];
		if (!h->blocks || (h->stack == stack && (stack || h->largest == size)))
			return h;
	}
}

static bool search_grow(struct search *s)
{
	struct gm_holders *out = s->out, more = {.rest = out->rest};
	more.of.room = out->of.room ? 2 * out->of.room : LEAST;
	more.of.at = calloc(more.of.room, sizeof *more.of.at);
	if (!more.of.at)
		return false;
	for (size_t i = 0; i < out->of.room; i++)
		if (out->of.at[i].blocks)
			*place_of(&more, out->of.at[i].stack, out->of.at[i].largest) =
				out->of.at[i];
	free(out->of.at);
	*out = more;
	return true;
}

static void holder_add(struct gm_holder *h, uint64_t blocks, uint64_t bytes, uint64_t largest)
{
	h->blocks += blocks;
	h->bytes += bytes;
	if (largest > h->largest)
		h->largest = largest;
}

static void block_add(struct search *s, uint64_t id, uint64_t size)
{
	const uint32_t stack = gm_held_may(size) ? gm_held_stack(id) : 0;
	struct gm_holder *h = &s->out->rest;
	if (s->n < s->out->of.room / 4 * 3 || search_grow(s)) {
		h = place_of(s->out, stack, size);
		s->n += !h->blocks;
		h->stack = stack;
	}
	holder_add(h, 1, size, size);
}

static void pool_block_add(void *arg, const struct gm_block *b)
{
	block_add(arg, b->id, b->size);
}

static void driver_block_add(void *arg, const struct gm_foreign *f)
{
	struct search *s = arg;
	if (f->ordinal == s->device)
		block_add(s, f->id, f->size);
}

static int holder_compare(const void *a, const void *b)
{
	const struct gm_holder *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack > y->stack ? -1 : 1;
	return (x->largest < y->largest) - (x->largest > y->largest);
}

void gm_holders_find(unsigned device, const struct gm_pool *pool, struct gm_holders *out)
{
	struct search s = {.out = out, .device = device};
	*out = (struct gm_holders){0};
	gm_pool_walk(pool, pool_block_add, &s);
	gm_foreign_each(GM_FOREIGN_DRIVER, driver_block_add, &s);
	for (size_t i = 0; i < out->of.room; i++)
		if (out->of.at[i].blocks)
			out->of.at[out->of.n++] = out->of.at[i];
	if (out->of.n)
		qsort(out->of.at, out->of.n, sizeof *out->of.at, holder_compare);
}

void gm_holders_free(struct gm_holders *holders)
{
	gm_array_free(&holders->of);
}

/* --- the log --- */

static void held_put(const struct gm_holder *h, unsigned device, unsigned failure, unsigned flags)
{
	const struct gm_record record = {.address = h->blocks,
					 .size = h->bytes,
					 .held = h->largest,
					 .id = failure,
					 .stack = h->stack,
					 .flags = (uint16_t)flags,
					 .device = (uint8_t)device,
					 .kind = GM_RECORD_HELD};
	gm_table_write(h->stack);
	gm_log_put(&record);
}

void gm_holders_write(const struct gm_holders *holders, unsigned device, unsigned failure)
{
	struct gm_holder rest = holders->rest;
	if (!gm_log_wants(GM_RECORD_HELD))
		return;
	for (size_t i = 0; i < holders->of.n; i++) {
		const struct gm_holder *h = &holders->of.at[i];
		if (i < WRITTEN)
			held_put(h, device, failure, 0);
		else
			holder_add(&rest, h->blocks, h->bytes, h->largest);
	}
	if (rest.blocks)
		held_put(&rest, device, failure, GM_RECORD_REST);
}

/* --- text --- */

/* "20.0 MiB in 2 blocks by train (train.py:7)", "64.0 MiB in 4 blocks of 16.0 MiB" */
static int holder_text(const struct gm_holder *h, char *to, size_t n)
{
	char bytes[32], name[NAME_MOST];
	gm_size_format(h->bytes, bytes, sizeof bytes);
	const bool before = h->stack == GM_STACK_BEFORE;
	const char *how = before ? "from" : h->stack ? "by" : "of";
	if (before)
		snprintf(name, sizeof name, "before the recording");
	else if (h->stack)
		gm_stack_name(h->stack, name, sizeof name);
	else
		gm_size_format(h->largest, name, sizeof name);
	return snprintf(to, n, "%s in %llu block%s %s %s", bytes, (unsigned long long)h->blocks,
			h->blocks == 1 ? "" : "s", how, name);
}

char *gm_holders_text(const struct gm_holders *holders, char text[GM_HOLDERS_TEXT])
{
	size_t at = 0;
	*text = '\0';
	for (size_t i = 0; i < holders->of.n && i < NAMED; i++) {
		at += (size_t)snprintf(text + at, GM_HOLDERS_TEXT - at, "%s",
				       i ? ", " : "; largest live: ");
		at += (size_t)holder_text(&holders->of.at[i], text + at, GM_HOLDERS_TEXT - at);
	}
	return text;
}
