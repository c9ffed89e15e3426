/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Granules for the policies: single lanes take one, or a run side by side, and return them; and
 * growth: lanes ask the host for more while the kernel runs.
 */
#ifndef GM_HEAP_DEVICE_SPAN_H
#define GM_HEAP_DEVICE_SPAN_H

#include "heap/device/bits.h"

#define GM_HOST_DEAD 1000000000ull	  /* ns without a beat after which lanes give the host up */
#define GM_HOST_STUCK (10 * GM_HOST_DEAD) /* likewise with GM_BEAT_CALLING */
#define GM_POLL 500			  /* ns between two polls of the mailbox */
/* Of the time between two polls at most this counts: another process may have had the GPU. */
#define GM_POLL_NS (GM_HOST_DEAD / 100)

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

/*
 * Growth. The mailbox lies in host memory. So the lanes that need granules read the device's copies
 * of its words, and at most one lane every GM_POLL reads the mailbox: the lane that advances
 * `polled_at`. No lane waits for a resource that another lane holds.
 */

/* Words of a summary that cover all granules granted so far. */
GM_DEVICE uint32_t gm_span_reach(const struct gm_heap *heap)
{
	uint32_t reach = gm_load32(&heap->reach);
	return reach ? reach : 1;
}

GM_DEVICE void gm_span_extend(struct gm_heap *heap, uint32_t end)
{
	uint32_t reach = gm_load32(&heap->reach), seen, need = (end + 4095) >> 12;
	for (; reach < need; reach = seen)
		if ((seen = gm_cas32(&heap->reach, reach, need)) == reach)
			return;
}

/* Put the first `have` grants of the host into `free`, if not done, and tell the host. */
GM_DEVICE void gm_span_fetch(struct gm_heap *heap, uint64_t have)
{
	uint64_t at = gm_load64(&heap->grants);
	if (at >= have)
		return;
	while (at < have) {
		uint64_t grant = gm_peek64_system(&heap->mail->grant[at % GM_GRANTS]);
		uint64_t seen = gm_cas64(&heap->grants, at, at + 1);
		if (seen == at) {
			gm_span_extend(heap, (uint32_t)(grant >> 32) + (uint32_t)grant);
			gm_span_give(heap, (uint32_t)(grant >> 32), (uint32_t)grant);
			gm_add64(&heap->granted, (uint32_t)grant);
			gm_store64(&heap->wished, 0); /* lanes that still wait wish anew */
			seen = at + 1;
		}
		at = seen;
	}
	/* Two lanes may be here: the one that stores last has seen the last value. */
	do {
		at = gm_load64(&heap->grants);
		gm_store64_system(&heap->mail->taken.value, at);
	} while (gm_load64(&heap->grants) != at);
}

GM_DEVICE void gm_span_collect(struct gm_heap *heap)
{
	gm_span_fetch(heap, gm_load64_system(&heap->mail->have.value));
}

/* Poll the mailbox, unless another lane did within GM_POLL: write `want`, read the answers. The
 * caller has waited since `began`; GM_NO_WAIT: it does not wait. */
#define GM_NO_WAIT (~0ull)
GM_DEVICE_SLOW void gm_span_poll_since(struct gm_heap *heap, uint64_t began)
{
	uint64_t now = gm_nanoseconds(), last = gm_load64(&heap->polled_at), waited = now - last;
	/* Another lane may have polled since this one read the clock. */
	if (waited < GM_POLL || last - now < GM_HOST_DEAD ||
	    gm_cas64(&heap->polled_at, last, now) != last)
		return;
	/* Of lanes that wait together, this one counts the time since the last poll. */
	began = last > began ? last : began;
	if (began < now)
		gm_add64(&heap->stalled, now - began < GM_POLL_NS ? now - began : GM_POLL_NS);
	/* All of these cross the bus at once. */
	gm_post64_system(&heap->mail->wish.value, gm_load64(&heap->wished));
	gm_post64_system(&heap->mail->want.value, gm_load64(&heap->wanted));
	uint64_t have = gm_peek64_system(&heap->mail->have.value);
	uint64_t refused = gm_peek64_system(&heap->mail->refused.value);
	uint64_t beat = gm_peek64_system(&heap->mail->beat.value);
	gm_fence_system();
	gm_store64(&heap->refused, refused); /* larger than all earlier grants */
	waited = waited < GM_POLL_NS ? waited : GM_POLL_NS;
	waited += gm_add64(&heap->waited, waited);
	if (beat != gm_load64(&heap->beat)) {
		gm_store64(&heap->beat, beat);
		gm_store64(&heap->beat_at, waited);
	}
	gm_span_fetch(heap, have);
	gm_store64(&heap->seen_at, now);
}

GM_DEVICE void gm_span_poll(struct gm_heap *heap)
{
	gm_span_poll_since(heap, GM_NO_WAIT);
}

/* `want` granules are needed in total. */
GM_DEVICE void gm_span_want(struct gm_heap *heap, uint64_t want)
{
	uint64_t wanted = gm_load64(&heap->wanted);
	while (wanted < want) {
		uint64_t seen = gm_cas64(&heap->wanted, wanted, want);
		wanted = seen == wanted ? want : seen;
	}
}

/*
 * The lane that wanted `want` granules no longer does. So no want outlives its lane, except a small
 * one of gm_span_ask_ahead. A larger want that is withdrawn here may have hidden another lane's: a
 * waiting lane writes its own again.
 */
GM_DEVICE void gm_span_unwant(struct gm_heap *heap, uint64_t want)
{
	uint64_t granted = gm_load64(&heap->granted);
	if (want > granted && gm_load64(&heap->wanted) == want)
		gm_cas64(&heap->wanted, want, granted);
}

/* All waiting lanes could use `wish` granules. A hint for the host; the largest one counts. */
GM_DEVICE void gm_span_wish(struct gm_heap *heap, uint64_t wish)
{
	if (gm_load64(&heap->wished) < wish)
		gm_store64(&heap->wished, wish);
}

/* A lane that waits for granules. */
struct gm_span_wait {
	uint64_t granted, began, from;
	uint32_t need, wish, epoch;
};

enum gm_span_answer { GM_SPAN_NO, GM_SPAN_MORE, GM_SPAN_WAIT };

/*
 * `need` granules were not found: begin to wait for more. `wish`: granules that all lanes waiting
 * like this one could use, so that the heap grows by their need at once. `epoch`: of the heap,
 * before the search, which may have missed later granules.
 */
GM_DEVICE void gm_span_wait_begin(const struct gm_heap *heap, uint32_t need, uint32_t wish,
				  uint32_t epoch, struct gm_span_wait *w)
{
	w->granted = gm_load64(&heap->granted);
	w->began = gm_nanoseconds();
	w->from = gm_load64(&heap->waited);
	w->need = need;
	w->wish = wish;
	w->epoch = epoch;
}

/* Wait for a while. GM_SPAN_MORE: search again. GM_SPAN_NO: the host refused, or does not answer.
 * GM_SPAN_WAIT: no answer yet. */
GM_DEVICE enum gm_span_answer gm_span_wait_turn(struct gm_heap *heap, const struct gm_span_wait *w)
{
	gm_span_wish(heap, w->wish);
	gm_span_want(heap, w->granted + w->need);
	gm_span_poll_since(heap, w->began);
	uint64_t want = w->granted + w->need, refused = gm_load64(&heap->refused);
	bool more = gm_load64(&heap->granted) != w->granted ||
		    (gm_load32(&heap->epoch) != w->epoch && gm_load64(&heap->available) >= w->need);
	if (more || (refused && refused <= want)) {
		gm_span_unwant(heap, want);
		gm_store64(&heap->wished, 0);
		return more ? GM_SPAN_MORE : GM_SPAN_NO;
	}
	uint64_t since = gm_load64(&heap->beat_at), beat = gm_load64(&heap->beat);
	since = since > w->from ? since : w->from;
	if (gm_load64(&heap->dead) == beat + 1 && gm_load64(&heap->seen_at) > w->began)
		return GM_SPAN_NO;
	uint64_t most = beat & GM_BEAT_CALLING ? GM_HOST_STUCK : GM_HOST_DEAD;
	if ((int64_t)(gm_load64(&heap->waited) - since) > (int64_t)most)
		gm_store64(&heap->dead, beat + 1);
	gm_pause(GM_POLL);
	return GM_SPAN_WAIT;
}

/* Wait until there is an answer. False: GM_SPAN_NO. */
GM_DEVICE_SLOW bool gm_span_grow(struct gm_heap *heap, uint32_t need, uint32_t wish, uint32_t epoch)
{
	struct gm_span_wait w;
	enum gm_span_answer answer;
	gm_span_wait_begin(heap, need, wish, epoch, &w);
	while ((answer = gm_span_wait_turn(heap, &w)) == GM_SPAN_WAIT)
		;
	return answer == GM_SPAN_MORE;
}

/* Few granules are free: ask for more without waiting, so that lanes seldom have to wait. */
GM_DEVICE_SLOW void gm_span_ask_ahead(struct gm_heap *heap)
{
	gm_span_want(heap, gm_load64(&heap->granted) + heap->low);
	gm_span_poll(heap);
}

/* Lower `least`: `available` granules are free after some were taken. */
GM_DEVICE_SLOW void gm_span_lower(struct gm_heap *heap, uint64_t available)
{
	uint64_t least = gm_load64(&heap->least), seen;
	for (; available < least; least = seen)
		if ((seen = gm_cas64(&heap->least, least, available)) == least)
			return;
}

/* A granule that was free, but is not counted as taken yet; or GM_NO_GRANULE. A function of its
 * own, so that its stack frame and those of gm_span_ask_ahead do not add up. */
GM_DEVICE_SLOW uint32_t gm_span_draw(const struct gm_heap *heap, uint32_t seed)
{
	return gm_bits_take(&heap->free, gm_span_reach(heap), seed);
}

/* Count a granule that was drawn as taken. */
GM_DEVICE void gm_span_took_one(struct gm_heap *heap)
{
	uint64_t available = gm_add64(&heap->available, ~0ull);
	if (available <= gm_load64(&heap->least))
		gm_span_lower(heap, available - 1);
	if (available <= heap->low && heap->low)
		gm_span_ask_ahead(heap);
}

/* One free granule, or GM_NO_GRANULE; `seed` spreads lanes over the granules. */
GM_DEVICE uint32_t gm_span_take_one(struct gm_heap *heap, uint32_t seed)
{
	uint32_t granule = gm_span_draw(heap, seed);
	if (granule != GM_NO_GRANULE)
		gm_span_took_one(heap);
	return granule;
}

/* Take up to `most` free granules of word `w`. Returns their bits. */
GM_DEVICE uint64_t gm_span_take_some(struct gm_heap *heap, uint32_t w, uint32_t most)
{
	uint64_t bits = gm_bits_drain(&heap->free, w, ~0ull), kept = 0;
	uint32_t n = 0;
	for (uint64_t rest = bits; rest && n < most; rest &= rest - 1, n++)
		kept |= rest & (~rest + 1);
	if (bits != kept)
		gm_bits_fill(&heap->free, w, bits & ~kept);
	if (n == 0)
		return 0;
	uint64_t available = gm_add64(&heap->available, 0ull - n);
	gm_span_lower(heap, available - n);
	if (available <= heap->low + n && heap->low)
		gm_span_ask_ahead(heap);
	return kept;
}

/* The bits of word `w` that belong to granules [first, first + count). */
GM_DEVICE uint64_t gm_span_part(uint32_t w, uint32_t first, uint32_t count)
{
	uint32_t from = w << 6 > first ? w << 6 : first;
	uint32_t end = first + count < (w + 1) << 6 ? first + count : (w + 1) << 6;
	return (end - from == 64 ? ~0ull : (1ull << (end - from)) - 1) << (from & 63);
}

/*
 * Take exactly these granules; false: one was not free, and none is taken. Some may have been taken
 * for a moment: a change of the epoch tells lanes that missed them.
 */
GM_DEVICE bool gm_span_claim(struct gm_heap *heap, uint32_t first, uint32_t count)
{
	uint32_t w = first >> 6, last = (first + count - 1) >> 6;
	for (; w <= last; w++) {
		uint64_t part = gm_span_part(w, first, count);
		uint64_t won = gm_bits_drain(&heap->free, w, part);
		if (won == part)
			continue;
		bool any = won || w > first >> 6;
		if (won)
			gm_bits_fill(&heap->free, w, won);
		while (w-- > first >> 6)
			gm_bits_fill(&heap->free, w, gm_span_part(w, first, count));
		if (any)
			gm_add32(&heap->epoch, 1);
		return false;
	}
	gm_span_lower(heap, gm_add64(&heap->available, 0ull - count) - count);
	return true;
}

/*
 * The start of the last `count` free granules side by side, in word `w` and the free ones behind it
 * up to *top; or GM_NO_GRANULE. Then *top is the end of the free ones at the start of word `w`.
 */
GM_DEVICE uint32_t gm_span_fit(uint64_t word, uint32_t w, uint32_t count, uint32_t *top)
{
	uint32_t end = (w + 1) << 6, high = ~word ? 63 - gm_log2(~word) : 64;
	if (*top - end + high >= count)
		return *top - count;
	if (high == 64)
		return GM_NO_GRANULE;
	*top = w << 6 | gm_log2(~word & (word + 1)); /* the first bit that is clear */
	if (count > 64)
		return GM_NO_GRANULE;
	/* A bit of `word` is set where `n` free ones begin. */
	for (uint32_t n = 1, more; n < count; n += more) {
		more = count - n < n ? count - n : n;
		word &= word >> more;
	}
	return word ? w << 6 | gm_log2(word) : GM_NO_GRANULE;
}

/* The place from which the caller searches on after others took its find, for the `lost`th time:
 * the end of a run of its own, among the runs for which `granules` have room. */
GM_DEVICE uint32_t gm_span_elsewhere(uint32_t granules, uint32_t count, uint32_t lost)
{
	uint32_t lane = (gm_sm() << 6 | (gm_warp() & 63)) << 5 | gm_lane();
	return (gm_high32((lane + lost * 7919) * 0x9e3779b9u, granules / count) + 1) * count;
}

/*
 * Take `count` free granules side by side, nearest to the heap's end; or GM_NO_GRANULE. Lanes that
 * search at once find the same ones. The losers search on from places of their own, so that they do
 * not lose one by one.
 */
GM_DEVICE_SLOW uint32_t gm_span_take_run(struct gm_heap *heap, uint32_t count)
{
	uint32_t all = gm_span_reach(heap) << 12, group = ~0u, lost = 0;
	all = all < heap->capacity ? all : heap->capacity;
	if (gm_load64(&heap->available) < count || all < count) /* never less than there are */
		return GM_NO_GRANULE;
	uint32_t words = (all + 63) >> 6, w = words, top = words << 6, rest = words;
	uint64_t filled = 0, below = ~0ull; /* bits of word w - 1 that are below the first place */
	while (rest) {
		if (w == 0) {
			w = words;
			top = words << 6;
		}
		w--, rest--;
		if (w >> 6 != group)
			filled = gm_load64(&heap->free.summary[group = w >> 6]);
		uint64_t lower = filled << (63 - (w & 63));
		if (!(lower >>
		      63)) { /* on to a word that may not be empty, or the summary's first */
			uint32_t skip = lower ? 63 - gm_log2(lower) : w & 63;
			skip = skip < rest ? skip : rest;
			w -= skip;
			rest -= skip;
			top = (w + 1) << 6;
			below = skip ? ~0ull : below;
		}
		uint32_t first =
			gm_span_fit(gm_load64(&heap->free.word[w]) & below, w, count, &top);
		below = ~0ull;
		if (first == GM_NO_GRANULE)
			continue;
		if (gm_span_claim(heap, first, count))
			return first;
		uint32_t place = gm_span_elsewhere(all, count, ++lost);
		w = (place + 63) >> 6;
		top = w << 6;
		below = place & 63 ? (1ull << (place & 63)) - 1 : ~0ull;
		rest = words + (count >> 6) + 2; /* a run may lie across the place */
		group = ~0u;
	}
	return GM_NO_GRANULE;
}

#endif
