/* SPDX-License-Identifier: BSD-3-Clause */
/* The segments of PyTorch's cache: which units no tensor uses, and which of them may be taken. */
#include "../../shim/torch/segments.h"

#include "base/size.h"

#include "../tap.h"
#include "host_fails.h"

#define UNIT (4 * GM_MIB)
#define BASE UINT64_C(0x700000000)
#define OTHER (BASE + GM_GIB)
enum { UNITS = 4, CONTEXT = 7 };

/* --- a set, and calls on it --- */

/* Chunks of the pool: of one size, the first at `begin`. */
struct chunks {
	CUdeviceptr begin;
	uint64_t size;
};

static uint64_t place(void *arg, CUdeviceptr at, CUdeviceptr *base)
{
	const struct chunks *chunks = arg;
	if (!chunks->size)
		return 0;
	*base = at - (at - chunks->begin) % chunks->size;
	return chunks->size;
}

static struct gm_segment *segment_make(CUdeviceptr base, uint64_t size)
{
	struct chunks chunks = {BASE, UNIT};
	return gm_segment_make(base, size, CONTEXT, place, &chunks);
}

/* One for each test: what it has of tensors stays. */
static struct gm_segments sets[16], *set;

/* A set with a segment of UNITS units at BASE. */
static struct gm_segment *open_set(void)
{
	struct gm_segment *segment = segment_make(BASE, UNITS * UNIT);
	set = set ? set + 1 : sets;
	if (!gm_segments_add(set, segment))
		exit(99);
	return segment;
}

/* Release what is left of a set-> */
static void close_set(void)
{
	while (set->n) {
		struct gm_segment *segment = set->at[0];
		gm_segments_remove(set, segment);
		gm_segment_drop(segment);
	}
	TAP_OK(!set->first && !set->last, "an empty set has no unused units");
	TAP_OK(!set->vacant && !set->hosted, "an empty set has no vacant bytes");
	free(set->at);
}

static const char *hand_out(CUdeviceptr address, uint64_t bytes)
{
	return gm_segments_hand_out(set, address, bytes, set->sum + bytes, false);
}

static const char *take_back(CUdeviceptr address, uint64_t bytes)
{
	return gm_segments_take_back(set, address, bytes, set->sum - bytes);
}

/* The numbers of the units that are taken for `bytes`, as digits; they stay LEAVING. */
static const char *taken(struct gm_segment *segment, uint64_t bytes)
{
	static char digits[UNITS + 1];
	struct gm_unit *units[UNITS];
	const size_t n = gm_segments_take(set, bytes, units, UNITS);
	for (size_t i = 0; i < n; i++)
		digits[i] = (char)('0' + (units[i] - segment->units));
	digits[n] = 0;
	return digits;
}

/* All LEAVING units are vacant, or stay mapped. */
static void gone(struct gm_segment *segment, bool vacant)
{
	for (uint32_t i = 0; i < segment->n; i++)
		if (segment->units[i].state == GM_UNIT_LEAVING)
			gm_segments_gone(set, &segment->units[i], vacant);
}

/* The state of each unit: M, L, V or C. */
static const char *states(const struct gm_segment *segment)
{
	static char letters[UNITS + 1];
	for (uint32_t i = 0; i < segment->n; i++)
		letters[i] = "MLVC"[segment->units[i].state];
	return letters;
}

/* The tensors in each unit. */
static const char *lives(const struct gm_segment *segment)
{
	static char digits[UNITS + 1];
	for (uint32_t i = 0; i < segment->n; i++)
		digits[i] = (char)('0' + segment->units[i].live);
	return digits;
}

/* A segment whose units are all unused, after a fence: one tensor came and went. */
static struct gm_segment *open_unused(void)
{
	struct gm_segment *segment = open_set();
	hand_out(BASE, UNITS * UNIT);
	take_back(BASE, UNITS * UNIT);
	set->passed = set->frees;
	return segment;
}

static void made(void)
{
	struct chunks chunks = {BASE - UNIT / 2, UNIT};
	struct gm_segment *segment = gm_segment_make(BASE, 2 * UNIT, CONTEXT, place, &chunks);
	TAP_OK(segment->n == 3 && segment->size == 2 * UNIT, "a unit is a chunk of the pool");
	TAP_OK(segment->units[0].kept && !segment->units[1].kept && segment->units[2].kept,
	       "a chunk that reaches beyond the segment is kept");
	TAP_OK(segment->units[0].size == UNIT / 2 && segment->units[2].size == UNIT / 2,
	       "the unit of a chunk has the part within the segment");
	gm_segment_drop(segment);
	chunks.size = 0;
	segment = gm_segment_make(BASE, 2 * UNIT, CONTEXT, place, &chunks);
	TAP_OK(segment->n == 1 && segment->units[0].kept,
	       "a segment without chunks is one kept unit");
	gm_segment_drop(segment);
	TAP_OK(!segment_make(BASE, UNIT + 1), "a size of no whole granules is refused");
	TAP_OK(!segment_make(BASE + 512, UNIT), "an address within a granule is refused");
	TAP_OK(!segment_make(BASE, 0), "a segment of no bytes is refused");
}

static void found(void)
{
	struct gm_segment *first = open_set(), *second = segment_make(OTHER, UNIT);
	uint32_t n = 0;
	TAP_OK(gm_segments_add(set, second) && set->n == 2, "a second segment is added");
	TAP_OK(gm_segments_find(set, BASE) == first &&
		       gm_segments_find(set, BASE + UNITS * UNIT - 1) == first,
	       "a segment is found by its addresses");
	TAP_OK(!gm_segments_find(set, BASE - 1) && !gm_segments_find(set, BASE + UNITS * UNIT),
	       "a segment is not found by addresses beside it");
	TAP_OK(gm_segments_next(set, 0) == first && gm_segments_next(set, BASE) == first,
	       "the first segment at or behind an address is found");
	TAP_OK(gm_segments_next(set, BASE + 1) == second && !gm_segments_next(set, OTHER + 1),
	       "the next segment behind an address is found, and none behind all");
	TAP_OK(gm_segment_units(first, BASE + UNIT - 1, 2, &n) == &first->units[0] && n == 2,
	       "two bytes can lie in two units");
	TAP_OK(gm_segment_units(first, BASE + 3 * UNIT, UNIT, &n) == &first->units[3] && n == 1,
	       "the bytes of a whole unit lie in one unit");
	TAP_OK(!gm_segment_units(first, BASE + 3 * UNIT, UNIT + 1, &n),
	       "no unit is behind the segment");
	close_set();
}

static void counted(void)
{
	struct gm_segment *segment = open_set();
	TAP_STR(taken(segment, UNIT), "", "no unit may be taken before the first tensor");
	TAP_STR(hand_out(BASE, UNIT), NULL, "a tensor is handed out");
	TAP_STR(hand_out(BASE + UNIT, UNIT + 512), NULL, "a second tensor is handed out");
	TAP_STR(hand_out(BASE + 2 * UNIT + 512, 512), NULL, "a third tensor is handed out");
	TAP_STR(lives(segment), "1120", "the tensors of each unit are counted");
	TAP_IS(set->sum, 2 * UNIT + 1024, "the bytes of all tensors are summed");
	TAP_STR(taken(segment, UNITS * UNIT), "3", "the unit without a tensor may be taken");
	TAP_STR(states(segment), "MMML", "a unit that was taken is leaving");
	TAP_OK(gm_segment_is_moving(segment), "the segment is moving");
	gone(segment, true);
	TAP_OK(set->vacant == UNIT && !gm_segment_is_moving(segment), "the unit is vacant");
	TAP_STR(take_back(BASE + UNIT, UNIT + 512), NULL, "a tensor is taken back");
	TAP_STR(lives(segment), "1010", "the units of a freed tensor have one less");
	set->passed = set->frees;
	TAP_STR(taken(segment, UNITS * UNIT), "1",
		"the unit that a freed tensor had alone may be taken");
	gone(segment, true);
	TAP_STR(hand_out(OTHER, 4096), NULL, "a tensor outside of all segments is handed out");
	TAP_IS(set->sum, UNIT + 512 + 4096, "a tensor outside of all segments counts");
	TAP_STR(take_back(OTHER, 4096), NULL, "a tensor outside of all segments is taken back");
	take_back(BASE, UNIT);
	take_back(BASE + 2 * UNIT + 512, 512);
	TAP_IS(set->sum, 0, "no tensor is counted in the end");
	close_set();
}

static void ordered(void)
{
	struct gm_segment *segment = open_set();
	for (unsigned i = 0; i < UNITS; i++)
		hand_out(BASE + i * UNIT, UNIT);
	take_back(BASE + 2 * UNIT, UNIT);
	take_back(BASE, UNIT);
	TAP_STR(taken(segment, UNIT), "", "no unit may be taken before a fence has passed");
	set->passed = 1;
	take_back(BASE + 3 * UNIT, UNIT);
	TAP_STR(taken(segment, UNITS * UNIT), "2",
		"a fence that has passed is for the frees before it");
	gone(segment, false);
	TAP_OK(segment->units[2].kept && !set->vacant, "a unit that could not be vacated is kept");
	set->passed = set->frees;
	TAP_STR(taken(segment, UNIT + 1), "03", "the longest unused units go first");
	gone(segment, true);
	take_back(BASE + UNIT, UNIT);
	TAP_STR(taken(segment, UNITS * UNIT), "",
		"no unit may be taken while its free has had no fence");
	set->passed = set->frees;
	TAP_STR(taken(segment, 1), "1", "a unit whose tensor was freed may be taken");
	gone(segment, true);
	TAP_STR(taken(segment, UNITS * UNIT), "", "a vacant unit is not taken again");
	TAP_STR(states(segment), "VVMV", "three of four units are vacant");
	close_set();
}

static void limited(void)
{
	struct gm_segment *segment = open_unused();
	struct gm_unit *units[UNITS];
	TAP_IS(gm_segments_take(set, UNITS * UNIT, units, 2), 2,
	       "units are taken up to the number asked for");
	gone(segment, true);
	TAP_IS(gm_segments_take(set, 0, units, UNITS), 0, "no unit is taken for no bytes");
	TAP_IS(gm_segments_take(set, UINT64_MAX, units, UNITS), 2,
	       "all units that there are can be taken");
	gone(segment, true);
	TAP_IS(set->vacant, UNITS * UNIT, "all units of the segment are vacant");
	close_set();
}

static void claimed(void)
{
	struct gm_segment *segment = open_unused();
	taken(segment, 3 * UNIT);
	gone(segment, true);
	hand_out(BASE, 2 * UNIT);
	TAP_IS(gm_segments_claim(set, segment->units, 2, true), 2 * UNIT,
	       "the vacant units of a tensor are claimed");
	TAP_STR(states(segment), "CCVM", "claimed units are coming");
	TAP_OK(gm_segment_is_moving(segment), "the segment is moving");
	TAP_IS(gm_segments_claim(set, segment->units, 2, true), 0, "nobody claims the units twice");
	gm_segments_came(set, &segment->units[0], GM_UNIT_CAME);
	gm_segments_came(set, &segment->units[1], GM_UNIT_STAYED_AWAY);
	TAP_STR(states(segment), "MVVM", "one unit came, one stayed away");
	TAP_IS(set->vacant, 2 * UNIT, "a unit that stayed away is vacant still");
	gm_segments_undo(set, BASE, 2 * UNIT);
	TAP_STR(lives(segment), "0000", "a tensor without memory is undone");
	TAP_IS(set->sum, 2 * UNIT, "a tensor that is undone stays in the cache's sum");
	set->passed = set->frees;
	TAP_STR(taken(segment, UNITS * UNIT), "30",
		"units of a tensor that is undone may be taken after the others");
	gone(segment, true);
	gm_segments_undo(set, BASE, 2 * UNIT);
	TAP_STR(lives(segment), "0000", "no tensor is undone twice");
	close_set();
}

static void hosted(void)
{
	struct gm_segment *segment = open_unused();
	taken(segment, 2 * UNIT);
	gone(segment, true);
	hand_out(BASE, 2 * UNIT);
	gm_segments_claim(set, segment->units, 2, true);
	gm_segments_came(set, &segment->units[0], GM_UNIT_CAME_HOSTED);
	gm_segments_came(set, &segment->units[1], GM_UNIT_CAME_HOSTED);
	TAP_OK(set->hosted == 2 * UNIT && set->vacant == 2 * UNIT,
	       "memory of the host is counted, and its units are vacant");
	TAP_IS(gm_segments_claim(set, segment->units, 2, false), 0,
	       "memory of the host suffices for a tensor");
	take_back(BASE, 2 * UNIT);
	hand_out(BASE, UNIT);
	TAP_IS(gm_segments_claim(set, segment->units, 1, true), 0,
	       "memory of the host stays before a fence has passed");
	take_back(BASE, UNIT);
	set->passed = set->frees;
	hand_out(BASE, UNIT / 2);
	TAP_IS(gm_segments_claim(set, segment->units, 1, false), 0,
	       "memory of the host stays if asked for");
	hand_out(BASE + UNIT / 2, UNIT / 2);
	TAP_IS(gm_segments_claim(set, segment->units, 1, true), 0,
	       "memory of the host stays below two tensors");
	take_back(BASE + UNIT / 2, UNIT / 2);
	take_back(BASE, UNIT / 2);
	set->passed = set->frees;
	hand_out(BASE, UNIT / 2);
	TAP_IS(gm_segments_claim(set, segment->units, 1, true), UNIT,
	       "memory of the host is replaced below one tensor, after a fence");
	TAP_OK(set->hosted == UNIT && set->vacant == 2 * UNIT,
	       "memory of the host that is replaced is counted no more");
	gm_segments_came(set, &segment->units[0], GM_UNIT_CAME);
	TAP_OK(set->hosted == UNIT && set->vacant == UNIT, "the unit has memory of the device");
	struct gm_unit *units[UNITS];
	TAP_IS(gm_segments_take(set, UNIT, units, UNITS), 1,
	       "an unused unit of the device is taken");
	TAP_IS(units[0] - segment->units, 2, "the longest unused unit is taken first");
	TAP_IS(gm_segments_take(set, UNIT, units, UNITS), 1, "the next unused unit is taken");
	TAP_IS(gm_segments_take(set, UNIT, units, UNITS), 1,
	       "a unit with memory of the host is taken last");
	TAP_PTR(units[0], &segment->units[1],
		"memory of the host is taken of the unit that no tensor uses");
	gone(segment, true);
	TAP_OK(!set->hosted && set->vacant == 3 * UNIT,
	       "a unit whose memory of the host went is vacant");
	gm_segments_remove(set, segment);
	TAP_OK(!set->vacant && !set->hosted, "a removed segment is not counted");
	gm_segment_drop(segment);
	close_set();
}

/* Memory of the host counts for nothing. */
static void hosted_is_free(void)
{
	struct gm_segment *segment = open_unused();
	taken(segment, UNIT);
	gone(segment, true);
	hand_out(BASE, UNIT);
	gm_segments_claim(set, segment->units, 1, true);
	gm_segments_came(set, &segment->units[0], GM_UNIT_CAME_HOSTED);
	take_back(BASE, UNIT);
	hand_out(BASE + UNIT, 3 * UNIT);
	take_back(BASE + UNIT, 3 * UNIT);
	set->passed = set->frees;
	TAP_STR(taken(segment, UNIT), "01",
		"memory of the device is taken beside memory of the host");
	gone(segment, true);
	TAP_OK(set->vacant == 2 * UNIT && !set->hosted,
	       "two units are vacant, of the host and of the device");
	close_set();
}

static void kept(void)
{
	struct gm_segment *segment = open_unused();
	TAP_STR(gm_segments_hand_out(set, BASE, UNIT, UNIT, true), NULL, "a capture gets a tensor");
	take_back(BASE, UNIT);
	set->passed = set->frees;
	TAP_STR(taken(segment, UNITS * UNIT), "123",
		"the unit of a capture's tensor is not taken after its free");
	gone(segment, true);
	gm_segments_hand_out(set, BASE + UNIT, UNIT, UNIT, true);
	gm_segments_claim(set, &segment->units[1], 1, true);
	gm_segments_came(set, &segment->units[1], GM_UNIT_STAYED_AWAY);
	gm_segments_undo(set, BASE + UNIT, UNIT);
	TAP_OK(!segment->units[1].kept && segment->units[0].kept,
	       "a unit that a capture did not get is not kept");
	set->sum = 0;
	gm_segments_hand_out(set, BASE, UNIT, UNIT, true);
	gm_segments_undo(set, BASE, UNIT);
	TAP_OK(segment->units[0].kept, "a unit that an earlier capture got stays kept");
	set->sum = 0;
	gm_segments_hand_out(set, BASE + 2 * UNIT, UNIT, UNIT, true);
	gm_segments_claim(set, &segment->units[2], 1, true);
	gm_segments_came(set, &segment->units[2], GM_UNIT_CAME_HOSTED);
	take_back(BASE + 2 * UNIT, UNIT);
	set->passed = set->frees;
	hand_out(BASE + 2 * UNIT, UNIT);
	TAP_IS(gm_segments_claim(set, &segment->units[2], 1, true), 0,
	       "memory of the host that a capture got is not replaced");
	close_set();
}

static void differs(void)
{
	struct gm_segment *segment = open_set();
	static const char sum[] = "its own sum of tensors differs";
	TAP_STR(gm_segments_hand_out(set, BASE, UNIT, UNIT + 512, false), sum,
		"another sum at a hand-out is noticed");
	set->sum = UNIT;
	TAP_STR(gm_segments_take_back(set, BASE, UNIT, 512), sum,
		"another sum at a free is noticed");
	set->sum = 2 * UNIT;
	TAP_STR(take_back(BASE, UNIT), "it took back a tensor that it had not handed out",
		"the free of a tensor that nobody has is noticed");
	hand_out(BASE, UNIT);
	TAP_STR(take_back(BASE, UNIT / 2), "it took back a tensor that it had not handed out",
		"the free of a tensor of another size is noticed");
	TAP_STR(hand_out(BASE, UNIT), "it handed out memory twice",
		"a tensor handed out twice is noticed");
	TAP_STR(lives(segment), "1000", "a tensor handed out twice counts once");
	TAP_STR(hand_out(BASE + 3 * UNIT, UNIT + 512), "a tensor ends behind its segment",
		"a tensor beyond its segment is noticed");
	TAP_STR(lives(segment), "1000", "a tensor beyond its segment does not count");
	close_set();
}

static void removed(void)
{
	struct gm_segment *segment = open_unused(), *second = segment_make(OTHER, UNIT);
	gm_segments_add(set, second);
	hand_out(OTHER, UNIT);
	take_back(OTHER, UNIT);
	taken(segment, 2 * UNIT);
	gone(segment, true);
	hand_out(BASE, UNIT);
	gm_segments_claim(set, segment->units, 1, true);
	gm_segments_came(set, &segment->units[0], GM_UNIT_CAME_HOSTED);
	take_back(BASE, UNIT);
	gm_segments_remove(set, segment);
	TAP_OK(!set->vacant && !set->hosted && set->n == 1, "a segment is removed with its bytes");
	TAP_OK(set->first == second->units && set->last == second->units,
	       "a segment is removed with its units");
	TAP_OK(!gm_segments_find(set, BASE), "a removed segment is not found");
	TAP_OK(gm_segments_add(set, segment), "a segment whose free failed is added again");
	TAP_OK(set->vacant == 2 * UNIT && set->hosted == UNIT,
	       "a segment is added again with its bytes");
	set->passed = set->frees;
	struct gm_unit *units[UNITS + 1];
	TAP_IS(gm_segments_take(set, UINT64_MAX, units, UNITS + 1), UNITS,
	       "a segment is added again with its units");
	TAP_OK(units[0] == &segment->units[2] && units[2] == second->units &&
		       units[3] == &segment->units[0],
	       "added units are in the order of their frees");
	for (unsigned i = 0; i < UNITS; i++)
		gm_segments_gone(set, units[i], true);
	TAP_STR(states(segment), "VVVV", "added units can be taken");
	segment->users = 1;
	TAP_OK(gm_segment_is_moving(segment), "a segment with a user may not be removed");
	segment->users = 0;
	close_set();
}

static void without_host_memory(void)
{
	for (unsigned nth = 1; nth < 3; nth++) {
		host_fail = nth;
		TAP_OK(!segment_make(BASE, UNIT), "no segment without host memory, call %u", nth);
	}
	struct gm_segment *segment = open_set(), *second = segment_make(OTHER, UNIT);
	set->room = set->n;
	host_fail = 1;
	TAP_OK(!gm_segments_add(set, second) && set->n == 1, "no segment is added");
	gm_segment_drop(second);
	for (unsigned nth = 1; nth < 4; nth++) {
		host_fail = nth;
		TAP_STR(gm_segments_hand_out(set, BASE, UNIT, UNIT, false),
			"no host memory is left", "no tensor without host memory, call %u", nth);
		set->sum = 0;
	}
	host_fail = 0;
	TAP_STR(lives(segment), "0000", "no unit has a tensor that was not handed out");
	TAP_STR(hand_out(BASE, UNIT), NULL, "the tensor is handed out once there is host memory");
	hand_out(BASE + UNIT, UNIT);
	take_back(BASE, UNIT);
	host_fail = 1;
	TAP_STR(hand_out(BASE, UNIT), NULL, "the entry of a tensor that ended serves another one");
	host_fail = 0;
	close_set();
}

int main(void)
{
	made();
	found();
	counted();
	ordered();
	limited();
	claimed();
	hosted();
	hosted_is_free();
	kept();
	differs();
	removed();
	without_host_memory();
	return tap_done();
}
