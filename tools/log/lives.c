/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/lives.h"

#include <stdlib.h>

#include "tools/log/blocks.h"
#include "tools/tool.h"

/* With fewer ticks in a run lives are added up, too. STACKS_MOST: bounds the table by stack. */
enum { TICKS_LEAST = 512, STACKS_MOST = 1 << 24 };

/* A device while its log is read. */
struct reader {
	struct gm_lives *lives;
	const struct gm_figures *figures;
	size_t most;
	uint64_t length; /* ns */
	bool complete;
	struct gm_blocks alive;
	struct gm_blocks under;			/* at GM_LEVEL_TENSORS: the blocks */
	struct gm_blocks older;			/* from before the log, and freed in it */
	struct gm_blocks early;			/* freed, and their allocation was not read yet */
	GM_ARRAY(struct gm_lives_chunk) chunks; /* mapped now */
	GM_ARRAY(uint32_t) places;		/* by stack: its place in lives->stacks, from 1 */
	uint64_t newest;			/* the last block allocated */
	uint64_t before, before_blocks;		/* tensors from before a recording */
};

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- stacks --- */

static struct gm_lives_stack *stack_of(struct reader *r, uint32_t number)
{
	const size_t place = number == GM_STACK_BEFORE ? 0 : (size_t)number + 1;
	const size_t n = r->places.n;
	if (place >= n) {
		if (!gm_array_reserve(&r->places, place + 1))
			memory_exhausted();
		for (size_t i = n; i <= place; i++)
			r->places.at[i] = 0;
		r->places.n = place + 1;
	}
	if (!r->places.at[place]) {
		if (!gm_array_push(&r->lives->stacks, (struct gm_lives_stack){.stack = number}))
			memory_exhausted();
		r->places.at[place] = (uint32_t)r->lives->stacks.n;
	}
	return &r->lives->stacks.at[r->places.at[place] - 1];
}

/* The number of a stack of the log, else 0. Numbers count from 1, but for that of a damaged log. */
static uint32_t stack_known(const struct reader *r, uint32_t number)
{
	if (number >= STACKS_MOST && number != GM_STACK_BEFORE)
		return 0;
	return gm_log_read_stack(r->figures->file, number) ? number : 0;
}

static void stack_born(struct reader *r, uint32_t number, uint64_t size, uint64_t n, uint64_t time)
{
	struct gm_lives_stack *stack = stack_of(r, number);
	stack->calls += n;
	stack->bytes += size;
	stack->live += size;
	stack->live_blocks += n;
	if (stack->live > stack->peak) {
		stack->peak = stack->live;
		stack->peak_time = time;
	}
}

static void stack_gone(struct reader *r, uint32_t number, uint64_t size, uint64_t n)
{
	struct gm_lives_stack *stack = stack_of(r, number);
	stack->live -= size;
	stack->live_blocks -= n;
}

/* --- lives --- */

static int life_compare(const void *a, const void *b)
{
	const struct gm_life *x = a, *y = b;
	if (x->birth != y->birth)
		return x->birth < y->birth ? -1 : 1;
	if (x->death != y->death)
		return x->death < y->death ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static uint64_t tick_of(uint64_t ns, uint64_t tick)
{
	return ns == GM_LIVES_END ? ns : ns / tick + (ns % tick > 0);
}

/* Double the tick; lives that are between two ticks now are left out. */
static void tick_double(struct gm_lives *lives)
{
	size_t to = 0;
	lives->tick *= 2;
	for (size_t i = 0; i < lives->all.n; i++) {
		struct gm_life life = lives->all.at[i];
		life.birth = tick_of(life.birth, 2);
		life.death = tick_of(life.death, 2);
		if (life.birth == life.death)
			lives->passed += life.n;
		else
			lives->all.at[to++] = life;
	}
	lives->all.n = to;
}

/* Add up lives of one stack with the same ticks. */
static void lives_join(struct gm_lives *lives)
{
	size_t to = 0;
	if (!lives->all.n)
		return;
	qsort(lives->all.at, lives->all.n, sizeof *lives->all.at, life_compare);
	for (size_t i = 1; i < lives->all.n; i++) {
		struct gm_life *last = &lives->all.at[to];
		const struct gm_life *next = &lives->all.at[i];
		if (life_compare(last, next)) {
			lives->all.at[++to] = *next;
			continue;
		}
		last->bytes += next->bytes;
		last->n += next->n;
		last->largest = next->largest > last->largest ? next->largest : last->largest;
	}
	lives->all.n = to + 1;
}

/* With one tick in the run and a life for each stack, there is nothing more to do. */
static void lives_thin(struct reader *r, size_t most)
{
	struct gm_lives *lives = r->lives;
	while (lives->all.n > most && lives->tick <= r->length) {
		tick_double(lives);
		if (lives->tick > r->length / TICKS_LEAST)
			lives_join(lives);
	}
}

static void life_push(struct reader *r, const struct gm_life *life)
{
	struct gm_lives *lives = r->lives;
	struct gm_life one = *life;
	one.birth = tick_of(life->birth, lives->tick);
	one.death = tick_of(life->death, lives->tick);
	if (one.birth >= one.death) {
		lives->passed += one.n;
		return;
	}
	if (!gm_array_push(&lives->all, one))
		memory_exhausted();
	if (lives->all.n >= 2 * r->most)
		lives_thin(r, r->most);
}

/* --- blocks by address --- */

static int area_compare(const void *a, const void *b)
{
	const struct gm_lives_block *x = a, *y = b;
	const double p = (double)x->size * (double)(x->death - x->birth),
		     q = (double)y->size * (double)(y->death - y->birth);
	return p != q ? (p > q ? -1 : 1) : (x->birth > y->birth) - (x->birth < y->birth);
}

static int birth_compare(const void *a, const void *b)
{
	const struct gm_lives_block *x = a, *y = b;
	if (x->birth != y->birth)
		return x->birth < y->birth ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

static void blocks_thin(struct reader *r)
{
	struct gm_lives *lives = r->lives;
	if (lives->blocks.n <= r->most / 2)
		return;
	qsort(lives->blocks.at, lives->blocks.n, sizeof *lives->blocks.at, area_compare);
	lives->blocks_omitted += lives->blocks.n - r->most / 2;
	lives->blocks.n = r->most / 2;
}

static void block_push(struct reader *r, const struct gm_lives_block *block)
{
	if (!gm_array_push(&r->lives->blocks, *block))
		memory_exhausted();
	if (r->lives->blocks.n >= r->most)
		blocks_thin(r);
}

/* A block ends; GM_LIVES_END: it does not, and its area is that of the run. */
static void block_end(struct reader *r, const struct gm_blocks_one *b, uint64_t death)
{
	const uint64_t birth = b->born ? gm_figures_at(r->figures, b->born) : 0;
	const uint32_t stack = stack_known(r, b->stack);
	const uint64_t last = death == GM_LIVES_END ? r->length + 1 : death;
	const struct gm_life life = {birth, death, b->size, 1, b->size, stack};
	life_push(r, &life);
	if (b->address && last > birth)
		block_push(r, &(struct gm_lives_block){birth, last, b->address, b->size, stack});
}

/* --- records --- */

/* A block known by its free alone. */
static void early_add(struct gm_blocks *early, const struct gm_record *record)
{
	struct gm_record born = *record;
	struct gm_blocks_one block;
	born.kind = GM_RECORD_LIVE;
	gm_blocks_follow(early, &born, -1, &block);
}

/* True: the block was in the table; it is not any more. */
static bool early_remove(struct gm_blocks *early, const struct gm_record *record)
{
	struct gm_record gone = *record;
	struct gm_blocks_one block;
	gone.kind = GM_RECORD_FREE;
	return early->n && gm_blocks_follow(early, &gone, -1, &block) == GM_BLOCKS_GONE;
}

static void block_born(struct reader *r, const struct gm_record *record,
		       const struct gm_blocks_one *block)
{
	const uint32_t stack = stack_known(r, block->stack);
	stack_born(r, stack, block->size, 1,
		   block->born ? gm_figures_at(r->figures, block->born) : 0);
	r->newest = block->id;
	if (!early_remove(&r->early, record))
		return;
	early_remove(&r->alive, record);
	stack_gone(r, stack, block->size, 1);
	r->lives->passed++;
}

static void block_gone(struct reader *r, const struct gm_record *record,
		       const struct gm_blocks_one *block)
{
	const uint32_t stack = stack_known(r, block->stack);
	stack_gone(r, stack, block->size, 1);
	if (block->id == r->newest)
		stack_of(r, stack)->brief++;
	block_end(r, block, gm_figures_at(r->figures, record->time));
}

static void record_follow(struct reader *r, const struct gm_record *record)
{
	struct gm_blocks_one block;
	switch (gm_blocks_follow(&r->alive, record, -1, &block)) {
	case GM_BLOCKS_BORN:
		block_born(r, record, &block);
		break;
	case GM_BLOCKS_GONE:
		block_gone(r, record, &block);
		break;
	case GM_BLOCKS_UNBORN:
		if (r->older.n && gm_blocks_follow(&r->older, record, -1, &block) == GM_BLOCKS_GONE)
			block_gone(r, record, &block);
		else
			early_add(&r->early, record);
		break;
	case GM_BLOCKS_SAME:
	case GM_BLOCKS_UNNAMED:
		break;
	}
}

/* Tensors from before a recording are one record; such a tensor has no number when it goes. */
static void before_follow(struct reader *r, const struct gm_log_entry *entry)
{
	const struct gm_record *record = &entry->record;
	if (record->id == GM_TENSORS_BEFORE && entry->segment == 0) {
		r->before = record->size;
		r->before_blocks = record->held;
		stack_born(r, GM_STACK_BEFORE, record->size, record->held, 0);
	} else if (record->kind == GM_RECORD_TENSOR_FREE && !record->id && r->before_blocks) {
		const uint64_t size = record->size < r->before ? record->size : r->before;
		const uint64_t time = gm_figures_at(r->figures, record->time);
		const struct gm_life life = {0, time, size, 1, size, GM_STACK_BEFORE};
		r->before -= size;
		r->before_blocks--;
		stack_gone(r, GM_STACK_BEFORE, size, 1);
		life_push(r, &life);
	}
}

/* --- chunks --- */

static int chunk_compare(const void *a, const void *b)
{
	const struct gm_lives_chunk *x = a, *y = b;
	const bool p = x->kind == GM_LIVES_SEGMENT, q = y->kind == GM_LIVES_SEGMENT;
	const double m = (double)x->size * (double)(x->death - x->birth),
		     n = (double)y->size * (double)(y->death - y->birth);
	if (p != q)
		return p - q;
	return m != n ? (m > n ? -1 : 1) : (x->birth > y->birth) - (x->birth < y->birth);
}

static void chunks_thin(struct reader *r)
{
	struct gm_lives *lives = r->lives;
	if (lives->chunks.n <= r->most / 2)
		return;
	qsort(lives->chunks.at, lives->chunks.n, sizeof *lives->chunks.at, chunk_compare);
	lives->chunks_omitted += lives->chunks.n - r->most / 2;
	lives->chunks.n = r->most / 2;
}

static void chunk_end(struct reader *r, const struct gm_lives_chunk *chunk, uint64_t death)
{
	struct gm_lives_chunk ended = *chunk;
	ended.death = death;
	if (ended.death <= ended.birth)
		return;
	if (!gm_array_push(&r->lives->chunks, ended))
		memory_exhausted();
	if (r->lives->chunks.n >= r->most)
		chunks_thin(r);
}

static void chunk_remove(struct reader *r, uint64_t serial, uint64_t time)
{
	for (size_t i = r->chunks.n; i-- > 0;) {
		struct gm_lives_chunk *chunk = &r->chunks.at[i];
		if (chunk->id != serial)
			continue;
		chunk_end(r, chunk, time);
		*chunk = r->chunks.at[--r->chunks.n];
		return;
	}
}

static void chunk_add(struct reader *r, const struct gm_record *record, uint64_t time,
		      enum gm_lives_kind kind)
{
	const struct gm_lives_chunk chunk = {time,	   0,	       record->address,
					     record->size, record->id, kind};
	if (!gm_array_push(&r->chunks, chunk))
		memory_exhausted();
}

static void chunk_follow(struct reader *r, const struct gm_record *record)
{
	const uint64_t time = gm_figures_at(r->figures, record->time);
	if (record->kind != GM_RECORD_MAP && record->kind != GM_RECORD_UNMAP &&
	    record->kind != GM_RECORD_REMAP)
		return;
	if (record->kind != GM_RECORD_MAP)
		chunk_remove(r, record->id, time);
	if (record->kind != GM_RECORD_UNMAP)
		chunk_add(r, record, time,
			  record->flags & GM_RECORD_LENT ? GM_LIVES_LENT : GM_LIVES_POOL);
}

static void segment_end(struct reader *r, const struct gm_blocks_one *block, uint64_t death)
{
	const uint64_t birth = block->born ? gm_figures_at(r->figures, block->born) : 0;
	const struct gm_lives_chunk segment = {birth,	    0,	       block->address,
					       block->size, block->id, GM_LIVES_SEGMENT};
	if (block->address)
		chunk_end(r, &segment, death);
}

static void segment_follow(struct reader *r, const struct gm_record *record)
{
	struct gm_blocks_one block;
	if (gm_blocks_follow(&r->under, record, -1, &block) == GM_BLOCKS_GONE)
		segment_end(r, &block, gm_figures_at(r->figures, record->time));
}

/* --- the log --- */

/* Each segment begins with the blocks alive; those of the first are news, if older events are
 * missing. */
static bool record_counts(const struct reader *readers, const struct gm_record *record,
			  const struct gm_log_entry *entry)
{
	return record->kind != GM_RECORD_LIVE || (!readers[0].complete && entry->segment == 0);
}

/* Those with the highest peak first. */
static int peak_compare(const void *a, const void *b)
{
	const struct gm_lives_stack *x = a, *y = b;
	if (x->peak != y->peak)
		return x->peak > y->peak ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* In a log without its oldest events, a block with a free alone was alive from the first on. */
static void older_read(struct reader *readers, const struct gm_figures *f, enum gm_level level)
{
	struct gm_blocks alive[GM_COUNTER_DEVICES] = {0};
	struct gm_blocks_one block;
	struct gm_log_entry entry;
	gm_log_read_rewind(f->file);
	while (gm_log_read_next(f->file, &entry)) {
		const struct gm_record record = gm_level_view(level, &entry.record);
		if (entry.record.device >= f->n_devices || !record_counts(readers, &record, &entry))
			continue;
		struct gm_blocks *older = &readers[entry.record.device].older;
		switch (gm_blocks_follow(&alive[entry.record.device], &record, -1, &block)) {
		case GM_BLOCKS_UNBORN:
			early_add(older, &record);
			break;
		case GM_BLOCKS_BORN:
			early_remove(older, &record);
			break;
		default:
			break;
		}
	}
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		struct reader *r = &readers[d];
		for (size_t i = 0; i < r->older.room; i++)
			if (r->older.at[i].id)
				stack_born(r, stack_known(r, r->older.at[i].stack),
					   r->older.at[i].size, 1, 0);
		gm_blocks_free(&alive[d]);
	}
}

static void reader_end(struct reader *r)
{
	struct gm_lives *lives = r->lives;
	for (size_t i = 0; i < r->alive.room; i++)
		if (r->alive.at[i].id)
			block_end(r, &r->alive.at[i], GM_LIVES_END);
	if (r->before_blocks)
		life_push(r, &(struct gm_life){0, GM_LIVES_END, r->before, r->before_blocks,
					       r->before, GM_STACK_BEFORE});
	for (size_t i = 0; i < r->chunks.n; i++)
		chunk_end(r, &r->chunks.at[i], r->length + 1);
	for (size_t i = 0; i < r->under.room; i++)
		if (r->under.at[i].id)
			segment_end(r, &r->under.at[i], r->length + 1);
	chunks_thin(r);
	lives_thin(r, r->most);
	blocks_thin(r);
	if (lives->all.n)
		qsort(lives->all.at, lives->all.n, sizeof *lives->all.at, life_compare);
	if (lives->blocks.n)
		qsort(lives->blocks.at, lives->blocks.n, sizeof *lives->blocks.at, birth_compare);
	if (lives->stacks.n)
		qsort(lives->stacks.at, lives->stacks.n, sizeof *lives->stacks.at, peak_compare);
	gm_blocks_free(&r->alive);
	gm_blocks_free(&r->under);
	gm_blocks_free(&r->older);
	gm_blocks_free(&r->early);
	gm_array_free(&r->chunks);
	gm_array_free(&r->places);
}

void gm_lives_read(struct gm_lives_devices *out, const struct gm_figures *f, enum gm_level level,
		   size_t most)
{
	const struct gm_log_about *about = f->about;
	struct reader readers[GM_COUNTER_DEVICES];
	struct gm_log_entry entry;
	*out = (struct gm_lives_devices){0};
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		out->devices[d].tick = 1;
		readers[d] = (struct reader){.lives = &out->devices[d],
					     .figures = f,
					     .most = most,
					     .length = gm_figures_length(f),
					     .complete = about->since == about->start &&
							 !about->recording};
	}
	if (!readers[0].complete)
		older_read(readers, f, level);
	gm_log_read_rewind(f->file);
	while (gm_log_read_next(f->file, &entry)) {
		const struct gm_record record = gm_level_view(level, &entry.record);
		if (entry.record.device >= f->n_devices)
			continue;
		struct reader *r = &readers[entry.record.device];
		if (record_counts(readers, &record, &entry))
			record_follow(r, &record);
		chunk_follow(r, &entry.record);
		if (level != GM_LEVEL_TENSORS)
			continue;
		before_follow(r, &entry);
		if (record_counts(readers, &entry.record, &entry))
			segment_follow(r, &entry.record);
	}
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		reader_end(&readers[d]);
}

void gm_lives_free(struct gm_lives_devices *lives)
{
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		gm_array_free(&lives->devices[d].all);
		gm_array_free(&lives->devices[d].stacks);
		gm_array_free(&lives->devices[d].blocks);
		gm_array_free(&lives->devices[d].chunks);
	}
}
