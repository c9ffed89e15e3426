/* SPDX-License-Identifier: BSD-3-Clause */
#include "library/cut.h"

#include <stdlib.h>

unsigned gm_cut_bin(uint64_t size)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(size | GM_CUT_STEP);
	unsigned bin = (log - 9) * 8 + (unsigned)(size >> (log - 3) & 7);
	return bin < GM_CUT_BINS ? bin : GM_CUT_BINS - 1;
}

void gm_cuts_leave(struct gm_cuts *parts, struct gm_mark *mark)
{
	if (!mark || --mark->users)
		return;
	mark->next = parts->dead;
	parts->dead = mark;
}

struct gm_cut *gm_cuts_find(struct gm_cuts *parts, CUdeviceptr at)
{
	struct gm_cut *part;
	HASH_FIND(hh, parts->table, &at, sizeof at, part);
	return part;
}

static bool table_add(struct gm_cuts *parts, struct gm_cut *part)
{
	HASH_ADD(hh, parts->table, at, sizeof part->at, part);
	return !gm_hash_failed(part);
}

struct gm_cut *gm_cuts_first(struct gm_cuts *parts, const struct gm_root *root)
{
	return gm_cuts_find(parts, root->block.base);
}

struct gm_cut *gm_cuts_add(struct gm_cuts *parts, const struct gm_block *block,
			   struct gm_context *context)
{
	struct gm_root *root = calloc(1, sizeof *root);
	struct gm_cut *part = calloc(1, sizeof *part);
	if (root && part) {
		*root = (struct gm_root){.block = *block, .context = context, .parts = 1};
		part->root = root;
		part->at = block->base;
		part->size = block->size;
		part->held = block->held;
		if (table_add(parts, part))
			return part;
	}
	free(root);
	free(part);
	return NULL;
}

/* --- kept parts --- */

static void bin_link(struct gm_cuts *parts, struct gm_cut *part)
{
	struct gm_cut **bin = &parts->bin[gm_cut_bin(part->size)];
	part->prev = NULL;
	part->next = *bin;
	if (*bin)
		(*bin)->prev = part;
	*bin = part;
}

static void bin_unlink(struct gm_cuts *parts, struct gm_cut *part)
{
	*(part->prev ? &part->prev->next : &parts->bin[gm_cut_bin(part->size)]) = part->next;
	if (part->next)
		part->next->prev = part->prev;
}

void gm_cuts_keep(struct gm_cuts *parts, struct gm_cut *part)
{
	part->kept = true;
	part->root->kept++;
	part->newer = NULL;
	part->older = parts->newest;
	*(parts->newest ? &parts->newest->newer : &parts->oldest) = part;
	parts->newest = part;
	parts->bytes += part->held;
	parts->count++;
	bin_link(parts, part);
}

void gm_cuts_unkeep(struct gm_cuts *parts, struct gm_cut *part)
{
	bin_unlink(parts, part);
	*(part->newer ? &part->newer->older : &parts->newest) = part->older;
	*(part->older ? &part->older->newer : &parts->oldest) = part->newer;
	parts->bytes -= part->held;
	parts->count--;
	part->root->kept--;
	part->kept = false;
}

bool gm_cuts_split(struct gm_cuts *parts, struct gm_cut *part, uint64_t size)
{
	struct gm_cut *rest = calloc(1, sizeof *rest);
	if (!rest)
		return false;
	*rest = (struct gm_cut){
		.root = part->root,
		.at = part->at + size,
		.size = part->size - size,
		.held = part->held - size,
		.number = part->number,
		.mark = part->mark,
		.before = part,
		.behind = part->behind,
	};
	if (!table_add(parts, rest)) {
		free(rest);
		return false;
	}
	gm_cuts_unkeep(parts, part);
	if (rest->mark)
		rest->mark->users++;
	if (rest->behind)
		rest->behind->before = rest;
	part->behind = rest;
	part->size = part->held = size;
	part->root->parts++;
	gm_cuts_keep(parts, rest);
	return true;
}

static bool part_has_passed(const struct gm_cut *part)
{
	return part->mark && part->mark->passed;
}

/* Both are kept, and free for the same streams. */
static bool parts_fit(const struct gm_cut *a, const struct gm_cut *b)
{
	return b->kept && ((part_has_passed(a) && part_has_passed(b)) ||
			   (a->number && a->number == b->number));
}

/* Join a kept part with the kept part behind it. */
static void part_swallow(struct gm_cuts *parts, struct gm_cut *part, struct gm_cut *behind)
{
	bool passed = part_has_passed(part) && part_has_passed(behind);
	gm_cuts_unkeep(parts, behind);
	bin_unlink(parts, part);
	part->size += behind->size;
	part->held += behind->held;
	parts->bytes += behind->held;
	bin_link(parts, part);
	if (!passed && part->number != behind->number)
		part->number = 0;
	if (!passed && part->mark != behind->mark) {
		gm_cuts_leave(parts, part->mark); /* the next mark covers both */
		part->mark = NULL;
	}
	gm_cuts_leave(parts, behind->mark);
	part->behind = behind->behind;
	if (part->behind)
		part->behind->before = part;
	part->root->parts--;
	HASH_DEL(parts->table, behind);
	free(behind);
}

void gm_cuts_join(struct gm_cuts *parts, struct gm_cut *part)
{
	if (part->behind && parts_fit(part, part->behind))
		part_swallow(parts, part, part->behind);
	if (part->before && parts_fit(part, part->before))
		part_swallow(parts, part->before, part);
}

struct gm_cut *gm_cuts_unite(struct gm_cuts *parts, struct gm_root *root)
{
	struct gm_cut *first = gm_cuts_first(parts, root);
	while (first->behind)
		part_swallow(parts, first, first->behind);
	return first;
}

void gm_cuts_hide(struct gm_cuts *parts, struct gm_cut *part)
{
	gm_cuts_unkeep(parts, part);
	HASH_DEL(parts->table, part);
}

bool gm_cuts_show(struct gm_cuts *parts, struct gm_cut *part)
{
	if (!table_add(parts, part))
		return false;
	gm_cuts_keep(parts, part);
	return true;
}

void gm_cuts_end(struct gm_cuts *parts, struct gm_cut *part)
{
	gm_cuts_leave(parts, part->mark);
	free(part->root);
	free(part);
}

void gm_cuts_forget(struct gm_cuts *parts, struct gm_root *root)
{
	struct gm_cut *behind;
	for (struct gm_cut *part = gm_cuts_first(parts, root); part; part = behind) {
		behind = part->behind;
		if (part->kept)
			gm_cuts_unkeep(parts, part);
		gm_cuts_leave(parts, part->mark);
		HASH_DEL(parts->table, part);
		free(part);
	}
	free(root);
}
