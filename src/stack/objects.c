/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/objects.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/lock.h"
#include "log/log.h"

#define OBJECTS_MOST 8192 /* most objects in the life of the process */
#define NAMES_LEAST ((size_t)64 << 10)
#define PATH_ROOM ((size_t)2 * PATH_MAX)

/* An object as the dynamic linker lists it. */
struct listed {
	uintptr_t bias, low, high; /* [low, high): its segments */
	size_t name;		   /* offset in the names */
	uint32_t path;		   /* number of a string */
	uint32_t id_length;
	uint8_t id[GM_BUILD_ID_MOST];
};

/* Filled by one walk of the list. The walk allocates nothing: a tool's malloc may hold its lock
 * while it waits for the dynamic linker's. */
struct listing {
	struct listed *at;
	size_t n, room;
	char *names;
	size_t names_n, names_room;
	char *path; /* PATH_ROOM bytes */
	uint64_t generation;
};

struct object {
	struct listed is;
	uint32_t number;
	_Atomic uint64_t written; /* newest segment with its record */
};

struct range {
	uintptr_t low, high;
	const struct object *object;
};

static struct gm_rwlock lock = GM_RWLOCK_INIT(GM_LOCK_RANK_STACK);
static GM_ARRAY(struct object *) objects; /* by number - 1 */
static GM_ARRAY(struct range) ranges;	  /* loaded now, by address */
static _Atomic uint64_t installed;	  /* generation of `ranges` */

static void id_read(const struct dl_phdr_info *info, const ElfW(Phdr) * segment, struct listed *out)
{
	const char *at = (const char *)(info->dlpi_addr + segment->p_vaddr);
	const char *end = at + segment->p_memsz;
	while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *head = (const void *)at;
		size_t name = (head->n_namesz + 3u) & ~(size_t)3;
		size_t body = (head->n_descsz + 3u) & ~(size_t)3;
		at += sizeof *head;
		if (name > (size_t)(end - at) || body > (size_t)(end - at) - name)
			return;
		if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 &&
		    !memcmp(at, "GNU", 4)) {
			out->id_length = head->n_descsz < GM_BUILD_ID_MOST ? head->n_descsz
									   : GM_BUILD_ID_MOST;
			memcpy(out->id, at + name, out->id_length);
			return;
		}
		at += name + body;
	}
}

static void segments_read(const struct dl_phdr_info *info, struct listed *out)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + segment->p_vaddr, high = low + segment->p_memsz;
		if (segment->p_type == PT_NOTE && !out->id_length)
			id_read(info, segment, out);
		if (segment->p_type != PT_LOAD)
			continue;
		if (!out->high || low < out->low)
			out->low = low;
		if (high > out->high)
			out->high = high;
	}
}

static int generation_read(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

static int object_list(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct listing *listing = arg;
	struct listed object = {.bias = info->dlpi_addr, .name = listing->names_n};
	const char *name = info->dlpi_name ? info->dlpi_name : "";
	size_t n = strlen(name) + 1;
	(void)size;
	listing->generation = info->dlpi_adds + info->dlpi_subs;
	segments_read(info, &object);
	if (listing->n < listing->room)
		listing->at[listing->n] = object;
	if (listing->names_n + n <= listing->names_room)
		memcpy(listing->names + listing->names_n, name, n);
	listing->n++;
	listing->names_n += n;
	return 0;
}

static void listing_free(const struct listing *listing)
{
	free(listing->at);
	free(listing->names);
	free(listing->path);
}

/* False: no host memory. */
static bool listing_make(struct listing *listing)
{
	size_t n = 64, names = NAMES_LEAST;
	for (;;) {
		*listing = (struct listing){.at = malloc(n * sizeof *listing->at),
					    .room = n,
					    .names = malloc(names),
					    .names_room = names,
					    .path = malloc(PATH_ROOM)};
		if (!listing->at || !listing->names || !listing->path)
			return false;
		dl_iterate_phdr(object_list, listing);
		if (listing->n <= n && listing->names_n <= names)
			return true;
		n = listing->n + 16;
		names = listing->names_n + NAMES_LEAST;
		listing_free(listing);
	}
}

/* The program has no name in the list, and the name of an object may be relative. */
static uint32_t path_number(const struct listing *listing, const char *name)
{
	char *whole = listing->path;
	bool relative = *name && *name != '/' && strchr(name, '/');
	if (*name && !relative)
		return gm_log_string(name);
	ssize_t n = readlink(relative ? "/proc/self/cwd" : "/proc/self/exe", whole, PATH_MAX);
	n = n > 0 ? n : 0;
	snprintf(whole + n, PATH_ROOM - (size_t)n, "%s%s", relative ? "/" : "", name);
	return gm_log_string(whole);
}

static bool listed_is_same(const struct listed *a, const struct listed *b)
{
	return a->bias == b->bias && a->low == b->low && a->high == b->high && a->path == b->path &&
	       a->id_length == b->id_length && !memcmp(a->id, b->id, a->id_length);
}

/* Find the same object from an earlier load, or make one; NULL: too many objects, or no host
 * memory. The lock is held for writing. */
static const struct object *object_of(const struct listed *listed)
{
	for (size_t i = 0; i < objects.n; i++)
		if (listed_is_same(&objects.at[i]->is, listed))
			return objects.at[i];
	struct object *object = objects.n < OBJECTS_MOST ? calloc(1, sizeof *object) : NULL;
	if (!object)
		return NULL;
	object->is = *listed;
	object->number = (uint32_t)objects.n + 1;
	if (gm_array_push(&objects, object))
		return object;
	free(object);
	return NULL;
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return (x->low > y->low) - (x->low < y->low);
}

static void listing_install(const struct listing *listing)
{
	gm_rwlock_write(&lock);
	if (listing->generation > atomic_load_explicit(&installed, memory_order_relaxed) &&
	    gm_array_reserve(&ranges, listing->n)) {
		ranges.n = 0;
		for (size_t i = 0; i < listing->n; i++) {
			const struct object *object = object_of(&listing->at[i]);
			if (object && object->is.high)
				ranges.at[ranges.n++] =
					(struct range){object->is.low, object->is.high, object};
		}
		if (ranges.n)
			qsort(ranges.at, ranges.n, sizeof *ranges.at, range_compare);
		atomic_store_explicit(&installed, listing->generation, memory_order_release);
	}
	gm_rwlock_release(&lock);
}

void gm_objects_refresh(void)
{
	uint64_t generation = 0;
	struct listing listing;
	dl_iterate_phdr(generation_read, &generation);
	if (generation == gm_objects_generation())
		return;
	if (listing_make(&listing)) {
		for (size_t i = 0; i < listing.n; i++)
			listing.at[i].path =
				path_number(&listing, listing.names + listing.at[i].name);
		listing_install(&listing);
	}
	listing_free(&listing);
}

uint64_t gm_objects_generation(void)
{
	return atomic_load_explicit(&installed, memory_order_acquire);
}

/* The lock is held. */
static const struct range *range_of(uintptr_t address)
{
	size_t low = 0, high = ranges.n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges.at[middle].high <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ranges.n && ranges.at[low].low <= address ? &ranges.at[low] : NULL;
}

void gm_objects_place(const uintptr_t *addresses, uint32_t n, struct gm_frame *out)
{
	gm_rwlock_read(&lock);
	for (uint32_t i = 0; i < n; i++) {
		const struct range *range = range_of(addresses[i]);
		out[i] = (struct gm_frame){.place = addresses[i]};
		if (range) {
			out[i].object = range->object->number;
			out[i].place -= range->object->is.bias;
		}
	}
	gm_rwlock_release(&lock);
}

void gm_objects_range(const void *address, uintptr_t *low, uintptr_t *high)
{
	gm_rwlock_read(&lock);
	const struct range *range = range_of((uintptr_t)address);
	*low = range ? range->low : 0;
	*high = range ? range->high : 0;
	gm_rwlock_release(&lock);
}

static struct object *object_numbered(uint32_t number)
{
	gm_rwlock_read(&lock);
	struct object *object = number && number <= objects.n ? objects.at[number - 1] : NULL;
	gm_rwlock_release(&lock);
	return object;
}

uint32_t gm_objects_path(uint32_t number)
{
	const struct object *object = object_numbered(number);
	return object ? object->is.path : 0;
}

void gm_objects_write(const struct gm_frame *frames, uint32_t n, uint64_t sequence)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!frames[i].object || frames[i].object >= GM_FRAME_FORWARD ||
		    (i && frames[i].object == frames[i - 1].object))
			continue;
		struct object *object = object_numbered(frames[i].object);
		if (!object || atomic_exchange_explicit(&object->written, sequence,
							memory_order_relaxed) == sequence)
			continue;
		const struct listed *is = &object->is;
		struct gm_record record = {.address = is->bias,
					   .size = is->high - is->low,
					   .held = is->id_length,
					   .id = object->number,
					   .string = is->path,
					   .device = 255,
					   .kind = GM_RECORD_OBJECT};
		gm_log_put_body(&record, is->id, is->id_length);
	}
}

void gm_objects_forget(void)
{
	gm_rwlock_init(&lock, GM_LOCK_RANK_STACK);
	memset(&objects, 0, sizeof objects);
	memset(&ranges, 0, sizeof ranges);
	atomic_store(&installed, 0);
}
