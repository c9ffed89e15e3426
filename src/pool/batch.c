/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/batch.h"

#include "pool/block.h"

static unsigned place(const struct gm_batches *batches, unsigned i)
{
	return (batches->first + i) % GM_BATCHES;
}

/* Behind what is there. */
static void append(struct gm_retiring *to, const struct gm_retiring *list)
{
	*(to->last ? &to->last->next : &to->first) = list->first;
	to->last = list->last;
	to->n += list->n;
	to->bytes += list->bytes;
}

void gm_batch_add(struct gm_batches *batches, const struct gm_retiring *list, uint64_t number,
		  bool join)
{
	if (batches->n == 0 || (!join && batches->n < GM_BATCHES))
		batches->ring[place(batches, batches->n++)] = (struct gm_batch){0};
	struct gm_batch *newest = &batches->ring[place(batches, batches->n - 1)];
	append(&newest->list, list);
	newest->number = number;
}

uint64_t gm_batch_oldest(const struct gm_batches *batches)
{
	return batches->n ? batches->ring[batches->first].number : UINT64_MAX;
}

struct gm_retiring gm_batch_take(struct gm_batches *batches, uint64_t passed, uint64_t most)
{
	struct gm_retiring taken = {0};
	while (batches->n) {
		const struct gm_batch *oldest = &batches->ring[batches->first];
		if (oldest->number > passed || (taken.n && taken.n + oldest->list.n > most))
			break;
		append(&taken, &oldest->list);
		batches->first = place(batches, 1);
		batches->n--;
	}
	return taken;
}

static bool is_counted(const struct gm_retiring *list)
{
	uint64_t n = 0, bytes = 0;
	const struct gm_piece *last = NULL;
	for (const struct gm_piece *piece = list->first; piece; piece = piece->next, n++) {
		if (GM_GET(piece->state) != GM_RETIRED)
			return false;
		bytes += GM_GET(piece->held);
		last = piece;
	}
	return n && n == list->n && bytes == list->bytes && last == list->last;
}

const char *gm_batch_check(const struct gm_batches *batches, uint64_t n, uint64_t newest)
{
	uint64_t counted = 0, last = 0;
	if (batches->n > GM_BATCHES || batches->first >= GM_BATCHES)
		return "retired blocks are listed";
	for (unsigned i = 0; i < batches->n; i++) {
		const struct gm_batch *batch = &batches->ring[place(batches, i)];
		if (batch->number <= last)
			return "retired blocks are listed by age";
		if (!is_counted(&batch->list))
			return "retired blocks are listed";
		last = batch->number;
		counted += batch->list.n;
	}
	if (batches->n && last != newest)
		return "retired blocks are listed by age";
	return counted == n ? NULL : "retired blocks are listed";
}
