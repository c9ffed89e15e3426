/* SPDX-License-Identifier: BSD-3-Clause */
/* A treap: a search tree by the order of the spans, a heap by their random ranks. */
#include "tools/replay/policy_span.h"

#include <stdlib.h>

#include "tools/replay/policy.h"

static uint64_t span_most(const struct gm_span *span)
{
	return span ? span->most : 0;
}

static void span_update_most(struct gm_span *span)
{
	uint64_t left = span_most(span->left), right = span_most(span->right);
	uint64_t most = left > right ? left : right;
	span->most = most > span->size ? most : span->size;
}

static bool span_is_before(const struct gm_spans *spans, const struct gm_span *a,
			   const struct gm_span *b)
{
	if (spans->by_size && a->size != b->size)
		return a->size < b->size;
	return a->address < b->address;
}

/* Split: *left gets the spans before `at`, *right the others. */
static void tree_split(const struct gm_spans *spans, struct gm_span *root, const struct gm_span *at,
		       struct gm_span **left, struct gm_span **right)
{
	if (!root) {
		*left = *right = NULL;
	} else if (span_is_before(spans, root, at)) {
		tree_split(spans, root->right, at, &root->right, right);
		span_update_most(root);
		*left = root;
	} else {
		tree_split(spans, root->left, at, left, &root->left);
		span_update_most(root);
		*right = root;
	}
}

/* pre: all of `left` are before all of `right`. */
static struct gm_span *tree_merge(struct gm_span *left, struct gm_span *right)
{
	if (!left || !right)
		return left ? left : right;
	if (left->rank > right->rank) {
		left->right = tree_merge(left->right, right);
		span_update_most(left);
		return left;
	}
	right->left = tree_merge(left, right->left);
	span_update_most(right);
	return right;
}

static void tree_insert(struct gm_spans *spans, struct gm_span *span)
{
	struct gm_span *left, *right;
	spans->seed = spans->seed * 6364136223846793005u + 1442695040888963407u;
	span->rank = spans->seed >> 16;
	span->left = span->right = NULL;
	span->used = false;
	span_update_most(span);
	tree_split(spans, spans->root, span, &left, &right);
	spans->root = tree_merge(tree_merge(left, span), right);
}

static struct gm_span *tree_without(const struct gm_spans *spans, struct gm_span *root,
				    const struct gm_span *span)
{
	if (root == span)
		return tree_merge(root->left, root->right);
	if (span_is_before(spans, span, root))
		root->left = tree_without(spans, root->left, span);
	else
		root->right = tree_without(spans, root->right, span);
	span_update_most(root);
	return root;
}

static void tree_remove(struct gm_spans *spans, struct gm_span *span)
{
	spans->root = tree_without(spans, spans->root, span);
}

struct gm_span *gm_span_find(const struct gm_spans *spans, uint64_t size)
{
	struct gm_span *at = spans->root;
	if (span_most(at) < size)
		return NULL;
	for (;;) {
		if (span_most(at->left) >= size)
			at = at->left;
		else if (at->size >= size)
			return at;
		else
			at = at->right;
	}
}

static struct gm_span *span_make(struct gm_span *before, struct gm_span *after, uint64_t address,
				 uint64_t size)
{
	struct gm_span *span = gm_policy_make(sizeof *span);
	span->address = address;
	span->size = size;
	span->before = before;
	span->after = after;
	if (before)
		before->after = span;
	if (after)
		after->before = span;
	return span;
}

struct gm_span *gm_span_add(struct gm_spans *spans, struct gm_span *before, uint64_t address,
			    uint64_t size)
{
	struct gm_span *span = span_make(before, NULL, address, size);
	tree_insert(spans, span);
	return span;
}

void gm_span_take(struct gm_spans *spans, struct gm_span *span, uint64_t size)
{
	tree_remove(spans, span);
	if (size < span->size) {
		tree_insert(spans,
			    span_make(span, span->after, span->address + size, span->size - size));
		span->size = size;
	}
	span->used = true;
}

/* Merge `span`, which is not in the tree, with the free span after it. */
static void span_absorb_next(struct gm_spans *spans, struct gm_span *span)
{
	struct gm_span *next = span->after;
	tree_remove(spans, next);
	span->size += next->size;
	span->after = next->after;
	if (span->after)
		span->after->before = span;
	free(next);
}

struct gm_span *gm_span_give(struct gm_spans *spans, struct gm_span *span)
{
	if (span->after && !span->after->used)
		span_absorb_next(spans, span);
	if (span->before && !span->before->used) {
		struct gm_span *before = span->before;
		tree_remove(spans, before);
		before->size += span->size;
		before->after = span->after;
		if (before->after)
			before->after->before = before;
		free(span);
		span = before;
	}
	tree_insert(spans, span);
	return span;
}

void gm_span_extend(struct gm_spans *spans, struct gm_span *span, uint64_t by)
{
	tree_remove(spans, span);
	span->size += by;
	tree_insert(spans, span);
}

void gm_span_drop(struct gm_spans *spans, struct gm_span *span)
{
	tree_remove(spans, span);
	free(span);
}

struct gm_span *gm_span_next(const struct gm_spans *spans, const struct gm_span *span)
{
	struct gm_span *next = NULL;
	for (struct gm_span *at = spans->root; at;) {
		if (span_is_before(spans, span, at)) {
			next = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return next;
}

void gm_span_each(struct gm_spans *spans, void (*each)(void *arg, struct gm_span *span), void *arg)
{
	struct gm_span *at = spans->root, *next;
	while (at && at->left)
		at = at->left;
	for (; at; at = next) {
		next = gm_span_next(spans, at);
		each(arg, at);
	}
}

/* --- absent spans --- */

struct gm_span *gm_span_reserve(uint64_t address, uint64_t size)
{
	struct gm_span *span = span_make(NULL, NULL, address, size);
	span->used = span->absent = true;
	return span;
}

/* Split `span` behind its first `size` bytes. pre: it is in no tree. */
static void span_cut(struct gm_span *span, uint64_t size)
{
	if (size == span->size)
		return;
	struct gm_span *rest =
		span_make(span, span->after, span->address + size, span->size - size);
	rest->used = span->used;
	rest->absent = span->absent;
	span->size = size;
}

struct gm_span *gm_span_map(struct gm_spans *spans, struct gm_span *span, uint64_t size)
{
	span_cut(span, size);
	span->absent = false;
	return gm_span_give(spans, span);
}

/* Join an absent span with the absent one after it. */
static void span_join_absent(struct gm_span *span)
{
	struct gm_span *next = span ? span->after : NULL;
	if (!next || !span->absent || !next->absent)
		return;
	span->size += next->size;
	span->after = next->after;
	if (span->after)
		span->after->before = span;
	free(next);
}

void gm_span_unmap(struct gm_spans *spans, struct gm_span *span, uint64_t from, uint64_t end)
{
	struct gm_span *hole = span;
	tree_remove(spans, span);
	if (from > span->address) {
		span_cut(span, from - span->address);
		hole = span->after;
		tree_insert(spans, span);
	}
	if (end < hole->address + hole->size) {
		span_cut(hole, end - hole->address);
		tree_insert(spans, hole->after);
	}
	hole->used = hole->absent = true;
	span_join_absent(hole);
	span_join_absent(hole->before);
}

void gm_spans_close(struct gm_spans *spans)
{
	while (spans->root)
		gm_span_drop(spans, spans->root);
}
