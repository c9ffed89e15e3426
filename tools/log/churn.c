/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/churn.h"

#include <stdlib.h>

#include "base/array.h"
#include "tools/tool.h"

/* One allocation (+1) or free (-1), in the order of time. */
struct step {
	uint64_t size, order;
	int by;
};

static int step_compare(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* Count the steps of one size. */
static struct gm_churn steps_tally(const struct step *steps, size_t n)
{
	struct gm_churn churn = {.size = steps[0].size};
	uint64_t alive = 0;
	for (size_t i = 0; i < n; i++) {
		if (steps[i].by > 0) {
			churn.allocated++;
			alive++;
		} else {
			churn.freed++;
			alive -= alive >
				 0; /* the block may be from before the log's first segment */
		}
		churn.most = alive > churn.most ? alive : churn.most;
	}
	return churn;
}

static bool churn_qualifies(const struct gm_churn *churn)
{
	return churn->freed >= churn->allocated - churn->allocated / 10 &&
	       churn->most <= churn->allocated / 100;
}

struct gm_churn gm_churn_find(struct gm_log_file *file)
{
	struct gm_log_entry entry;
	struct gm_churn found = {0};
	GM_ARRAY(struct step) steps = {0};
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		struct step step = {r->size, steps.n, r->kind == GM_RECORD_ALLOCATE ? 1 : -1};
		if ((r->kind != GM_RECORD_ALLOCATE && r->kind != GM_RECORD_FREE) || r->status)
			continue;
		if (!gm_array_push(&steps, step)) {
			gm_tool_error("out of memory");
			exit(GM_EXIT_FAILED);
		}
	}
	if (steps.n)
		qsort(steps.at, steps.n, sizeof *steps.at, step_compare);
	for (size_t i = 0, next; i < steps.n; i = next) {
		for (next = i + 1; next < steps.n && steps.at[next].size == steps.at[i].size;)
			next++;
		struct gm_churn churn = steps_tally(&steps.at[i], next - i);
		if (churn_qualifies(&churn) && churn.allocated > found.allocated)
			found = churn;
	}
	gm_array_free(&steps);
	return found;
}
