/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/churn.h"

#include <stdlib.h>

#include "base/hash.h"
#include "tools/tool.h"

/* Sizes that are counted at a time. Of more, the half with the fewest allocations is dropped, and
 * counted anew if it comes again. */
enum { SIZES_MOST = 1 << 16 };

/* The events of one size so far. */
struct size {
	struct gm_churn churn; /* churn.size: the key */
	uint64_t alive;
	UT_hash_handle hh;
};

static int size_compare(const void *a, const void *b)
{
	const struct size *x = *(const struct size *const *)a, *y = *(const struct size *const *)b;
	return (x->churn.allocated < y->churn.allocated) -
	       (x->churn.allocated > y->churn.allocated);
}

/* Keep the half with the most allocations. */
static void sizes_thin(struct size **sizes)
{
	struct size *size, *next, **all = malloc(HASH_COUNT(*sizes) * sizeof(struct size *));
	size_t n = 0;
	if (!all) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	HASH_ITER(hh, *sizes, size, next) all[n++] = size;
	qsort(all, n, sizeof(struct size *), size_compare);
	for (size_t i = SIZES_MOST / 2; i < n; i++) {
		HASH_DEL(*sizes, all[i]);
		free(all[i]);
	}
	free(all);
}

static struct size *size_find(struct size **sizes, uint64_t bytes)
{
	struct size *size;
	HASH_FIND(hh, *sizes, &bytes, sizeof bytes, size);
	if (size)
		return size;
	if (HASH_COUNT(*sizes) >= SIZES_MOST)
		sizes_thin(sizes);
	size = calloc(1, sizeof *size);
	if (size) {
		size->churn.size = bytes;
		HASH_ADD(hh, *sizes, churn.size, sizeof size->churn.size, size);
	}
	if (!size || gm_hash_failed(size)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return size;
}

static void size_count(struct size *size, bool allocated)
{
	struct gm_churn *churn = &size->churn;
	if (allocated) {
		churn->allocated++;
		size->alive++;
	} else {
		churn->freed++;
		/* A block allocated before the log's first segment is not in `alive`. */
		size->alive -= size->alive > 0;
	}
	churn->most = size->alive > churn->most ? size->alive : churn->most;
}

static bool churn_qualifies(const struct gm_churn *churn)
{
	return churn->freed >= churn->allocated - churn->allocated / 10 &&
	       churn->most <= churn->allocated / 100;
}

/* Of two sizes with equally many allocations, the smaller one wins. */
static bool churn_exceeds(const struct gm_churn *churn, const struct gm_churn *other)
{
	if (churn->allocated != other->allocated)
		return churn->allocated > other->allocated;
	return churn->allocated && churn->size < other->size;
}

struct gm_churn gm_churn_find(struct gm_log_file *file)
{
	struct gm_log_entry entry;
	struct gm_churn found = {0};
	struct size *sizes = NULL, *size, *next;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		if ((r->kind == GM_RECORD_ALLOCATE || r->kind == GM_RECORD_FREE) && !r->status)
			size_count(size_find(&sizes, r->size), r->kind == GM_RECORD_ALLOCATE);
	}
	HASH_ITER(hh, sizes, size, next)
	{
		if (churn_qualifies(&size->churn) && churn_exceeds(&size->churn, &found))
			found = size->churn;
		HASH_DEL(sizes, size);
		free(size);
	}
	return found;
}
