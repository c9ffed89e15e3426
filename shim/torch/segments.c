/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/segments.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/hash.h"
#include "pool/pool.h"

/* A tensor alive in a segment. */
struct gm_cached_tensor {
	CUdeviceptr address;
	uint64_t bytes;
	struct gm_cached_tensor *next; /* among the spare ones */
	UT_hash_handle hh;
};

/* --- a segment --- */

static uint32_t granules(uint64_t bytes)
{
	return (uint32_t)(bytes / GM_POOL_GRANULE);
}

struct gm_segment *gm_segment_make(CUdeviceptr base, uint64_t size, uint64_t context,
				   uint64_t (*place)(void *arg, CUdeviceptr at, CUdeviceptr *base),
				   void *arg)
{
	const uint32_t n = granules(size);
	if (!n || size % GM_POOL_GRANULE || base % GM_POOL_GRANULE)
		return NULL;
	struct gm_segment *segment = calloc(1, sizeof *segment + n * sizeof segment->unit_of[0]);
	struct gm_unit *units = calloc(n, sizeof *units);
	if (!segment || !units) {
		free(segment);
		free(units);
		return NULL;
	}
	*segment =
		(struct gm_segment){.base = base, .size = size, .context = context, .units = units};
	for (CUdeviceptr at = base; at < base + size;) {
		CUdeviceptr begin = at;
		const uint64_t whole = place(arg, at, &begin);
		struct gm_unit *unit = &units[segment->n];
		const CUdeviceptr end = begin + whole < base + size ? begin + whole : base + size;
		unit->base = at;
		unit->size = (whole ? end : base + size) - at;
		unit->kept = begin != at || unit->size != whole;
		for (uint32_t i = granules(at - base); i < granules(at - base + unit->size); i++)
			segment->unit_of[i] = segment->n;
		segment->n++;
		at += unit->size;
	}
	return segment;
}

void gm_segment_drop(struct gm_segment *segment)
{
	free(segment->units);
	free(segment);
}

bool gm_segment_is_moving(const struct gm_segment *segment)
{
	for (uint32_t i = 0; i < segment->n; i++)
		if (segment->users || segment->units[i].state == GM_UNIT_LEAVING ||
		    segment->units[i].state == GM_UNIT_COMING)
			return true;
	return false;
}

struct gm_unit *gm_segment_units(struct gm_segment *segment, CUdeviceptr address, uint64_t bytes,
				 uint32_t *n)
{
	const uint64_t offset = address - segment->base;
	if (!bytes || bytes > segment->size - offset)
		return NULL;
	const uint32_t first = segment->unit_of[granules(offset)];
	*n = segment->unit_of[granules(offset + bytes - 1)] - first + 1;
	return &segment->units[first];
}

/* --- unused units --- */

static void unit_unlist(struct gm_segments *set, struct gm_unit *unit)
{
	if (!unit->listed)
		return;
	*(unit->before ? &unit->before->after : &set->first) = unit->after;
	*(unit->after ? &unit->after->before : &set->last) = unit->before;
	unit->before = unit->after = NULL;
	unit->listed = false;
}

/* As the last, unless a unit that left had been there before younger ones. */
static void unit_list(struct gm_segments *set, struct gm_unit *unit)
{
	if (unit->listed || unit->live || unit->kept || unit->state != GM_UNIT_MAPPED)
		return;
	struct gm_unit *before = set->last;
	while (before && before->freed > unit->freed)
		before = before->before;
	unit->before = before;
	unit->after = before ? before->after : set->first;
	*(unit->before ? &unit->before->after : &set->first) = unit;
	*(unit->after ? &unit->after->before : &set->last) = unit;
	unit->listed = true;
}

size_t gm_segments_take(struct gm_segments *set, uint64_t bytes, struct gm_unit **out, size_t most)
{
	size_t n = 0;
	uint64_t sum = 0;
	for (struct gm_unit *unit = set->first, *next; unit && n < most && sum < bytes;
	     unit = next) {
		next = unit->after;
		if (unit->freed > set->passed)
			break;
		unit_unlist(set, unit);
		unit->state = GM_UNIT_LEAVING;
		sum += unit->hosted ? 0 : unit->size;
		out[n++] = unit;
	}
	return n;
}

void gm_segments_gone(struct gm_segments *set, struct gm_unit *unit, bool vacant)
{
	GM_ASSERT(unit->state == GM_UNIT_LEAVING);
	unit->state = vacant ? GM_UNIT_VACANT : GM_UNIT_MAPPED;
	if (!vacant) {
		unit->kept = true;
		return;
	}
	if (unit->hosted)
		set->hosted -= unit->size;
	else
		set->vacant += unit->size;
	unit->hosted = false;
}

uint64_t gm_segments_claim(struct gm_segments *set, struct gm_unit *units, uint32_t n, bool replace)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct gm_unit *unit = &units[i];
		const bool replaces = replace && unit->state == GM_UNIT_MAPPED && unit->hosted &&
				      unit->live == 1 && unit->freed <= set->passed && !unit->kept;
		if (unit->state != GM_UNIT_VACANT && !replaces)
			continue;
		set->hosted -= replaces ? unit->size : 0;
		unit->hosted = false;
		unit->state = GM_UNIT_COMING;
		bytes += unit->size;
	}
	return bytes;
}

void gm_segments_came(struct gm_segments *set, struct gm_unit *unit, enum gm_unit_came how)
{
	GM_ASSERT(unit->state == GM_UNIT_COMING);
	unit->state = how == GM_UNIT_STAYED_AWAY ? GM_UNIT_VACANT : GM_UNIT_MAPPED;
	if (how == GM_UNIT_CAME)
		set->vacant -= unit->size;
	unit->hosted = how == GM_UNIT_CAME_HOSTED;
	set->hosted += unit->hosted ? unit->size : 0;
	unit_list(set, unit);
}

/* --- the set --- */

/* The number of segments that begin at `address` or below it. */
static size_t place_of(const struct gm_segments *set, CUdeviceptr address)
{
	size_t low = 0, high = set->n;
	while (low < high) {
		const size_t middle = (low + high) / 2;
		if (set->at[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct gm_segment *gm_segments_find(const struct gm_segments *set, CUdeviceptr address)
{
	const size_t place = place_of(set, address);
	struct gm_segment *segment = place ? set->at[place - 1] : NULL;
	return segment && address - segment->base < segment->size ? segment : NULL;
}

struct gm_segment *gm_segments_next(const struct gm_segments *set, CUdeviceptr address)
{
	const size_t place = address ? place_of(set, address - 1) : 0;
	return place < set->n ? set->at[place] : NULL;
}

bool gm_segments_add(struct gm_segments *set, struct gm_segment *segment)
{
	if (!gm_array_reserve(set, set->n + 1))
		return false;
	const size_t place = place_of(set, segment->base);
	memmove(&set->at[place + 1], &set->at[place], (set->n - place) * sizeof *set->at);
	set->at[place] = segment;
	set->n++;
	for (uint32_t i = 0; i < segment->n && segment->known; i++) { /* it was removed before */
		struct gm_unit *unit = &segment->units[i];
		set->hosted += unit->hosted ? unit->size : 0;
		set->vacant += unit->hosted || unit->state == GM_UNIT_VACANT ? unit->size : 0;
		unit_list(set, unit);
	}
	return true;
}

void gm_segments_remove(struct gm_segments *set, struct gm_segment *segment)
{
	const size_t place = place_of(set, segment->base);
	GM_ASSERT(place && set->at[place - 1] == segment);
	memmove(&set->at[place - 1], &set->at[place], (set->n - place) * sizeof *set->at);
	set->n--;
	for (uint32_t i = 0; i < segment->n; i++) {
		struct gm_unit *unit = &segment->units[i];
		unit_unlist(set, unit);
		if (unit->hosted)
			set->hosted -= unit->size;
		if (unit->hosted || unit->state == GM_UNIT_VACANT)
			set->vacant -= unit->size;
	}
}

/* --- tensors --- */

static struct gm_cached_tensor *tensor_at(const struct gm_segments *set, CUdeviceptr address)
{
	struct gm_cached_tensor *tensor;
	HASH_FIND(hh, set->tensors, &address, sizeof address, tensor);
	return tensor;
}

static bool tensor_add(struct gm_segments *set, CUdeviceptr address, uint64_t bytes)
{
	struct gm_cached_tensor *tensor = set->spare;
	if (tensor)
		set->spare = tensor->next;
	else
		tensor = malloc(sizeof *tensor);
	if (!tensor)
		return false;
	tensor->address = address;
	tensor->bytes = bytes;
	HASH_ADD(hh, set->tensors, address, sizeof address, tensor);
	if (!gm_hash_failed(tensor))
		return true;
	free(tensor);
	return false;
}

static void tensor_remove(struct gm_segments *set, struct gm_cached_tensor *tensor)
{
	HASH_DEL(set->tensors, tensor);
	tensor->next = set->spare;
	set->spare = tensor;
}

static const char DIFFERS[] = "its own sum of tensors differs";
static const char UNKNOWN[] = "it took back a tensor that it had not handed out";
static const char TWICE[] = "it handed out memory twice";
static const char BEHIND[] = "a tensor ends behind its segment";
static const char NO_MEMORY[] = "no host memory is left";

/* The first tensor of a segment: from now on its units may be taken. */
static void segment_begin(struct gm_segments *set, struct gm_segment *segment)
{
	segment->known = true;
	for (uint32_t i = 0; i < segment->n; i++) {
		segment->units[i].freed = set->frees;
		unit_list(set, &segment->units[i]);
	}
}

const char *gm_segments_hand_out(struct gm_segments *set, CUdeviceptr address, uint64_t bytes,
				 uint64_t sum, bool keep)
{
	uint32_t n;
	struct gm_segment *segment = gm_segments_find(set, address);
	set->sum += bytes;
	if (segment) {
		struct gm_unit *units = gm_segment_units(segment, address, bytes, &n);
		if (!units)
			return BEHIND;
		if (tensor_at(set, address))
			return TWICE;
		if (!tensor_add(set, address, bytes))
			return NO_MEMORY;
		if (!segment->known)
			segment_begin(set, segment);
		for (uint32_t i = 0; i < n; i++) {
			unit_unlist(set, &units[i]);
			units[i].live++;
			units[i].newly = keep && !units[i].kept;
			units[i].kept |= keep;
		}
	}
	return set->sum == sum ? NULL : DIFFERS;
}

/* `undo`: nobody got the tensor, so no capture used it. */
static void tensor_end(struct gm_segments *set, struct gm_segment *segment, CUdeviceptr address,
		       uint64_t bytes, bool undo)
{
	uint32_t n = 0;
	struct gm_unit *units = gm_segment_units(segment, address, bytes, &n);
	set->frees++;
	for (uint32_t i = 0; i < n; i++) {
		units[i].live--;
		units[i].kept &= !(undo && units[i].newly);
		units[i].freed = set->frees;
		unit_list(set, &units[i]);
	}
}

const char *gm_segments_take_back(struct gm_segments *set, CUdeviceptr address, uint64_t bytes,
				  uint64_t sum)
{
	struct gm_segment *segment = gm_segments_find(set, address);
	set->sum -= bytes;
	if (segment) {
		struct gm_cached_tensor *tensor = tensor_at(set, address);
		if (!tensor || tensor->bytes != bytes)
			return UNKNOWN;
		tensor_remove(set, tensor);
		tensor_end(set, segment, address, bytes, false);
	}
	return set->sum == sum ? NULL : DIFFERS;
}

void gm_segments_undo(struct gm_segments *set, CUdeviceptr address, uint64_t bytes)
{
	struct gm_segment *segment = gm_segments_find(set, address);
	struct gm_cached_tensor *tensor = segment ? tensor_at(set, address) : NULL;
	if (!tensor)
		return;
	tensor_remove(set, tensor);
	tensor_end(set, segment, address, bytes, true);
}
