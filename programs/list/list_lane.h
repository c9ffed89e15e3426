/* SPDX-License-Identifier: BSD-3-Clause */
/* What an item does, on the GPU, and on the CPU for the simulated driver. */
#ifndef LIST_LANE_H
#define LIST_LANE_H

#include "programs/common/lane.h"
#include "programs/list/list.h"

/* --- memory --- */

PR_LANE bool way_is_malloc(enum list_way way)
{
	return way == LIST_MALLOC || way == LIST_ITEM || way == LIST_GROUP;
}

PR_LANE bool way_is_list(enum list_way way)
{
	return way == LIST_ITEM || way == LIST_GROUP || way == LIST_GROUP_BUMP;
}

PR_LANE void *list_take(struct list_work *w, enum list_way way, uint32_t bytes)
{
	void *at = 0;
	if (way_is_malloc(way)) {
		at = malloc(bytes);
	} else {
		list_word from = pr_add(&w->used, bytes);
		at = from + bytes <= w->space_bytes ? w->space + from : 0;
	}
	if (!at)
		pr_add(&w->lacking, 1);
	return at;
}

/* `bytes`: as they were taken. */
PR_LANE void list_give(struct list_work *w, enum list_way way, void *at, uint32_t bytes)
{
	pr_add(&w->allocated, 1);
	pr_add(&w->bytes, bytes);
	if (way_is_malloc(way))
		free(at);
}

/* --- the list --- */

PR_LANE uint32_t *block_objects(struct list_block *block)
{
	return (uint32_t *)(block + 1);
}

PR_LANE uint32_t block_bytes(uint32_t count)
{
	return (uint32_t)sizeof(struct list_block) + (count + 1) / 2 * 8;
}

/* One block more, of so many objects; NULL: there is no memory. */
PR_LANE uint32_t *list_grow(struct list_work *w, enum list_way way, uint32_t count)
{
	struct list_block *block = (struct list_block *)list_take(w, way, block_bytes(count));
	if (!block)
		return 0;
	block->first = pr_add32(&w->list.count, count);
	block->count = count;
	list_word head = pr_load(&w->list.head), was;
	for (;; head = was) {
		block->next = head;
		pr_fence();
		was = pr_cas(&w->list.head, head, (list_word)(uintptr_t)block);
		if (was == head)
			return block_objects(block);
	}
}

/*
 * The same for all items of a group at once, each of which gets the place of its first object: sums
 * of bytes go up a tree, its root becomes the address of one block, and addresses go down. All
 * items of the group have to come here.
 */
PR_LANE uint32_t *list_grow_group(struct list_work *w, enum list_way way, uint32_t count,
				  struct list_shared *s, uint32_t item, uint32_t items)
{
	uint32_t leaves = 1;
	while (leaves < items)
		leaves *= 2;
	s->sum[item] = count * sizeof(uint32_t);
	if (item + items < leaves)
		s->sum[item + items] = 0;
	for (uint32_t d = 1; d < leaves; d *= 2) {
		uint32_t k = (item + 1) * 2 * d - 1;
		pr_barrier();
		if (k < leaves)
			s->sum[k] += s->sum[k - d];
	}
	pr_barrier();
	if (item == 0) {
		uint32_t total = (uint32_t)(s->sum[leaves - 1] / sizeof(uint32_t));
		uint32_t *at = total ? list_grow(w, way, total) : 0;
		s->sum[leaves - 1] = (list_word)(uintptr_t)at;
		s->lacking = !at;
	}
	for (uint32_t d = leaves / 2; d; d /= 2) {
		uint32_t k = (item + 1) * 2 * d - 1;
		pr_barrier();
		if (k < leaves) {
			list_word below = s->sum[k - d];
			s->sum[k - d] = s->sum[k];
			s->sum[k] += below;
		}
	}
	pr_barrier();
	uint32_t *at = s->lacking ? 0 : (uint32_t *)(uintptr_t)s->sum[item];
	pr_barrier();
	return at;
}

/* The object at that position; NULL: there are not so many. Walks the list. */
PR_LANE const uint32_t *list_get(const struct list_work *w, uint32_t position)
{
	list_word at = w->list.head;
	while (at) {
		struct list_block *block = (struct list_block *)(uintptr_t)at;
		if (position - block->first < block->count)
			return block_objects(block) + (position - block->first);
		at = block->next;
	}
	return 0;
}

/* --- kernels --- */

/* Items from w->items on ask for nothing: they are there for their group's sake. */
PR_LANE void lane_grow(struct list_work *w, enum list_way way, struct list_shared *s, uint32_t i,
		       uint32_t group)
{
	for (uint32_t round = 0; round < w->rounds; round++) {
		uint32_t count = i < w->items ? list_request(i, round, w->most) : 0, *at = 0;
		list_word request = (list_word)round * w->items + i;
		if (way == LIST_GROUP || way == LIST_GROUP_BUMP)
			at = list_grow_group(w, way, count, s, i % group, group);
		else if (!count)
			return;
		else if (way == LIST_ITEM)
			at = list_grow(w, way, count);
		else if (way == LIST_FIXED)
			at = (uint32_t *)w->space + request * w->most;
		else
			at = (uint32_t *)list_take(w, way, count * (uint32_t)sizeof *at);
		for (uint32_t k = 0; at && k < count; k++)
			at[k] = list_value(i, round, k);
		if (count && !way_is_list(way))
			w->kept[request] = (list_word)(uintptr_t)at;
	}
}

PR_LANE void lane_read(struct list_work *w, enum list_way way, uint32_t stride, uint32_t i)
{
	const uint32_t *at = way_is_list(way)
				     ? list_get(w, i * stride)
				     : (const uint32_t *)(uintptr_t)w->kept[(list_word)i * stride];
	if (!at)
		return;
	pr_add(&w->read_found, 1);
	pr_add(&w->read_checksum, list_digest(*at));
}

/* What one item has found. */
struct list_sum {
	list_word found, checksum, some_found, some_checksum;
};

PR_LANE void sum_object(struct list_sum *sum, uint32_t value, bool is_some)
{
	sum->found++;
	sum->checksum += list_digest(value);
	sum->some_found += is_some;
	sum->some_checksum += is_some ? list_digest(value) : 0;
}

PR_LANE void sum_end(struct list_work *w, const struct list_sum *sum)
{
	pr_add(&w->found, sum->found);
	pr_add(&w->checksum, sum->checksum);
	pr_add(&w->some_found, sum->some_found);
	pr_add(&w->some_checksum, sum->some_checksum);
}

/* One group walks the list. */
PR_LANE void lane_clear_list(struct list_work *w, enum list_way way, uint32_t stride, uint32_t i,
			     uint32_t items)
{
	struct list_sum sum = {0, 0, 0, 0};
	for (list_word at = w->list.head, next; at; at = next) {
		struct list_block *block = (struct list_block *)(uintptr_t)at;
		next = block->next;
		for (uint32_t k = i; k < block->count; k += items)
			sum_object(&sum, block_objects(block)[k], (block->first + k) % stride == 0);
		pr_barrier();
		if (i == 0)
			list_give(w, way, block, block_bytes(block->count));
	}
	sum_end(w, &sum);
}

PR_LANE void lane_clear(struct list_work *w, enum list_way way, uint32_t stride, uint32_t i)
{
	struct list_sum sum = {0, 0, 0, 0};
	for (uint32_t round = 0; round < w->rounds; round++) {
		list_word request = (list_word)round * w->items + i;
		uint32_t *at = (uint32_t *)(uintptr_t)w->kept[request];
		uint32_t count = list_request(i, round, w->most);
		for (uint32_t k = 0; at && k < count; k++)
			sum_object(&sum, at[k], !k && request % stride == 0);
		if (at && way != LIST_FIXED)
			list_give(w, way, at, count * (uint32_t)sizeof *at);
	}
	sum_end(w, &sum);
}

#endif
