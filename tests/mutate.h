/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logs with deliberate damage, selected by a number: the same seed does the same to the same log on
 * every machine. Most changes respect the layout (format.h), because blind flips are refused early.
 */
#ifndef GM_TESTS_MUTATE_H
#define GM_TESTS_MUTATE_H

#include <stdlib.h>
#include <string.h>

#include "log/format.h"
#include "log/page.h"

#define MUTATE_ROOM (4 * GM_MIB)

struct mutate {
	char *bytes; /* MUTATE_ROOM bytes */
	size_t n;
	uint64_t state;
};

static inline uint64_t mutate_number(struct mutate *m)
{
	m->state ^= m->state << 13;
	m->state ^= m->state >> 7;
	m->state ^= m->state << 17;
	return m->state;
}

static inline size_t mutate_below(struct mutate *m, size_t n)
{
	return n ? mutate_number(m) % n : 0;
}

/* Numbers at limits of integers. */
static inline uint64_t mutate_value(struct mutate *m, uint64_t before)
{
	const uint64_t values[] = {0,
				   1,
				   before + 1,
				   before - 1,
				   before * 2,
				   m->n,
				   m->n - 1,
				   m->n + 1,
				   GM_MIB,
				   GM_SEGMENT_EVENTS,
				   GM_TEXT_OFFSET,
				   GM_PAGE_OFFSET,
				   INT32_MAX,
				   UINT32_MAX,
				   INT64_MAX,
				   UINT64_MAX,
				   (uint64_t)1 << 63,
				   mutate_number(m)};
	return values[mutate_below(m, sizeof values / sizeof *values)];
}

/* Change one number of `size` bytes somewhere in [from, from + length). */
static inline void mutate_field(struct mutate *m, size_t from, size_t length, size_t size)
{
	uint64_t value = 0;
	size_t at = from + mutate_below(m, length / size) * size;
	if (at + size > m->n)
		return;
	memcpy(&value, m->bytes + at, size);
	value = mutate_value(m, value);
	memcpy(m->bytes + at, &value, size);
}

static inline size_t mutate_slots(const struct mutate *m)
{
	struct gm_segment_head head;
	if (m->n < sizeof head)
		return m->n;
	memcpy(&head, m->bytes, sizeof head);
	return head.slots_offset < m->n ? head.slots_offset : m->n;
}

/* The start of one of the slots. */
static inline size_t mutate_slot(struct mutate *m)
{
	size_t first = mutate_slots(m);
	return first + mutate_below(m, (m->n - first) / GM_SLOT_SIZE) * GM_SLOT_SIZE;
}

static inline void mutate_head(struct mutate *m)
{
	mutate_field(m, 8, sizeof(struct gm_segment_head) - 8, mutate_below(m, 2) ? 4 : 8);
}

static inline void mutate_page(struct mutate *m)
{
	size_t values = offsetof(struct gm_counter_page, value);
	size_t parts = GM_PAGE_OFFSET + offsetof(struct gm_counter_live, parts);
	size_t rows = offsetof(struct gm_parts, of);
	switch (mutate_below(m, 4)) {
	case 0:
		return mutate_field(m, GM_PAGE_OFFSET + 8, values - 8, 4);
	case 1:
		return mutate_field(m, parts, rows, mutate_below(m, 2) ? 4 : 2);
	case 2:
		return mutate_field(m, parts + rows, 4 * sizeof(struct gm_part_row), 8);
	default:
		return mutate_field(m, GM_PAGE_OFFSET + values, GM_PAGE_STRIDE * 3 * 8, 8);
	}
}

static inline void mutate_record(struct mutate *m)
{
	size_t at = mutate_slot(m);
	static const size_t sizes[] = {8, 8, 4, 2, 1};
	mutate_field(m, at, GM_SLOT_SIZE, sizes[mutate_below(m, 5)]);
}

static inline void mutate_kind(struct mutate *m)
{
	static const uint8_t kinds[] = {
		GM_RECORD_NONE,		 GM_RECORD_SAMPLE, GM_RECORD_STRING,
		GM_RECORD_OUT_OF_MEMORY, GM_RECORD_FREE,   GM_RECORD_ALLOCATE,
		GM_RECORD_LIVE,		 GM_RECORD_MORE,   77};
	size_t at = mutate_slot(m);
	if (at + GM_SLOT_SIZE <= m->n)
		m->bytes[at + GM_MORE_SIZE] = (char)kinds[mutate_below(m, sizeof kinds)];
}

static inline void mutate_text(struct mutate *m)
{
	static const char *const words[] = {
		"device=", "hook=",	 "knob=",
		"host=",   "\033[31m\n", "device=00112233445566778899aabbccddeeff",
		"",	   "\377\376"};
	const char *word = words[mutate_below(m, sizeof words / sizeof *words)];
	size_t at = GM_TEXT_OFFSET + mutate_below(m, 2048), n = strlen(word);
	if (at + n < m->n)
		memcpy(m->bytes + at, word, n + mutate_below(m, 2));
}

static inline void mutate_flip(struct mutate *m)
{
	if (m->n)
		m->bytes[mutate_below(m, m->n)] ^= (char)(1 << mutate_below(m, 8));
}

static inline void mutate_cut(struct mutate *m)
{
	size_t n = mutate_below(m, 2) ? mutate_slot(m) : mutate_below(m, m->n + 1);
	m->n = n < m->n ? n : m->n;
}

static inline void mutate_grow(struct mutate *m)
{
	size_t more = mutate_below(m, 3 * GM_SLOT_SIZE);
	bool zeros = mutate_below(m, 2);
	for (; more && m->n < MUTATE_ROOM; more--)
		m->bytes[m->n++] = zeros ? 0 : (char)mutate_number(m);
}

/* Slots in another order, or twice. */
static inline void mutate_move(struct mutate *m)
{
	size_t from = mutate_slot(m), to = mutate_slot(m), room = from > to ? from : to;
	size_t n = mutate_below(m, (m->n - room) / GM_SLOT_SIZE + 1) * GM_SLOT_SIZE;
	memmove(m->bytes + to, m->bytes + from, n);
}

/* Append another segment, like the first but for its number. */
static inline void mutate_segment(struct mutate *m)
{
	size_t at = (m->n + GM_MIB - 1) / GM_MIB * GM_MIB, n = m->n < GM_MIB ? m->n : GM_MIB;
	struct gm_segment_head head;
	if (n < sizeof head || at + n > MUTATE_ROOM)
		return;
	memcpy(&head, m->bytes, sizeof head);
	head.size = GM_MIB;
	memcpy(m->bytes, &head, sizeof head);
	memset(m->bytes + m->n, 0, at - m->n);
	memcpy(m->bytes + at, m->bytes, n);
	head.sequence = mutate_below(m, 4);
	memcpy(m->bytes + at, &head, sizeof head);
	m->n = at + n;
}

/* Copy a good log of `n` bytes into m->bytes, with the damage that `seed` selects. */
static inline void mutate(struct mutate *m, const char *good, size_t n, uint64_t seed)
{
	static void (*const ways[])(struct mutate *) = {
		mutate_head,	mutate_head, mutate_page, mutate_page, mutate_record,
		mutate_record,	mutate_kind, mutate_text, mutate_flip, mutate_cut,
		mutate_segment, mutate_move, mutate_grow,
	};
	m->state = seed * 0x9e3779b97f4a7c15u | 1;
	m->n = n < MUTATE_ROOM ? n : MUTATE_ROOM;
	memcpy(m->bytes, good, m->n);
	for (size_t i = 0; i < 8; i++)
		mutate_number(m);
	for (size_t i = 1 + mutate_below(m, 6); i; i--)
		ways[mutate_below(m, sizeof ways / sizeof *ways)](m);
}

#endif
