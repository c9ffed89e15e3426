/* SPDX-License-Identifier: BSD-3-Clause */
/* A treap: a search tree in the order of the spans, and a heap in that of their random ranks. */
#include "policy_span.h"

#include <stdlib.h>

#include "policy.h"

static uint64_t most_of(const struct gm_span *span)
{
	return span ? span->most : 0;
}

static void pull(struct gm_span *span)
{
	uint64_t left = most_of(span->left), right = most_of(span->right);
	uint64_t most = left > right ? left : right;
	span->most = most > span->size ? most : span->size;
}

static bool stands_before(const struct gm_spans *spans, const struct gm_span *a,
			  const struct gm_span *b)
{
	if (spans->by_size && a->size != b->size)
		return a->size < b->size;
	return a->address < b->address;
}

/* Those before `at` go to *left, the others to *right. */
static void split(const struct gm_spans *spans, struct gm_span *root, const struct gm_span *at,
		  struct gm_span **left, struct gm_span **right)
{
	if (!root) {
		*left = *right = NULL;
	} else if (stands_before(spans, root, at)) {
		split(spans, root->right, at, &root->right, right);
		pull(root);
		*left = root;
	} else {
		split(spans, root->left, at, left, &root->left);
		pull(root);
		*right = root;
	}
}

/* All of `left` stand before all of `right`. */
static struct gm_span *merge(struct gm_span *left, struct gm_span *right)
{
	if (!left || !right)
		return left ? left : right;
	if (left->rank > right->rank) {
		left->right = merge(left->right, right);
		pull(left);
		return left;
	}
	right->left = merge(left, right->left);
	pull(right);
	return right;
}

static void insert(struct gm_spans *spans, struct gm_span *span)
{
	struct gm_span *left, *right;
	spans->seed = spans->seed * 6364136223846793005u + 1442695040888963407u;
	span->rank = spans->seed >> 16;
	span->left = span->right = NULL;
	span->used = false;
	pull(span);
	split(spans, spans->root, span, &left, &right);
	spans->root = merge(merge(left, span), right);
}

static struct gm_span *without(const struct gm_spans *spans, struct gm_span *root,
			       const struct gm_span *span)
{
	if (root == span)
		return merge(root->left, root->right);
	if (stands_before(spans, span, root))
		root->left = without(spans, root->left, span);
	else
		root->right = without(spans, root->right, span);
	pull(root);
	return root;
}

static void remove_from(struct gm_spans *spans, struct gm_span *span)
{
	spans->root = without(spans, spans->root, span);
}

struct gm_span *gm_span_find(const struct gm_spans *spans, uint64_t size)
{
	struct gm_span *at = spans->root;
	if (most_of(at) < size)
		return NULL;
	for (;;) {
		if (most_of(at->left) >= size)
			at = at->left;
		else if (at->size >= size)
			return at;
		else
			at = at->right;
	}
}

static struct gm_span *make(struct gm_span *before, struct gm_span *after, uint64_t address,
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
	struct gm_span *span = make(before, NULL, address, size);
	insert(spans, span);
	return span;
}

void gm_span_take(struct gm_spans *spans, struct gm_span *span, uint64_t size)
{
	remove_from(spans, span);
	if (size < span->size) {
		insert(spans, make(span, span->after, span->address + size, span->size - size));
		span->size = size;
	}
	span->used = true;
}

/* `span`, which is in no tree, takes the free one after it in. */
static void swallow(struct gm_spans *spans, struct gm_span *span)
{
	struct gm_span *next = span->after;
	remove_from(spans, next);
	span->size += next->size;
	span->after = next->after;
	if (span->after)
		span->after->before = span;
	free(next);
}

struct gm_span *gm_span_give(struct gm_spans *spans, struct gm_span *span)
{
	if (span->after && !span->after->used)
		swallow(spans, span);
	if (span->before && !span->before->used) {
		struct gm_span *before = span->before;
		remove_from(spans, before);
		before->size += span->size;
		before->after = span->after;
		if (before->after)
			before->after->before = before;
		free(span);
		span = before;
	}
	insert(spans, span);
	return span;
}

void gm_span_extend(struct gm_spans *spans, struct gm_span *span, uint64_t by)
{
	remove_from(spans, span);
	span->size += by;
	insert(spans, span);
}

void gm_span_drop(struct gm_spans *spans, struct gm_span *span)
{
	remove_from(spans, span);
	free(span);
}

/* The next one in the order of the tree; NULL `span`: the first. */
static struct gm_span *next_of(const struct gm_spans *spans, const struct gm_span *span)
{
	struct gm_span *next = NULL;
	for (struct gm_span *at = spans->root; at;) {
		if (!span || stands_before(spans, span, at)) {
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
	for (struct gm_span *at = next_of(spans, NULL), *next; at; at = next) {
		next = next_of(spans, at);
		each(arg, at);
	}
}

void gm_spans_close(struct gm_spans *spans)
{
	while (spans->root)
		gm_span_drop(spans, spans->root);
}
