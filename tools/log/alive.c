/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/alive.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "tools/tool.h"

enum { NOWHERE = 0, HEADS_LEAST = 1024 }; /* numbers of blocks count from 1 */
enum { UNUSED, BEGUN, ENDED, FOUND }; /* records seen of a block: ALLOCATE or LIVE; FREE; both */

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

const char *gm_alive_missing(const struct gm_log_about *about)
{
	const uint32_t needed = 1u << GM_RECORD_ALLOCATE | 1u << GM_RECORD_FREE;
	if (*about->level == 's')
		return "no events in this log: 'gpumemstat record' keeps them";
	if ((about->kept & needed) != needed)
		return "not in this log: GPUMEM_LOG_EVENTS was without allocate and free";
	return NULL;
}

static bool record_is_free(const struct gm_record *r)
{
	return r->kind == GM_RECORD_FREE && !r->status; /* a refused free has no effect */
}

static unsigned row_of(const struct gm_record *r)
{
	return r->device < GM_COUNTER_DEVICES ? r->device : GM_COUNTER_DEVICES - 1;
}

/* A time as the output rounds it, to three digits, is not behind the end. */
const char *gm_alive_unknown(struct gm_log_file *file, const struct gm_moment_wish *wish)
{
	static char why[96];
	const struct gm_log_about *about = gm_log_read_about(file);
	const uint64_t length = about->end > about->start ? about->end - about->start : 0;
	const uint64_t since = about->since - about->start;
	char time[32];
	if (wish->kind != GM_MOMENT_TIME)
		return NULL;
	if ((wish->range ? wish->from : wish->time) < since)
		snprintf(why, sizeof why, "not known: events as old as that were dropped");
	else if (wish->time > length + length / 200)
		snprintf(why, sizeof why, "at no time: the log ends at %s",
			 gm_time_format(length, time, sizeof time));
	else
		return NULL;
	return why;
}

/* The end of a log, or a time, is the same record for all devices. */
static void moments_all(struct gm_log_file *file, const struct gm_moment_wish *wish,
			struct gm_alive_moment *moments)
{
	const struct gm_log_about *about = gm_log_read_about(file);
	struct gm_alive_moment all = {true, {GM_ALIVE_END, about->end}, 0};
	if (wish->kind == GM_MOMENT_TIME) {
		gm_moment_find(file, 0, true, wish, &all.at);
		all.known = !gm_alive_unknown(file, wish);
		all.since = wish->range ? about->start + wish->from : 0;
	}
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		moments[d] = all;
}

void gm_alive_moments(struct gm_log_file *file, const struct gm_moment_wish *wish,
		      struct gm_alive_moment moments[GM_COUNTER_DEVICES])
{
	if (wish->kind == GM_MOMENT_EXIT || wish->kind == GM_MOMENT_TIME) {
		moments_all(file, wish, moments);
		return;
	}
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		moments[d].known = gm_log_read_counter(file, d, GM_C_allocate_calls) &&
				   gm_moment_find(file, d, true, wish, &moments[d].at);
}

/* --- blocks --- */

struct search {
	struct gm_alive *alive;
	const struct gm_alive_moment *moments;
	size_t n; /* blocks in use */
	enum gm_level level;
	bool leaks, complete;
};

static uint32_t *head_of(struct gm_alive *alive, uint64_t id)
{
	return &alive->heads.at[(id * 0x9e3779b97f4a7c15u >> 32) & (alive->heads.n - 1)];
}

static void heads_grow(struct gm_alive *alive)
{
	size_t n = alive->heads.n ? 2 * alive->heads.n : HEADS_LEAST;
	if (!gm_array_reserve(&alive->heads, n))
		memory_exhausted();
	alive->heads.n = n;
	for (size_t i = 0; i < n; i++)
		alive->heads.at[i] = NOWHERE;
	for (size_t i = 0; i < alive->blocks.n; i++) {
		struct gm_alive_block *b = &alive->blocks.at[i];
		uint32_t *head = head_of(alive, b->id);
		if (b->state == UNUSED)
			continue;
		b->next = *head;
		*head = (uint32_t)i + 1;
	}
}

/* The link to the block with this id and device; a link to NOWHERE: none. */
static uint32_t *link_find(struct gm_alive *alive, const struct gm_record *r)
{
	uint32_t *link = head_of(alive, r->id);
	while (*link && (alive->blocks.at[*link - 1].id != r->id ||
			 alive->blocks.at[*link - 1].device != row_of(r)))
		link = &alive->blocks.at[*link - 1].next;
	return link;
}

static struct gm_alive_block *block_add(struct search *search, const struct gm_record *r)
{
	struct gm_alive *alive = search->alive;
	uint32_t number = alive->free;
	if (search->n >= alive->heads.n)
		heads_grow(alive);
	if (number == NOWHERE) {
		if (alive->blocks.n == UINT32_MAX - 1 ||
		    !gm_array_push(&alive->blocks, (struct gm_alive_block){0}))
			memory_exhausted();
		number = (uint32_t)alive->blocks.n;
	} else {
		alive->free = alive->blocks.at[number - 1].next;
	}
	uint32_t *head = head_of(alive, r->id);
	struct gm_alive_block *b = &alive->blocks.at[number - 1];
	*b = (struct gm_alive_block){.id = r->id,
				     .size = r->size,
				     .address = r->address,
				     .death = GM_ALIVE_END,
				     .context = r->context,
				     .next = *head,
				     .n = 1,
				     .device = (uint8_t)row_of(r),
				     .driver = r->flags & GM_RECORD_DRIVER};
	*head = number;
	search->n++;
	return b;
}

static void block_drop(struct search *search, uint32_t *link)
{
	struct gm_alive *alive = search->alive;
	uint32_t number = *link;
	struct gm_alive_block *b = &alive->blocks.at[number - 1];
	*link = b->next;
	b->state = UNUSED;
	b->next = alive->free;
	alive->free = number;
	search->n--;
}

static bool block_was_alive(const struct search *search, const struct gm_alive_block *b)
{
	const struct gm_alive_moment *moment = &search->moments[b->device];
	if (!moment->known || b->birth > moment->at.records)
		return false;
	return (search->leaks && b->gone) || b->death == GM_ALIVE_END ||
	       b->death > moment->at.records;
}

/* Both ends of the block are known: keep it if it was alive at the moment. */
static void block_finish(struct search *search, struct gm_alive_block *b, uint32_t *link)
{
	b->state = FOUND;
	if (!block_was_alive(search, b))
		block_drop(search, link);
}

static void birth_add(struct search *search, const struct gm_record *r, uint64_t n)
{
	uint32_t *link = link_find(search->alive, r);
	struct gm_alive_block *b =
		*link ? &search->alive->blocks.at[*link - 1] : block_add(search, r);
	if (b->state == FOUND)
		return;
	b->birth = n;
	b->time = n ? r->time : 0;
	if (r->stack || b->stack == GM_STACK_BEFORE) /* an ALLOCATE knows better */
		b->stack = r->stack;
	if (b->state == ENDED)
		block_finish(search, b, link_find(search->alive, r));
	else
		b->state = BEGUN;
}

static void death_add(struct search *search, const struct gm_record *r, uint64_t n)
{
	uint32_t *link = link_find(search->alive, r);
	struct gm_alive_block *b =
		*link ? &search->alive->blocks.at[*link - 1] : block_add(search, r);
	if (b->state == FOUND || b->state == ENDED)
		return;
	b->death = n;
	b->gone = r->flags & GM_RECORD_CONTEXT_GONE;
	if (b->state == BEGUN)
		block_finish(search, b, link_find(search->alive, r));
	else
		b->state = ENDED;
}

/* --- tensors from before a recording --- */

/* All of a device are one block. */
static void before_add(struct search *search, const struct gm_record *r)
{
	birth_add(search, r, 0);
	struct gm_alive_block *b = &search->alive->blocks.at[*link_find(search->alive, r) - 1];
	b->n = (uint32_t)r->held;
}

/* A tensor without a number was one of them. Those that went after the moment count. */
static void before_remove(struct search *search, const struct gm_record *r, uint64_t n)
{
	struct gm_record lump = {.id = GM_TENSORS_BEFORE, .device = r->device};
	const struct gm_alive_moment *moment = &search->moments[row_of(r)];
	const uint32_t number = *link_find(search->alive, &lump);
	if (number == NOWHERE || !moment->known || n > moment->at.records)
		return;
	struct gm_alive_block *b = &search->alive->blocks.at[number - 1];
	b->n -= b->n > 0;
	b->size -= r->size < b->size ? r->size : b->size;
}

/* For a log without its oldest events: the blocks alive at its first record. Later segments repeat
 * LIVE records of blocks whose ALLOCATE is in the log, so only the first segment counts. */
static void live_read(struct search *search, struct gm_log_file *file)
{
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record r = gm_level_view(search->level, &entry.record);
		if (entry.segment != 0)
			continue;
		if (r.kind == GM_RECORD_LIVE)
			birth_add(search, &r, 0);
		else if (search->level == GM_LEVEL_TENSORS && entry.record.id == GM_TENSORS_BEFORE)
			before_add(search, &entry.record);
	}
}

static void events_read(struct search *search, struct gm_log_file *file)
{
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	for (uint64_t n = 1; gm_log_read_next(file, &entry); n++) {
		const struct gm_record r = gm_level_view(search->level, &entry.record);
		if (r.kind == GM_RECORD_ALLOCATE)
			birth_add(search, &r, n);
		else if (record_is_free(&r))
			death_add(search, &r, n);
		else if (entry.record.kind == GM_RECORD_TENSOR_FREE && !entry.record.id)
			before_remove(search, &entry.record, n);
	}
}

/* Finish blocks with one known end: not freed, or freed and their ALLOCATE was dropped. In a
 * complete log no ALLOCATE was dropped. */
static void rest_finish(struct search *search)
{
	struct gm_alive *alive = search->alive;
	size_t to = 0;
	for (size_t i = 0; i < alive->blocks.n; i++) {
		const struct gm_alive_block *b = &alive->blocks.at[i];
		if (b->id == GM_TENSORS_BEFORE && !b->n)
			continue;
		bool found = b->state == FOUND ||
			     ((b->state == BEGUN || (b->state == ENDED && !search->complete)) &&
			      block_was_alive(search, b));
		if (found && b->time >= search->moments[b->device].since)
			alive->blocks.at[to++] = *b;
	}
	alive->blocks.n = to;
}

void gm_alive_find(struct gm_log_file *file, const struct gm_alive_moment *moments, bool leaks,
		   enum gm_level level, struct gm_alive *out)
{
	const struct gm_log_about *about = gm_log_read_about(file);
	struct search search = {.alive = out,
				.moments = moments,
				.leaks = leaks,
				.level = level,
				.complete = about->since == about->start && !about->recording};
	*out = (struct gm_alive){0};
	heads_grow(out);
	if (!search.complete)
		live_read(&search, file);
	events_read(&search, file);
	rest_finish(&search);
}

void gm_alive_free(struct gm_alive *alive)
{
	gm_array_free(&alive->blocks);
	gm_array_free(&alive->heads);
}
