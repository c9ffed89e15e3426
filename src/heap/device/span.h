/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Granules for the policies: one, or a run side by side, taken and given back by single lanes; and
 * growth, by asking the host for more while the kernel runs.
 */
#ifndef GM_HEAP_DEVICE_SPAN_H
#define GM_HEAP_DEVICE_SPAN_H

#include "heap/device/bits.h"

#define GM_HOST_DEAD 1000000000ull   /* ns without a beat after which nobody waits for the host */
#define GM_REFUSAL_LASTS 100000ull /* ns for which a refusal is believed without asking again */

GM_DEVICE char *gm_span_address(const struct gm_heap *heap, uint32_t granule)
{
	return (char *)(uintptr_t)(heap->base + ((uint64_t)granule << GM_GRANULE_SHIFT));
}

GM_DEVICE void gm_span_give(struct gm_heap *heap, uint32_t first, uint32_t count)
{
	gm_add64(&heap->available, count);
	while (count) {
		uint32_t bit = first & 63, n = 64 - bit < count ? 64 - bit : count;
		gm_bits_fill(&heap->free, first >> 6, (n == 64 ? ~0ull : (1ull << n) - 1) << bit);
		first += n;
		count -= n;
	}
	gm_add32(&heap->epoch, 1);
}

/* Take in what the host has granted. Only for the lane that holds heap->growing. */
GM_DEVICE bool gm_span_collect(struct gm_heap *heap)
{
	uint64_t have = gm_load64_system(&heap->mail->have.value), at = gm_load64(&heap->grants);
	if (at == have)
		return false;
	for (; at < have; at++) {
		uint64_t grant = gm_load64_system(&heap->mail->grant[at % GM_GRANTS]);
		gm_span_give(heap, (uint32_t)(grant >> 32), (uint32_t)grant);
		gm_add64(&heap->granted, (uint32_t)grant);
	}
	gm_store64(&heap->grants, have);
	gm_store64_system(&heap->mail->taken.value, have);
	return true;
}

/* With heap->growing held: ask for `need` more than came so far, and wait. */
GM_DEVICE bool gm_span_ask(struct gm_heap *heap, uint32_t need)
{
	uint64_t want = gm_load64(&heap->granted) + need;
	uint64_t beat = 0, beat_at = gm_nanoseconds();
	if (gm_load64_system(&heap->mail->want.value) < want)
		gm_store64_system(&heap->mail->want.value, want);
	for (;;) {
		if (gm_span_collect(heap) || (need == 1 && gm_load64(&heap->available) != 0))
			return true;
		uint64_t now = gm_nanoseconds(), seen = gm_load64_system(&heap->mail->beat.value);
		uint64_t refused = gm_load64_system(&heap->mail->refused.value);
		if (seen != beat) {
			beat = seen;
			beat_at = now;
		}
		if ((refused && refused <= want) || now - beat_at > GM_HOST_DEAD) {
			gm_store64(&heap->refused_at, now);
			gm_store64(&heap->refused, want);
			return false;
		}
		gm_pause(500);
	}
}

/*
 * No `need` granules were found: wait for more. True: look again. False: the host refused, or it
 * does not answer.
 */
GM_DEVICE_SLOW bool gm_span_grow(struct gm_heap *heap, uint32_t need)
{
	uint64_t granted = gm_load64(&heap->granted), refused = gm_load64(&heap->refused);
	if (refused && granted + need >= refused &&
	    gm_nanoseconds() - gm_load64(&heap->refused_at) < GM_REFUSAL_LASTS)
		return false;
	if (gm_cas32(&heap->growing, 0, 1) != 0) {
		gm_pause(500);
		return true;
	}
	bool more = gm_load64(&heap->granted) != granted || gm_span_ask(heap, need);
	gm_store32_release(&heap->growing, 0);
	return more;
}

/* Below the mark: ask without waiting, so that waiting is the exception. */
GM_DEVICE_SLOW void gm_span_ask_ahead(struct gm_heap *heap)
{
	if (gm_cas32(&heap->growing, 0, 1) != 0)
		return;
	uint64_t want = gm_load64(&heap->granted) + heap->low;
	uint64_t refused = gm_load64_system(&heap->mail->refused.value);
	if (!gm_span_collect(heap) && (!refused || want < refused) &&
	    gm_load64_system(&heap->mail->want.value) < want)
		gm_store64_system(&heap->mail->want.value, want);
	gm_store32_release(&heap->growing, 0);
}

/* One free granule, found from somewhere that `seed` says, or GM_NO_GRANULE. */
GM_DEVICE uint32_t gm_span_take_one(struct gm_heap *heap, uint32_t seed)
{
	uint32_t granule = gm_bits_take(&heap->free, heap->summaries, seed);
	if (granule != GM_NO_GRANULE && gm_add64(&heap->available, ~0ull) <= heap->low)
		gm_span_ask_ahead(heap);
	return granule;
}

/* The bits of word `w` that belong to granules [first, first + count). */
GM_DEVICE uint64_t gm_span_part(uint32_t w, uint32_t first, uint32_t count)
{
	uint32_t from = w << 6 > first ? w << 6 : first;
	uint32_t end = first + count < (w + 1) << 6 ? first + count : (w + 1) << 6;
	return (end - from == 64 ? ~0ull : (1ull << (end - from)) - 1) << (from & 63);
}

/* Take exactly these; false: one was gone, and none was taken. */
GM_DEVICE bool gm_span_claim(struct gm_heap *heap, uint32_t first, uint32_t count)
{
	uint32_t w = first >> 6, last = (first + count - 1) >> 6;
	for (; w <= last; w++) {
		uint64_t part = gm_span_part(w, first, count);
		uint64_t won = gm_bits_drain(&heap->free, w, part);
		if (won == part)
			continue;
		if (won)
			gm_bits_fill(&heap->free, w, won);
		while (w-- > first >> 6)
			gm_bits_fill(&heap->free, w, gm_span_part(w, first, count));
		return false;
	}
	gm_add64(&heap->available, 0ull - count);
	return true;
}

/* `count` free granules side by side, from the end of the heap; or GM_NO_GRANULE. */
GM_DEVICE_SLOW uint32_t gm_span_take_run(struct gm_heap *heap, uint32_t count)
{
	uint32_t run = 0;
	for (uint32_t w = (heap->capacity + 63) >> 6; w-- > 0;) {
		uint64_t word = gm_load64(&heap->free.word[w]);
		if (word == 0) {
			run = 0;
			continue;
		}
		for (uint32_t bit = 64; bit-- > 0;) {
			run = word >> bit & 1 ? run + 1 : 0;
			if (run < count)
				continue;
			if (gm_span_claim(heap, w << 6 | bit, count))
				return w << 6 | bit;
			run = 0;
		}
	}
	return GM_NO_GRANULE;
}

#endif
