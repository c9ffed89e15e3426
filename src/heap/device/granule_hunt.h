/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `granule` (granule.h), when the lanes of a mask found no slot in their shard:
 *
 *   aim -> reserve -> drain -> take     some shards with room, then one that may bring granules
 *     take:   served                  -> done
 *             the shard is full       -> mark -> draw -> own -> took -> clear -> publish -> aim
 *     mark:   another shard has room  -> aim
 *     draw:   no granule in any set   -> unmark -> hint
 *     hint:   a shard has room        -> ask -> aim
 *             an empty granule, maybe -> hollow -> strip -> aim
 *             nothing                 -> grow -> wait, for the host -> aim
 *     wait:   the host refuses        -> search -> scan -> sweep -> empty -> found -> aim
 *     found:  no slot anywhere        -> larger, the next larger class -> aim
 *
 *   run                                  for more than 1 MiB: granules side by side, by one lane
 *     none there                      -> (sweep -> empty) -> hollow -> strip -> retire -> run
 *     nothing to retire               -> grow -> wait -> run; at last -> all -> run
 *
 * Each step is a function that returns the next one, and what a hunt knows lies in memory. The
 * compiler gives the functions of a call chain registers side by side, and one for each branch
 * around a call; and every kernel that calls malloc has to have those of the deepest chain. Calls
 * in calls took 80 registers: a multiprocessor holds 24 such warps, and 40 with 48 registers.
 *
 * All lanes of the mask take the same steps. What the first lane alone found out, it tells the
 * others before the step ends.
 */
#ifndef GM_HEAP_DEVICE_GRANULE_HUNT_H
#define GM_HEAP_DEVICE_GRANULE_HUNT_H

#include "heap/device/granule_slot.h"

/* Sets in which a granule is looked for, in turn: with room, of no class, empty of any class, with
 * any slot. */
enum gm_hunt_set { GM_SET_ROOMY, GM_SET_FREE, GM_SET_EMPTY, GM_SET_RAGGED, GM_SETS };

struct gm_granule_hunt {
	struct gm_heap *heap;
	void *block; /* the lane's, when it is done */
	uint32_t c;  /* the class; or GM_CLASSES: a run of `count` granules */
	uint32_t count;
	bool all;      /* the host refuses: take all empty granules out of shards */
	uint32_t mask; /* lanes without a slot */
	uint32_t turn; /* in this class; 0: shards with room, of which `rooms` in a row had none */
	uint32_t rooms;
	uint32_t next;		 /* the shard to try, or GM_ANY_SHARD, GM_NO_SHARD */
	struct gm_granule_try t; /* the shard that was tried last */
	uint32_t set;		 /* gm_hunt_set, in which `granule` was found */
	uint32_t granule;	 /* for the shard, with GM_FRESH if it is; or GM_NO_GRANULE */
	uint32_t lost;		 /* a granule that left the shard, or GM_NO_GRANULE */
	uint32_t epoch;		 /* of the heap, before granules were missed */
	uint32_t dry;		 /* number of the search, of the lane that searches; else 0 */
	struct gm_granule_sweep sweep;
	struct gm_span_wait wait;
};

#define GM_HUNT_STEPS(STEP)    \
	STEP(AIM, aim)         \
	STEP(RESERVE, reserve) \
	STEP(DRAIN, drain)     \
	STEP(TAKE, take)       \
	STEP(MARK, mark)       \
	STEP(DRAW, draw)       \
	STEP(OWN, own)         \
	STEP(TOOK, took)       \
	STEP(CLEAR, clear)     \
	STEP(PUBLISH, publish) \
	STEP(UNMARK, unmark)   \
	STEP(LEAVE, leave)     \
	STEP(HINT, hint)       \
	STEP(ASK, ask)         \
	STEP(HOLLOW, hollow)   \
	STEP(STRIP, strip)     \
	STEP(GROW, grow)       \
	STEP(WAIT, wait)       \
	STEP(SEARCH, search)   \
	STEP(SCAN, scan)       \
	STEP(SWEEP, sweep)     \
	STEP(EMPTY, empty)     \
	STEP(FOUND, found)     \
	STEP(LARGER, larger)   \
	STEP(RUN, run)         \
	STEP(RETIRE, retire)   \
	STEP(ALL, all)

enum gm_hunt_step {
#define GM_STEP(NAME, name) GM_HUNT_##NAME,
	GM_HUNT_STEPS(GM_STEP)
#undef GM_STEP
		GM_HUNT_DONE
};

/* helper.cu makes one function of all steps: the driver takes 20 us to load each function, and the
 * helper has 24 registers in any case. */
#ifndef GM_HUNT_DEVICE
#define GM_HUNT_DEVICE GM_DEVICE_SLOW
#endif
#define GM_HUNT_STEP(name) \
	GM_HUNT_DEVICE enum gm_hunt_step gm_hunt_##name(struct gm_granule_hunt *h)

GM_DEVICE struct gm_granule_class *gm_hunt_class(const struct gm_granule_hunt *h)
{
	return &gm_granules_of(h->heap)->class_[h->c];
}

GM_DEVICE bool gm_hunt_is_first(const struct gm_granule_hunt *h)
{
	return gm_lane() == gm_leader(h->mask);
}

/* The first lane's value. */
GM_DEVICE uint32_t gm_hunt_tell(const struct gm_granule_hunt *h, uint32_t value)
{
	return gm_shfl32(h->mask, value, gm_leader(h->mask));
}

/* The next turn, with shard `next`. */
GM_DEVICE enum gm_hunt_step gm_hunt_turn(struct gm_granule_hunt *h, uint32_t next)
{
	h->next = next;
	h->turn++;
	return GM_HUNT_AIM;
}

/* A number of a shard, another one each time, and for other lanes. */
GM_DEVICE uint32_t gm_hunt_elsewhere(const struct gm_granule_hunt *h)
{
	uint32_t lane = gm_seat() << 5 | gm_lane(), shards = gm_granule_shards(gm_hunt_class(h));
	return gm_high32((lane + (h->turn + h->rooms) * 7919) * 0x9e3779b9u, shards);
}

/* --- slots of the shards there are --- */

GM_HUNT_STEP(aim)
{
	struct gm_granule_class *class_ = gm_hunt_class(h);
	if (h->turn == 1 && gm_hunt_is_first(h))
		gm_granule_wanted(h->heap, h->c, gm_popc(h->mask), gm_seat());
	if (h->next == GM_ANY_SHARD)
		h->next = gm_granule_near(h->turn ? gm_load32(&class_->own)
						  : gm_granule_shards(class_));
	if (h->turn == 0 && gm_hunt_is_first(h))
		h->next = gm_room_find(class_, h->rooms ? gm_hunt_elsewhere(h) : h->next);
	return GM_HUNT_RESERVE;
}

GM_HUNT_STEP(reserve)
{
	gm_granule_try(h->heap, h->c, h->next, h->mask, true, &h->t);
	return h->t.drained ? GM_HUNT_DRAIN : GM_HUNT_TAKE;
}

GM_HUNT_STEP(drain)
{
	if (gm_hunt_is_first(h))
		gm_granule_drain(h->heap, h->c, &h->t);
	return GM_HUNT_TAKE;
}

GM_HUNT_STEP(take)
{
	uint32_t served = gm_first(h->mask, h->t.got);
	if (served && h->turn && gm_hunt_is_first(h))
		gm_granule_served(h->heap, h->c, gm_popc(served));
	if (served >> gm_lane() & 1) {
		h->block = gm_granule_take(h->heap, h->c, h->t.seen - 1, h->t.cursor, served);
		return GM_HUNT_DONE;
	}
	h->mask &= ~served;
	h->next = GM_ANY_SHARD;
	h->rooms = served ? 0 : h->rooms + 1;
	if (h->turn == 0 && h->t.s != GM_NO_SHARD && h->rooms < GM_ROOM_TRIES)
		return GM_HUNT_AIM;
	if (h->turn && gm_ballot(h->mask, h->t.s < gm_load32(&gm_hunt_class(h)->own)))
		return GM_HUNT_MARK;
	return gm_hunt_turn(h, GM_ANY_SHARD);
}

/* --- another granule for a shard that is full --- */

/* By the first lane: another shard with room, for some turns; or GM_ANY_SHARD. Not for a shard that
 * has no granule yet: warps would meet at the few that have one. */
GM_DEVICE uint32_t gm_hunt_other_room(const struct gm_granule_hunt *h)
{
	uint32_t room = GM_NO_SHARD;
	if (h->t.seen != 0 && h->turn < GM_ROOM_PATIENCE)
		room = gm_room_find(gm_hunt_class(h), gm_hunt_elsewhere(h));
	return room == GM_NO_SHARD ? GM_ANY_SHARD : room;
}

/*
 * Mark the shard busy, to bring a granule. If another shard has room, try that first: else a churn
 * takes granules without end, and leaves empty ones behind. It may be full when the lane comes, so
 * that ends after some turns. If another lane is bringing a granule, wait for it.
 */
GM_HUNT_STEP(mark)
{
	uint32_t seen = h->t.seen, room = GM_ANY_SHARD, next = GM_HUNT_DRAW;
	struct gm_granule_class *class_ = gm_hunt_class(h);
	bool wait = seen == GM_SHARD_BUSY && h->turn < GM_SHARD_PATIENCE;
	h->set = GM_SET_ROOMY;
	if (gm_hunt_is_first(h)) {
		if (gm_load32(&class_->dry) == GM_DRY(gm_load32(&h->heap->epoch)))
			next = GM_HUNT_HINT;
		else if ((room = gm_hunt_other_room(h)) != GM_ANY_SHARD)
			next = GM_HUNT_AIM;
		else if (!wait && !gm_granule_in_sets(h->heap, h->c))
			next = GM_HUNT_HINT;
		else if (wait || (seen != GM_SHARD_BUSY && gm_cas32(gm_shard_of(class_, h->t.s),
								    seen, GM_SHARD_BUSY) != seen))
			next = GM_HUNT_AIM;
	}
	next = gm_hunt_tell(h, next);
	if (next != GM_HUNT_AIM)
		return (enum gm_hunt_step)next;
	room = gm_hunt_tell(h, room);
	if (room == GM_ANY_SHARD)
		gm_pause(50);
	return gm_hunt_turn(h, room);
}

/* By the first lane: take the next granule from the sets. */
GM_DEVICE uint32_t gm_hunt_draw_one(struct gm_granule_hunt *h)
{
	for (; h->set < GM_SETS; h->set++) {
		struct gm_granules *all = gm_granules_of(h->heap);
		const struct gm_bits *set = &all->class_[h->c].ragged;
		if (gm_equal(h->set, GM_SET_ROOMY))
			set = &all->class_[h->c].roomy;
		else if (gm_equal(h->set, GM_SET_FREE))
			set = &h->heap->free;
		else if (gm_equal(h->set, GM_SET_EMPTY))
			set = &all->empty;
		uint32_t granule = gm_bits_take(set, gm_span_reach(h->heap), h->t.s);
		if (granule != GM_NO_GRANULE)
			return granule;
	}
	return GM_NO_GRANULE;
}

GM_HUNT_STEP(draw)
{
	uint32_t granule = gm_hunt_is_first(h) ? gm_hunt_draw_one(h) : GM_NO_GRANULE;
	h->granule = gm_hunt_tell(h, granule);
	h->set = gm_hunt_tell(h, h->set);
	return h->granule == GM_NO_GRANULE ? GM_HUNT_UNMARK : GM_HUNT_OWN;
}

/* Make it the class's own, unless it has left its set meanwhile, whose bit was stale. */
GM_HUNT_STEP(own)
{
	bool fresh = h->set == GM_SET_FREE || h->set == GM_SET_EMPTY, mine = true;
	if (gm_hunt_is_first(h) && h->set != GM_SET_FREE)
		mine = fresh ? gm_slab_retire(h->heap, h->granule)
			     : gm_slab_activate(h->heap, h->granule, h->c);
	h->granule |= fresh ? GM_FRESH : 0;
	if (!gm_hunt_tell(h, mine))
		return GM_HUNT_DRAW;
	return h->set == GM_SET_FREE ? GM_HUNT_TOOK : fresh ? GM_HUNT_CLEAR : GM_HUNT_PUBLISH;
}

GM_HUNT_STEP(took)
{
	if (gm_hunt_is_first(h))
		gm_span_took_one(h->heap);
	return GM_HUNT_CLEAR;
}

GM_HUNT_STEP(clear)
{
	gm_granule_clear(h->heap, h->c, h->granule & ~GM_FRESH, h->mask);
	return GM_HUNT_PUBLISH;
}

/* Put it into the shard, in the place of the one that is full. A lane that waited for long may have
 * put another there. */
GM_HUNT_STEP(publish)
{
	h->lost = GM_NO_GRANULE;
	if (gm_hunt_is_first(h) && !gm_granule_publish(h->heap, h->c, h->t.s, h->granule))
		h->lost = h->granule & ~GM_FRESH;
	h->next = h->t.s;
	return GM_HUNT_LEAVE;
}

/* Granule `granule` is back in shard `s`. Lanes that came meanwhile saw no room there; those of
 * other classes did not see that it is empty, and may have found theirs dry. */
GM_DEVICE void gm_granule_came_back(struct gm_heap *heap, uint32_t c, uint32_t granule, uint32_t s)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t used = GM_USED(gm_load64(&gm_slab_of(heap, granule)->state));
	if (used <= gm_granule_roomy(all->class_[c].slots))
		gm_room_put(&all->class_[c], s);
	if (used == 0) {
		gm_bits_put(&all->hollow, granule);
		gm_granule_announce(heap);
	}
}

/* The shard keeps its old granule. */
GM_HUNT_STEP(unmark)
{
	uint32_t seen = h->t.seen, *shard = gm_shard_of(gm_hunt_class(h), h->t.s);
	bool refilled = gm_hunt_is_first(h) && seen != GM_SHARD_BUSY &&
			gm_cas32(shard, GM_SHARD_BUSY, seen) != GM_SHARD_BUSY;
	if (gm_hunt_is_first(h) && !refilled && seen != 0 && seen != GM_SHARD_BUSY)
		gm_granule_came_back(h->heap, h->c, seen - 1, h->t.s);
	h->lost = GM_NO_GRANULE;
	return gm_hunt_tell(h, refilled) ? GM_HUNT_LEAVE : GM_HUNT_HINT;
}

/* Granules that have no shard now: the old one, and one that came too late. */
GM_HUNT_STEP(leave)
{
	bool first = gm_hunt_is_first(h);
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t granule = i ? h->lost : h->t.seen - 1;
		if (first && granule < GM_SHARD_BUSY - 1)
			gm_granule_deactivate(h->heap, granule, h->c);
	}
	return h->granule == GM_NO_GRANULE ? GM_HUNT_HINT : gm_hunt_turn(h, h->t.s);
}

/* --- no granule --- */

/* Is there a place with a slot, by the summaries? */
GM_HUNT_STEP(hint)
{
	uint32_t next = GM_NO_SHARD, step = GM_HUNT_GROW;
	h->epoch = gm_load32(&h->heap->epoch);
	if (gm_hunt_is_first(h) && gm_load32(&gm_hunt_class(h)->dry) != GM_DRY(h->epoch)) {
		step = GM_HUNT_HOLLOW;
		next = GM_ANY_SHARD;
		if (!gm_granule_in_sets(h->heap, h->c))
			next = gm_room_find(gm_hunt_class(h), gm_granule_near(GM_SHARDS));
	}
	h->next = gm_hunt_tell(h, next);
	step = gm_hunt_tell(h, step);
	if (h->next == GM_NO_SHARD)
		return (enum gm_hunt_step)step;
	if (h->next < GM_SHARDS && h->turn >= GM_ASK_TURNS)
		return GM_HUNT_ASK;
	return gm_hunt_turn(h, h->next);
}

/* Lanes that meet slots of others' frees alone, as those of a churn, may never find the heap empty:
 * they ask for memory without waiting. */
GM_HUNT_STEP(ask)
{
	if (gm_hunt_is_first(h))
		gm_granule_ask(h->heap, h->c);
	return gm_hunt_turn(h, h->next);
}

GM_HUNT_STEP(hollow)
{
	uint32_t granule = GM_NO_GRANULE;
	if (gm_hunt_is_first(h))
		granule = gm_granule_draw_hollow(h->heap, gm_granule_near(GM_SHARDS));
	h->granule = gm_hunt_tell(h, granule);
	if (h->granule != GM_NO_GRANULE)
		return GM_HUNT_STRIP;
	return h->count ? GM_HUNT_RETIRE : GM_HUNT_GROW;
}

/* Take an empty granule out of its shard, so that any class may have it. */
GM_HUNT_STEP(strip)
{
	bool took = gm_hunt_is_first(h) && gm_granule_strip_found(h->heap, h->granule);
	return gm_hunt_tell(h, took) && !h->count ? gm_hunt_turn(h, GM_ANY_SHARD) : GM_HUNT_HOLLOW;
}

/* Ask the host for memory: for as much as all lanes need that wait for the class, or for runs. */
GM_HUNT_STEP(grow)
{
	uint32_t wish = 0;
	if (h->count)
		wish = gm_add32(&gm_granules_of(h->heap)->run_granules, h->count) + h->count;
	else
		wish = gm_granule_wish(h->heap, h->c);
	gm_span_wait_begin(h->heap, h->count ? h->count : 1, wish, h->epoch, &h->wait);
	return GM_HUNT_WAIT;
}

GM_HUNT_STEP(wait)
{
	uint32_t answer = GM_SPAN_NO;
	if (gm_hunt_is_first(h))
		answer = gm_span_wait_turn(h->heap, &h->wait);
	answer = gm_hunt_tell(h, answer);
	if (answer == GM_SPAN_WAIT)
		return GM_HUNT_WAIT;
	if (h->count) {
		gm_add32(&gm_granules_of(h->heap)->run_granules, 0u - h->count);
		return answer == GM_SPAN_MORE ? GM_HUNT_RUN : GM_HUNT_ALL;
	}
	return answer == GM_SPAN_MORE ? gm_hunt_turn(h, GM_ANY_SHARD) : GM_HUNT_SEARCH;
}

/* --- the heap cannot grow: search everything. Else lanes would search a heap in which slots become
 * free all the time. --- */

/* Begin, unless that was done since a slot became free. */
GM_HUNT_STEP(search)
{
	uint32_t search = (uint32_t)gm_nanoseconds() << 1 | 2, step = GM_HUNT_SCAN;
	h->dry = 0;
	h->next = GM_NO_SHARD;
	h->epoch = gm_load32(&h->heap->epoch);
	h->sweep = (struct gm_granule_sweep){0, 0, GM_NO_SHARD};
	if (gm_hunt_is_first(h)) {
		uint32_t *dry = &gm_hunt_class(h)->dry, last = gm_load32(dry);
		if (last == GM_DRY(h->epoch))
			step = GM_HUNT_LARGER;
		else if ((last == 0 || last & 1) && gm_cas32(dry, last, search) == last)
			h->dry = search;
		if (step == GM_HUNT_SCAN)
			gm_store32(&gm_granules_of(h->heap)->dry, 1);
		if (step == GM_HUNT_SCAN && gm_granule_in_sets(h->heap, h->c))
			h->next = GM_ANY_SHARD;
	}
	h->next = gm_hunt_tell(h, h->next);
	step = gm_hunt_tell(h, step);
	return h->next == GM_ANY_SHARD ? GM_HUNT_FOUND : (enum gm_hunt_step)step;
}

GM_HUNT_STEP(scan)
{
	h->next = gm_granule_find_shard(h->heap, h->c, h->turn, h->mask);
	return h->next == GM_NO_SHARD ? GM_HUNT_SWEEP : GM_HUNT_FOUND;
}

GM_HUNT_STEP(sweep)
{
	if (gm_granule_sweep(h->heap, h->mask, &h->sweep))
		return GM_HUNT_EMPTY;
	return h->count ? GM_HUNT_HOLLOW : GM_HUNT_FOUND;
}

GM_HUNT_STEP(empty)
{
	bool took =
		h->sweep.s != GM_NO_SHARD && gm_granule_strip_one(h->heap, h->sweep.c, h->sweep.s);
	if (!gm_ballot(h->mask, took))
		return GM_HUNT_SWEEP;
	if (gm_hunt_is_first(h))
		gm_add32(&h->heap->epoch, 1);
	h->next = GM_ANY_SHARD;
	return h->count ? GM_HUNT_SWEEP : GM_HUNT_FOUND;
}

GM_HUNT_STEP(found)
{
	/* A granule moved between places, and the search may have missed it in both. */
	bool moved = gm_load32(&h->heap->epoch) != h->epoch;
	if (gm_ballot(h->mask, moved) && h->next == GM_NO_SHARD)
		h->next = GM_ANY_SHARD;
	if (h->dry)
		gm_cas32(&gm_hunt_class(h)->dry, h->dry,
			 h->next == GM_NO_SHARD ? GM_DRY(h->epoch) : 0);
	return h->next == GM_NO_SHARD ? GM_HUNT_LARGER : gm_hunt_turn(h, h->next);
}

/* The lanes have no slot of their class: next, one with at least the same alignment. */
GM_HUNT_STEP(larger)
{
	if (gm_hunt_is_first(h))
		gm_granule_served(h->heap, h->c, gm_popc(h->mask));
	h->c = gm_granule_larger(h->c);
	h->turn = h->rooms = 0;
	h->next = GM_ANY_SHARD;
	if (h->c < GM_CLASSES)
		return GM_HUNT_AIM;
	gm_add64(&h->heap->refusals, 1);
	return GM_HUNT_DONE;
}

/* --- runs: by one lane --- */

GM_HUNT_STEP(run)
{
	h->epoch = gm_load32(&h->heap->epoch);
	uint32_t granule = gm_span_take_run(h->heap, h->count);
	if (granule == GM_NO_GRANULE) {
		h->sweep = (struct gm_granule_sweep){0, 0, GM_NO_SHARD};
		return h->all ? GM_HUNT_SWEEP : GM_HUNT_HOLLOW;
	}
	struct gm_slab *slab = gm_slab_of(h->heap, granule);
	gm_store32(&slab->run, h->count);
	gm_slab_become(slab, GM_CLASS_IS(GM_RUN));
	h->block = gm_span_address(h->heap, granule);
	return GM_HUNT_DONE;
}

/* Return empty granules to the heap. */
GM_HUNT_STEP(retire)
{
	return gm_granule_retire_all(h->heap) ? GM_HUNT_RUN : GM_HUNT_GROW;
}

/* The host refuses: try once more with all shards, in which empty granules may be. */
GM_HUNT_STEP(all)
{
	if (h->all) {
		gm_add64(&h->heap->refusals, 1);
		return GM_HUNT_DONE;
	}
	h->all = true;
	return GM_HUNT_RUN;
}

/* A slot of class `c` for each lane of `mask`, or `count` granules for the caller alone. */
GM_DEVICE_SLOW void *gm_granule_malloc_slow(struct gm_heap *heap, uint32_t c, uint32_t mask,
					    uint32_t count)
{
	struct gm_granule_hunt h = {
		.heap = heap, .c = c, .count = count, .mask = mask, .next = GM_ANY_SHARD};
	enum gm_hunt_step step = count ? GM_HUNT_RUN : GM_HUNT_AIM;
	/* An acquire, so that gm_granule_malloc reads the present number of shards. */
	if (!count)
		gm_load32_acquire(&gm_granules_of(heap)->class_[c].shards);
	while (step != GM_HUNT_DONE) {
#define GM_STEP(NAME, name)                   \
	if (gm_equal(step, GM_HUNT_##NAME)) { \
		step = gm_hunt_##name(&h);    \
		continue;                     \
	}
		GM_HUNT_STEPS(GM_STEP)
#undef GM_STEP
	}
	return h.block;
}

#endif
