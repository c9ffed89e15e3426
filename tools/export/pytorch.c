/* SPDX-License-Identifier: BSD-3-Clause */
/* A pickle for torch.cuda._memory_viz and pytorch.org/memory_viz: gpumemstat(1), FORMATS. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export.h"
#include "tools/export/pickle.h"
#include "tools/export/segments.h"
#include "tools/export/stacks.h"
#include "tools/log/blocks.h"
#include "tools/log/cache.h"
#include "tools/log/level.h"
#include "tools/log/usage.h"
#include "tools/stack/frames.h"

/* Frequent texts, kept in the memo. */
/* clang-format off */
#define WORDS(WORD) \
	WORD(action) WORD(addr) WORD(size) WORD(stream) WORD(frames) WORD(time_us) WORD(alloc) \
	WORD(free_requested) WORD(free_completed) WORD(segment_alloc) WORD(segment_free) \
	WORD(segment_map) WORD(segment_unmap) WORD(oom) WORD(device_free) WORD(name) \
	WORD(filename) WORD(line) WORD(device) WORD(address) WORD(total_size) \
	WORD(allocated_size) WORD(active_size) WORD(requested_size) WORD(segment_type) \
	WORD(segment_pool_id) WORD(is_expandable) WORD(blocks) WORD(state) WORD(large) \
	WORD(small) WORD(active_allocated) WORD(inactive) WORD(segments) WORD(device_traces) \
	WORD(allocator_settings) WORD(external_annotations)
/* clang-format on */

enum word {
#define WORD(name) W_##name,
	WORDS(WORD)
#undef WORD
		WORD_COUNT
};
static const char *const word_texts[WORD_COUNT] = {
#define WORD(name) [W_##name] = #name,
	WORDS(WORD)
#undef WORD
};

struct snapshot {
	struct gm_pickle pickle;
	struct gm_figures *figures;
	struct gm_symbols symbols;
	enum gm_level level;
	struct gm_cache cache; /* of a log with tensors */
	bool known;	       /* the log has events of blocks */
	bool refusals;	       /* of the cache: those of the driver are not the program's */
	struct gm_blocks blocks[GM_COUNTER_DEVICES];   /* or tensors */
	struct gm_blocks requests[GM_COUNTER_DEVICES]; /* of the cache: the blocks under tensors */
	struct gm_segments segments[GM_COUNTER_DEVICES];
	unsigned batch;		    /* values in the open batch of a list */
	uint32_t words[WORD_COUNT]; /* numbers in the memo, as below */
	uint32_t none;		    /* the empty list */
	uint32_t *stacks;	    /* GM_EXPORT_STACKS numbers */
};

/* --- values --- */

static void key_write(struct snapshot *snapshot, enum word word)
{
	gm_pickle_word(&snapshot->pickle, word_texts[word], &snapshot->words[word]);
}

static void number_write(struct snapshot *snapshot, enum word key, uint64_t number)
{
	key_write(snapshot, key);
	gm_pickle_number(&snapshot->pickle, number);
}

static void dict_begin(struct snapshot *snapshot)
{
	gm_pickle_dict(&snapshot->pickle);
	gm_pickle_begin(&snapshot->pickle);
}

static void dict_end(struct snapshot *snapshot)
{
	gm_pickle_dict_end(&snapshot->pickle);
}

/* A list of any length; such lists must not nest. item_begin must precede each value. */
static void items_begin(struct snapshot *snapshot)
{
	gm_pickle_list(&snapshot->pickle);
	gm_pickle_begin(&snapshot->pickle);
	snapshot->batch = 0;
}

static void item_begin(struct snapshot *snapshot)
{
	if (snapshot->batch++ < GM_PICKLE_BATCH)
		return;
	gm_pickle_list_end(&snapshot->pickle);
	gm_pickle_begin(&snapshot->pickle);
	snapshot->batch = 1;
}

static void items_end(struct snapshot *snapshot)
{
	gm_pickle_list_end(&snapshot->pickle);
}

static void none_write(struct snapshot *snapshot)
{
	if (snapshot->none) {
		gm_pickle_again(&snapshot->pickle, snapshot->none);
		return;
	}
	gm_pickle_list(&snapshot->pickle);
	snapshot->none = gm_pickle_keep(&snapshot->pickle);
}

/* --- frames --- */

static void call_write(void *arg, const struct gm_frames_call *call)
{
	struct snapshot *snapshot = arg;
	char place[128];
	if (call->forward)
		gm_frames_call_text(call, place, sizeof place);
	else
		snprintf(place, sizeof place, "0x%" PRIx64, call->place);
	dict_begin(snapshot);
	key_write(snapshot, W_name);
	gm_pickle_text(&snapshot->pickle, call->function ? call->function : place);
	key_write(snapshot, W_filename);
	gm_pickle_text(&snapshot->pickle, call->file ? call->file : call->object);
	number_write(snapshot, W_line, call->line);
	dict_end(snapshot);
}

/* The first use of a stack writes its frames; later uses refer to the memo. */
static void frames_write(struct snapshot *snapshot, uint32_t number)
{
	const uint32_t before = 0; /* no stack has this number */
	const uint32_t stack = number == GM_STACK_BEFORE ? before : number;
	key_write(snapshot, W_frames);
	if (!number || stack >= GM_EXPORT_STACKS) {
		none_write(snapshot);
	} else if (snapshot->stacks[stack]) {
		gm_pickle_again(&snapshot->pickle, snapshot->stacks[stack]);
	} else {
		gm_pickle_list(&snapshot->pickle);
		gm_pickle_begin(&snapshot->pickle);
		gm_frames_each(&snapshot->symbols, number, call_write, snapshot);
		gm_pickle_list_end(&snapshot->pickle);
		snapshot->stacks[stack] = gm_pickle_keep(&snapshot->pickle);
	}
}

/* --- the trace of a device --- */

struct action {
	enum word name;
	uint64_t address, size, ns;
	uint32_t stack;
};

static void action_write(struct snapshot *snapshot, const struct action *action)
{
	const struct gm_log_about *about = snapshot->figures->about;
	item_begin(snapshot);
	dict_begin(snapshot);
	key_write(snapshot, W_action);
	key_write(snapshot, action->name);
	number_write(snapshot, action->name == W_oom ? W_device_free : W_addr, action->address);
	number_write(snapshot, W_size, action->size);
	number_write(snapshot, W_stream, 0);
	number_write(snapshot, W_time_us, (about->start_wall + action->ns) / 1000);
	frames_write(snapshot, action->stack);
	dict_end(snapshot);
}

/* A block of the driver is also a segment. */
static void block_write(struct snapshot *snapshot, enum gm_blocks_change change,
			const struct gm_blocks_one *block, uint64_t ns)
{
	const bool born = change == GM_BLOCKS_BORN;
	struct action action = {W_alloc, block->address, block->size, ns, block->stack};
	struct action segment = {W_segment_alloc, block->address, block->held, ns, block->stack};
	if (!born && change != GM_BLOCKS_GONE)
		return;
	if (born && block->driver)
		action_write(snapshot, &segment);
	action.name = born ? W_alloc : W_free_requested;
	action_write(snapshot, &action);
	if (born)
		return;
	action.name = W_free_completed;
	action_write(snapshot, &action);
	segment.name = W_segment_free;
	if (block->driver)
		action_write(snapshot, &segment);
}

/* A request of the cache is a segment; other blocks are no part of PyTorch's snapshot. */
static void request_write(struct snapshot *snapshot, const struct gm_record *r, uint64_t ns)
{
	struct gm_blocks_one block;
	const enum gm_blocks_change change =
		gm_blocks_follow(&snapshot->requests[r->device], r, r->device, &block);
	if ((change != GM_BLOCKS_BORN && change != GM_BLOCKS_GONE) ||
	    !gm_cache_has(&snapshot->cache, r->device, block.id))
		return;
	const struct action action = {change == GM_BLOCKS_BORN ? W_segment_alloc : W_segment_free,
				      block.address, block.size, ns, block.stack};
	action_write(snapshot, &action);
}

static void record_write(struct snapshot *snapshot, const struct gm_log_entry *entry, uint64_t ns)
{
	const struct gm_record *r = &entry->record;
	struct action action = {W_segment_map, r->address, r->size, ns, 0};
	switch (r->kind) {
	case GM_RECORD_REMAP:
		action.name = W_segment_unmap;
		action.address = r->held;
		action_write(snapshot, &action);
		action.name = W_segment_map;
		action.address = r->address;
		break;
	case GM_RECORD_MAP:
		break;
	case GM_RECORD_UNMAP:
		action.name = W_segment_unmap;
		break;
	case GM_RECORD_OUT_OF_MEMORY:
		action.name = W_oom;
		action.address = entry->sample ? entry->sample->device_free : 0;
		break;
	default:
		return;
	}
	action_write(snapshot, &action);
}

/* PyTorch has one refusal where the driver had several. `free`: on the device, at the last one. */
static void refusal_write(struct snapshot *snapshot, const struct gm_log_entry *entry, uint64_t ns,
			  uint64_t *free)
{
	const struct gm_record *r = &entry->record;
	const bool of_driver = r->kind == GM_RECORD_OUT_OF_MEMORY;
	if (of_driver)
		*free = entry->sample ? entry->sample->device_free : 0;
	else if (r->kind != GM_RECORD_TENSOR_REFUSED)
		return;
	const struct action action = {W_oom, *free, r->size, ns, r->stack};
	if (of_driver != snapshot->refusals)
		action_write(snapshot, &action);
}

static void entry_write(struct snapshot *snapshot, const struct gm_log_entry *entry, uint64_t *free)
{
	const struct gm_record view = gm_level_view(snapshot->level, &entry->record);
	const uint64_t ns = gm_figures_at(snapshot->figures, view.time);
	const unsigned device = view.device;
	struct gm_blocks_one block;
	if (snapshot->level == GM_LEVEL_TENSORS) {
		refusal_write(snapshot, entry, ns, free);
		request_write(snapshot, &entry->record, ns);
	} else {
		gm_segments_follow(&snapshot->segments[device], &view);
		record_write(snapshot, entry, ns);
	}
	if (snapshot->known)
		block_write(snapshot,
			    gm_blocks_follow(&snapshot->blocks[device], &view, (int)device, &block),
			    &block, ns);
}

static void trace_write(struct snapshot *snapshot, unsigned device)
{
	struct gm_log_entry entry;
	uint64_t free = 0;
	items_begin(snapshot);
	gm_log_read_rewind(snapshot->figures->file);
	while (gm_log_read_next(snapshot->figures->file, &entry))
		if (entry.record.device == device)
			entry_write(snapshot, &entry, &free);
	items_end(snapshot);
}

/* --- segments at the end --- */

static void segment_block_write(void *arg, uint64_t address, uint64_t size,
				const struct gm_blocks_one *block)
{
	struct snapshot *snapshot = arg;
	item_begin(snapshot);
	dict_begin(snapshot);
	number_write(snapshot, W_address, address);
	number_write(snapshot, W_size, size);
	number_write(snapshot, W_requested_size,
		     !block		  ? 0
		     : block->size < size ? block->size
					  : size);
	key_write(snapshot, W_state);
	key_write(snapshot, block ? W_active_allocated : W_inactive);
	frames_write(snapshot, block ? block->stack : 0);
	dict_end(snapshot);
}

enum { SMALL = 2 << 20 }; /* segments of the cache for small tensors */

static void segment_write(struct snapshot *snapshot, unsigned device,
			  const struct gm_segment *segment)
{
	const bool cached = snapshot->level == GM_LEVEL_TENSORS;
	dict_begin(snapshot);
	number_write(snapshot, W_device, device);
	number_write(snapshot, W_address, segment->address);
	number_write(snapshot, W_total_size, segment->size);
	number_write(snapshot, W_allocated_size, segment->used);
	number_write(snapshot, W_active_size, segment->used);
	number_write(snapshot, W_requested_size, segment->requested);
	number_write(snapshot, W_stream, 0);
	key_write(snapshot, W_segment_type);
	key_write(snapshot, cached && segment->size <= SMALL ? W_small : W_large);
	key_write(snapshot, W_segment_pool_id);
	gm_pickle_number(&snapshot->pickle, 0);
	gm_pickle_number(&snapshot->pickle, 0);
	gm_pickle_pair(&snapshot->pickle);
	key_write(snapshot, W_is_expandable);
	gm_pickle_bool(&snapshot->pickle, !segment->driver);
	frames_write(snapshot, segment->stack);
	key_write(snapshot, W_blocks);
	items_begin(snapshot);
	gm_segment_walk(segment, segment_block_write, snapshot);
	items_end(snapshot);
	dict_end(snapshot);
}

/* The requests of the cache that are alive. */
static void requests_take(struct snapshot *snapshot, unsigned device)
{
	const struct gm_blocks *requests = &snapshot->requests[device];
	for (size_t i = 0; i < requests->room; i++)
		if (requests->at[i].id &&
		    gm_cache_has(&snapshot->cache, device, requests->at[i].id))
			gm_segments_add_block(&snapshot->segments[device], &requests->at[i]);
}

/* One batch a segment, because the lists of blocks use the batch counter. */
static void segments_write(struct snapshot *snapshot)
{
	gm_pickle_list(&snapshot->pickle);
	for (unsigned d = 0; d < snapshot->figures->n_devices; d++) {
		struct gm_segments *segments = &snapshot->segments[d];
		requests_take(snapshot, d);
		gm_segments_finish(segments, &snapshot->blocks[d]);
		for (size_t i = 0; i < segments->at.n; i++) {
			gm_pickle_begin(&snapshot->pickle);
			segment_write(snapshot, d, &segments->at.at[i]);
			gm_pickle_list_end(&snapshot->pickle);
		}
	}
}

/* --- the snapshot --- */

static void snapshot_write(struct snapshot *snapshot)
{
	dict_begin(snapshot);
	key_write(snapshot, W_device_traces);
	gm_pickle_list(&snapshot->pickle);
	for (unsigned d = 0; d < snapshot->figures->n_devices; d++) {
		gm_pickle_begin(&snapshot->pickle);
		trace_write(snapshot, d);
		gm_pickle_list_end(&snapshot->pickle);
	}
	key_write(snapshot, W_segments);
	segments_write(snapshot);
	key_write(snapshot, W_allocator_settings);
	gm_pickle_dict(&snapshot->pickle);
	key_write(snapshot, W_external_annotations);
	gm_pickle_list(&snapshot->pickle);
	dict_end(snapshot);
}

static void levels_find(struct snapshot *snapshot)
{
	struct gm_log_entry entry;
	struct gm_log_file *file = snapshot->figures->file;
	snapshot->level = gm_level_of(file);
	snapshot->known = gm_usage_has_blocks(snapshot->figures->about);
	if (snapshot->level != GM_LEVEL_TENSORS)
		return;
	gm_cache_find(&snapshot->cache, file);
	gm_log_read_rewind(file);
	while (!snapshot->refusals && gm_log_read_next(file, &entry))
		snapshot->refusals = entry.record.kind == GM_RECORD_TENSOR_REFUSED;
}

void gm_export_pytorch(FILE *out, const struct gm_options *options, struct gm_figures *figures)
{
	static struct snapshot snapshot; /* large */
	(void)options;
	snapshot = (struct snapshot){.figures = figures};
	snapshot.stacks = calloc(GM_EXPORT_STACKS, sizeof *snapshot.stacks);
	if (!snapshot.stacks) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	levels_find(&snapshot);
	gm_export_symbols(&snapshot.symbols, figures->file, 0);
	gm_pickle_open(&snapshot.pickle, out);
	snapshot_write(&snapshot);
	gm_pickle_close(&snapshot.pickle);
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		gm_blocks_free(&snapshot.blocks[d]);
		gm_blocks_free(&snapshot.requests[d]);
		gm_segments_free(&snapshot.segments[d]);
	}
	gm_cache_free(&snapshot.cache);
	gm_symbols_free(&snapshot.symbols);
	free(snapshot.stacks);
}
