/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which a record and its body appear in a segment. A reader concurrent with the
 * writer, or after it was killed, takes any slot with a kind for complete. segment.c is included so
 * that the test can inspect each copy.
 */
#include <stddef.h>
#include <string.h>

static void *copied_by_test(void *to, const void *from, size_t n);
#define memcpy copied_by_test
#include "../../src/log/segment.c"
#undef memcpy

#include "../tap.h"

#define SLOTS 8
static struct gm_record slots[SLOTS];
static unsigned copies, wrong;

static uint8_t kind_of(const void *slot)
{
	const struct gm_record *record = slot;
	return __atomic_load_n(&record->kind, __ATOMIC_ACQUIRE);
}

/* A slot is visible only after it is copied, and the record only after its body. */
static void *copied_by_test(void *to, const void *from, size_t n)
{
	struct gm_record *slot = to;
	copies++;
	wrong += kind_of(slot) != GM_RECORD_NONE || kind_of(&slots[0]) != GM_RECORD_NONE;
	if (slot == &slots[0])
		for (unsigned i = 1; i < copies; i++)
			wrong += kind_of(&slots[i]) != GM_RECORD_MORE;
	memcpy(to, from, n);
	wrong += kind_of(slot) != GM_RECORD_NONE;
	return to;
}

static void appears_last(size_t length)
{
	char body[3 * GM_MORE_SIZE], read[3 * GM_MORE_SIZE];
	const struct gm_record record = {.time = 7, .size = length, .kind = GM_RECORD_MARK};
	struct gm_segment segment = {.base = (char *)slots, .slots = SLOTS};
	unsigned n = gm_format_slots(length);
	memset(slots, 0, sizeof slots);
	for (size_t i = 0; i < sizeof body; i++)
		body[i] = (char)(i + 1);
	copies = wrong = 0;
	gm_segment_write(&segment, 0, &record, body, length);
	TAP_IS(copies, n, "%zu bytes of body: %u slots", length, n);
	TAP_IS(wrong, 0, "each kind appears behind its slot, that of the record behind its body");
	TAP_OK(memcmp(&slots[0], &record, sizeof record) == 0, "a written record is in its slot");
	for (size_t at = 0; at < length; at += GM_MORE_SIZE)
		memcpy(read + at, &slots[1 + at / GM_MORE_SIZE],
		       length - at < GM_MORE_SIZE ? length - at : GM_MORE_SIZE);
	TAP_OK(memcmp(read, body, length) == 0, "the body of a record is in the slots behind it");
	TAP_IS(kind_of(&slots[n]), GM_RECORD_NONE, "nothing behind it is touched");
}

int main(void)
{
	appears_last(0);
	appears_last(1);
	appears_last(GM_MORE_SIZE);
	appears_last(GM_MORE_SIZE + 1);
	appears_last(3 * GM_MORE_SIZE);
	return tap_done();
}
