/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/groups.h"

#include <stdlib.h>

#include "tools/log/oom.h"
#include "tools/tool.h"

static uint64_t block_key(enum gm_group by, const struct gm_alive_block *b)
{
	return by == GM_GROUP_STACK ? b->stack : by == GM_GROUP_SIZE ? b->size : b->context;
}

static enum gm_group sorted_by; /* for qsort */

static int block_compare(const void *a, const void *b)
{
	const struct gm_alive_block *x = a, *y = b;
	uint64_t p = block_key(sorted_by, x), q = block_key(sorted_by, y);
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (p > q) - (p < q);
}

static int group_compare(const void *a, const void *b)
{
	const struct gm_groups_one *x = a, *y = b;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

static void group_push(struct gm_groups *groups, struct gm_groups_one group)
{
	if (gm_array_push(&groups->all, group))
		return;
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static void groups_sort(struct gm_groups *groups)
{
	if (groups->all.n)
		qsort(groups->all.at, groups->all.n, sizeof *groups->all.at, group_compare);
}

void gm_groups_make(struct gm_groups *groups, struct gm_alive *alive, enum gm_group by)
{
	const struct gm_alive_block *b = alive->blocks.at;
	size_t n = alive->blocks.n;
	*groups = (struct gm_groups){0};
	sorted_by = by;
	if (n)
		qsort(alive->blocks.at, n, sizeof *b, block_compare);
	for (size_t i = 0; i < n; i++) {
		uint64_t key = block_key(by, &b[i]);
		struct gm_groups_one fresh = {.key = key, .device = b[i].device};
		struct gm_groups_one *last =
			groups->all.n ? &groups->all.at[groups->all.n - 1] : NULL;
		if (!last || last->key != key || last->device != fresh.device) {
			group_push(groups, fresh);
			last = &groups->all.at[groups->all.n - 1];
		}
		last->bytes += b[i].size;
		last->blocks += b[i].n;
		if (b[i].n == 1 && b[i].size > last->largest)
			last->largest = b[i].size;
	}
	groups_sort(groups);
}

bool gm_groups_of_refusal(struct gm_groups *groups, struct gm_log_file *file,
			  struct gm_alive_moment *moments, enum gm_group *by)
{
	struct gm_oom oom;
	*groups = (struct gm_groups){0};
	gm_oom_read(file, &oom);
	*by = oom.stacks ? GM_GROUP_STACK : GM_GROUP_SIZE;
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		moments[d] = (struct gm_alive_moment){oom.failure[d], {0, oom.time[d]}, 0};
	for (size_t i = 0; i < oom.groups.n; i++) {
		const struct gm_oom_group *g = &oom.groups.at[i];
		const struct gm_groups_one group = {oom.stacks ? g->stack : g->largest, g->bytes,
						    g->blocks, g->largest, g->device};
		if (g->rest)
			groups->rest[g->device] = group;
		else
			group_push(groups, group);
	}
	groups_sort(groups);
	gm_oom_free(&oom);
	return groups->all.n > 0;
}

struct gm_groups_part gm_groups_part(const struct gm_groups *groups, unsigned device)
{
	const struct gm_groups_one *rest = &groups->rest[device];
	struct gm_groups_part part = {.bytes = rest->bytes, .blocks = rest->blocks};
	for (size_t i = 0; i < groups->all.n; i++) {
		const struct gm_groups_one *group = &groups->all.at[i];
		if (group->device != device)
			continue;
		part.at = part.n++ ? part.at : group;
		part.bytes += group->bytes;
		part.blocks += group->blocks;
	}
	return part;
}

void gm_groups_free(struct gm_groups *groups)
{
	gm_array_free(&groups->all);
}
