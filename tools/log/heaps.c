/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/heaps.h"

#include <stdlib.h>
#include <string.h>

#include "tools/log/blocks.h"
#include "tools/tool.h"

/* Convert a growth or an unmap to the record of a block; its stack is the name of the kernel. */
static bool chunk_record(const struct gm_record *r, struct gm_record *out)
{
	if (r->status || (r->kind != GM_RECORD_GROW && r->kind != GM_RECORD_UNMAP))
		return false;
	*out = (struct gm_record){
		.id = (uint64_t)r->device << 58 | r->address,
		.size = r->size,
		.stack = r->string,
		.device = r->device,
		.kind = r->kind == GM_RECORD_GROW ? GM_RECORD_ALLOCATE : GM_RECORD_FREE,
	};
	return true;
}

static int kernel_compare(const void *a, const void *b)
{
	const struct gm_heaps_kernel *x = a, *y = b;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
				    : (x->string > y->string) - (x->string < y->string);
}

static int chunk_compare(const void *a, const void *b)
{
	const struct gm_blocks_one *x = a, *y = b;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* Add up the chunks of each kernel. Sorts the table by kernel, which is not searched afterwards. */
static void chunks_add_up(struct gm_heaps *heaps, struct gm_log_file *file,
			  struct gm_blocks *chunks)
{
	struct gm_heaps_kernel *last = NULL;
	if (chunks->room)
		qsort(chunks->at, chunks->room, sizeof *chunks->at, chunk_compare);
	for (size_t i = 0; i < chunks->room; i++) {
		const struct gm_blocks_one *chunk = &chunks->at[i];
		if (!chunk->id)
			continue;
		if (!last || last->device != chunk->device || last->string != chunk->stack) {
			const char *name = gm_log_read_string(file, chunk->stack);
			const struct gm_heaps_kernel kernel = {.name = name ? name : "",
							       .string = chunk->stack,
							       .device = chunk->device};
			if (!gm_array_push(&heaps->kernels, kernel)) {
				gm_tool_error("out of memory");
				exit(GM_EXIT_FAILED);
			}
			last = &heaps->kernels.at[heaps->kernels.n - 1];
		}
		last->bytes += chunk->size;
		last->chunks++;
	}
}

void gm_heaps_find(struct gm_heaps *heaps, struct gm_log_file *file,
		   const struct gm_alive_moment moments[GM_COUNTER_DEVICES])
{
	struct gm_blocks chunks = {0};
	struct gm_blocks_one chunk;
	struct gm_log_entry entry;
	struct gm_record record;
	gm_log_read_rewind(file);
	for (uint64_t n = 1; gm_log_read_next(file, &entry); n++) {
		const unsigned d = entry.record.device;
		if (d < GM_COUNTER_DEVICES && moments[d].known && n <= moments[d].at.records &&
		    chunk_record(&entry.record, &record))
			gm_blocks_follow(&chunks, &record, -1, &chunk);
	}
	chunks_add_up(heaps, file, &chunks);
	gm_blocks_free(&chunks);
	if (heaps->kernels.n)
		qsort(heaps->kernels.at, heaps->kernels.n, sizeof *heaps->kernels.at,
		      kernel_compare);
}

void gm_heaps_peak(struct gm_log_file *file, struct gm_alive_moment moments[GM_COUNTER_DEVICES])
{
	uint64_t has[GM_COUNTER_DEVICES] = {0}, most[GM_COUNTER_DEVICES] = {0};
	struct gm_blocks chunks = {0};
	struct gm_blocks_one chunk;
	struct gm_log_entry entry;
	struct gm_record record;
	gm_log_read_rewind(file);
	for (uint64_t n = 1; gm_log_read_next(file, &entry); n++) {
		const unsigned d = entry.record.device;
		if (d >= GM_COUNTER_DEVICES || (moments[d].known && !most[d]) ||
		    !chunk_record(&entry.record, &record))
			continue;
		const enum gm_blocks_change change = gm_blocks_follow(&chunks, &record, -1, &chunk);
		if (change == GM_BLOCKS_BORN || change == GM_BLOCKS_GONE)
			has[d] += change == GM_BLOCKS_BORN ? chunk.size : -chunk.size;
		if (has[d] <= most[d])
			continue;
		most[d] = has[d];
		moments[d] = (struct gm_alive_moment){true, {n, entry.record.time}, 0};
	}
	gm_blocks_free(&chunks);
}

void gm_heaps_free(struct gm_heaps *heaps)
{
	gm_array_free(&heaps->kernels);
}
