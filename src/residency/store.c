/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/msg.h"
#include "base/size.h"
#include "base/sys.h"
#include "copy/job.h"
#include "copy/share.h"

#define MOST_REFUSALS 3
#define STEP (256 * GM_MIB)   /* bytes of new banks between two looks at the room */
#define RESERVE (64 * GM_MIB) /* bytes of the room that stay free */
#define AHEAD (1024 * GM_MIB) /* bytes of banks that are made before they are needed */
#define PAGE 4096	      /* bytes, at least */
#define NAP 20000u	      /* ns between two looks at others' work */

/* --- registration --- */

static bool context_is_gone(const struct gm_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* The driver may have kept the registration of a registrar that is gone or about to go. */
static void bank_unpin(struct gm_store *store, struct gm_bank *bank)
{
	CUcontext popped;
	struct gm_context *registrar = bank->registrar;
	if (!registrar)
		return;
	bank->registrar = NULL;
	store->pinned -= bank->size;
	bool entered = gm_context_enter(registrar);
	bool pushed =
		entered && store->driver->cuCtxPushCurrent_v2(registrar->handle) == CUDA_SUCCESS;
	store->driver->cuMemHostUnregister(bank->at);
	if (pushed)
		store->driver->cuCtxPopCurrent_v2(&popped);
	if (entered)
		gm_context_leave(registrar);
}

static bool bank_may_pin(const struct gm_store *store, const struct gm_bank *bank)
{
	return store->driver && store->driver->cuMemHostRegister_v2 &&
	       store->driver->cuMemHostUnregister && store->refusals < MOST_REFUSALS &&
	       store->pinned <= store->pinnable && bank->size <= store->pinnable - store->pinned;
}

static void bank_pin(struct gm_store *store, struct gm_bank *bank, struct gm_context *context)
{
	if (bank->registrar && !context_is_gone(bank->registrar))
		return;
	bank_unpin(store, bank);
	if (!bank_may_pin(store, bank))
		return;
	if (store->driver->cuMemHostRegister_v2(bank->at, bank->size,
						CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS) {
		if (++store->refusals == MOST_REFUSALS)
			gm_msg(GM_MSG_INFO, "the driver does not register the memory of a sleep");
		return;
	}
	bank->registrar = context;
	store->pinned += bank->size;
}

/* --- host memory --- */

static uint64_t memory_available(void)
{
	static const char key[] = "MemAvailable:";
	char text[2048], *line, *end;
	int fd = gm_sys_open("/proc/meminfo", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? -1 : gm_sys_read(fd, text, sizeof text - 1);
	if (fd >= 0)
		gm_sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (!(line = strstr(text, key)))
		return UINT64_MAX;
	unsigned long long kib = strtoull(line + strlen(key), &end, 10);
	return end == line + strlen(key) ? UINT64_MAX : kib * 1024;
}

static uint64_t room_now(void)
{
	uint64_t machine = memory_available(), groups = gm_share_unused("");
	uint64_t room = machine < groups ? machine : groups;
	return room > RESERVE ? room - RESERVE : 0;
}

/* Kernels end processes that use more than their group may. Banks that were made ahead may have no
 * pages yet, which the system still counts as available. */
static bool room_is_there(struct gm_store *store, uint64_t size)
{
	if (store->promised < size) {
		uint64_t room = room_now(), ahead = store->ahead_bytes;
		room = room > ahead ? room - ahead : 0;
		if (room < size)
			return false;
		uint64_t most = size > STEP ? size : STEP;
		store->promised = room < most ? room : most;
	}
	store->promised -= size;
	return true;
}

/* --- pages --- */

/* A kernel without the call makes pages at the first write. */
static void pages_populate(char *at, uint64_t size)
{
	if (gm_job_populate(at, size, true) == 0)
		return;
	for (uint64_t i = 0; i < size; i += PAGE)
		((volatile char *)at)[i] = 0;
}

/* Populate the next pages of the bank. False: all are begun. */
static bool bank_populate(struct gm_bank *bank)
{
	if (atomic_load_explicit(&bank->next_page, memory_order_relaxed) >= bank->size)
		return false;
	uint64_t at = atomic_fetch_add(&bank->next_page, GM_BANK_UNIT);
	if (at >= bank->size)
		return false;
	pages_populate(bank->at + at, GM_BANK_UNIT);
	atomic_fetch_add_explicit(&bank->populated, GM_BANK_UNIT, memory_order_release);
	return true;
}

/* A thread of the crew: bank after bank. No bank ends meanwhile. */
static void banks_populate(void *arg)
{
	struct gm_store *store = arg;
	struct gm_bank *bank = NULL, *next;
	while (!atomic_load(&store->populate_end)) {
		if (bank && bank_populate(bank))
			continue;
		next = atomic_load(bank ? &bank->next : &store->populate_from);
		if (next)
			bank = next;
		else
			gm_sys_nap(NAP);
	}
}

void gm_store_ready(struct gm_store *store, struct gm_bank *bank, struct gm_context *context)
{
	if (bank->decided)
		return;
	while (bank_populate(bank))
		continue;
	while (atomic_load_explicit(&bank->populated, memory_order_acquire) < bank->size)
		gm_sys_nap(NAP);
	if (context)
		bank_pin(store, bank, context);
	bank->decided = true;
}

/* --- banks --- */

/* Map addresses for banks. All at once: a change of the map waits for the crew, which populates,
 * and the crew for it. */
static bool spare_map(struct gm_store *store, uint64_t size)
{
	size_t all = size + GM_BANK_UNIT;
	char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return false;
	char *at = (char *)gm_round_up((uintptr_t)map, GM_BANK_UNIT), *end = map + all;
	if (at > map)
		munmap(map, (size_t)(at - map));
	if (end > at + size)
		munmap(at + size, (size_t)(end - at) - size);
	madvise(at, size, MADV_DONTFORK);
	madvise(at, size, MADV_DONTDUMP);
	madvise(at, size, MADV_HUGEPAGE);
	store->spare = at;
	store->spare_size = size;
	return true;
}

static void spare_unmap(struct gm_store *store)
{
	if (store->spare_size)
		munmap(store->spare, store->spare_size);
	store->spare_size = 0;
}

static struct gm_bank *bank_make(struct gm_store *store, uint64_t size)
{
	if (store->spare_size < size) {
		spare_unmap(store);
		if (!spare_map(store, size))
			return NULL;
	}
	struct gm_bank *bank = calloc(1, sizeof *bank);
	if (!bank)
		return NULL;
	bank->at = store->spare;
	bank->size = size;
	store->spare += size;
	store->spare_size -= size;
	store->banks += size;
	return bank;
}

static void bank_end(struct gm_store *store, struct gm_bank *bank)
{
	bank_unpin(store, bank);
	store->banks -= bank->size;
	munmap(bank->at, bank->size);
	free(bank);
}

static void bank_keep(struct gm_store *store, struct gm_bank *bank)
{
	bank->used = 0;
	bank->decided = false;
	bank->kept = store->kept_first;
	store->kept_first = bank;
	store->kept += bank->size;
}

static struct gm_bank *kept_take(struct gm_store *store)
{
	struct gm_bank *bank = store->kept_first;
	if (bank) {
		store->kept_first = bank->kept;
		store->kept -= bank->size;
	}
	return bank;
}

static uint64_t bank_size(uint64_t wanted)
{
	return wanted < GM_BANK ? gm_round_up(wanted, GM_BANK_UNIT) : GM_BANK;
}

/* Put a kept bank, or a new one, behind the last one. False: no memory. */
static bool bank_add(struct gm_store *store, uint64_t size)
{
	struct gm_bank *bank = kept_take(store);
	if (!bank && !(bank = bank_make(store, size)))
		return false;
	atomic_store(&bank->next, NULL);
	if (store->last)
		atomic_store(&store->last->next, bank);
	else
		atomic_store(&store->populate_from, bank);
	store->last = bank;
	store->ahead = store->ahead ? store->ahead : bank;
	store->ahead_bytes += bank->size;
	store->expected -= bank->size < store->expected ? bank->size : store->expected;
	return true;
}

/* Cut the next parcels from the first bank that was made ahead. */
static void bank_begin(struct gm_store *store)
{
	struct gm_bank *bank = store->ahead;
	store->newest = bank;
	store->ahead = atomic_load(&bank->next);
	store->ahead_bytes -= bank->size;
}

/* --- the crew --- */

static void ahead_fill(struct gm_store *store)
{
	while (store->populating && store->expected && store->ahead_bytes < AHEAD) {
		uint64_t size = bank_size(store->expected);
		bool room = store->kept_first || room_is_there(store, size);
		if (!room || !bank_add(store, size))
			store->expected = 0;
	}
}

void gm_store_begin(struct gm_store *store)
{
	if (!store->crew || !store->threads || store->expected <= GM_BANK_UNIT)
		return;
	spare_unmap(store);
	if (store->expected > store->kept)
		spare_map(store, gm_round_up(store->expected - store->kept, GM_BANK_UNIT));
	store->populating = true;
	atomic_store(&store->populate_end, false);
	ahead_fill(store);
	gm_crew_begin(store->crew, store->threads, banks_populate, store);
}

void gm_store_stop(struct gm_store *store)
{
	if (store->populating) {
		atomic_store(&store->populate_end, true);
		gm_crew_finish(store->crew);
	}
	spare_unmap(store);
	store->populating = false;
	store->expected += store->ahead_bytes;
	while (store->ahead) {
		struct gm_bank *bank = store->ahead;
		store->ahead = atomic_load(&bank->next);
		bank_keep(store, bank);
	}
	store->ahead_bytes = 0;
	store->last = store->newest;
	if (store->newest)
		atomic_store(&store->newest->next, NULL);
	atomic_store(&store->populate_from, NULL);
}

/* --- parcels --- */

static uint64_t bank_rest(const struct gm_bank *bank)
{
	return bank ? bank->size - bank->used : 0;
}

/* Is there a byte left to cut off? `wanted`: bytes of the parcel that have no place yet. */
static bool bank_find(struct gm_store *store, uint64_t wanted)
{
	uint64_t expected = store->expected > wanted ? store->expected : wanted;
	if (bank_rest(store->newest))
		return true;
	if (!store->ahead && !bank_add(store, bank_size(expected)))
		return false;
	bank_begin(store);
	return true;
}

/* Is there room for a parcel in the banks and beside them? */
static bool parcel_has_room(struct gm_store *store, uint64_t size)
{
	uint64_t banks = bank_rest(store->newest) + store->ahead_bytes + store->kept;
	return size <= banks || room_is_there(store, size - banks);
}

struct gm_parcel *gm_store_take(struct gm_store *store, uint64_t size)
{
	struct gm_parcel *parcel = NULL;
	uint64_t rest = gm_round_up(size, GM_BANK_UNIT);
	if (!parcel_has_room(store, rest))
		return NULL;
	while (rest && bank_find(store, rest)) {
		struct gm_bank *bank = store->newest;
		uint64_t n = rest < bank_rest(bank) ? rest : bank_rest(bank);
		if (!parcel) {
			parcel = &bank->parcel[bank->used / GM_BANK_UNIT];
			*parcel = (struct gm_parcel){.bank = bank, .begin = bank->used};
		}
		parcel->size += n;
		store->taken += n;
		bank->used += n;
		bank->parcels++;
		rest -= n;
	}
	ahead_fill(store);
	if (!rest)
		return parcel;
	if (parcel)
		gm_store_give(store, parcel);
	return NULL;
}

bool gm_store_part(const struct gm_parcel *parcel, struct gm_stored *part)
{
	struct gm_bank *bank = part->bank ? atomic_load(&part->bank->next) : parcel->bank;
	uint64_t at = part->bank ? 0 : parcel->begin, begin = part->begin + part->size;
	uint64_t rest = parcel->size - begin;
	if (!rest)
		return false;
	uint64_t size = bank->size - at < rest ? bank->size - at : rest;
	*part = (struct gm_stored){bank, bank->at + at, begin, size};
	return true;
}

static void bank_leave(struct gm_store *store, struct gm_bank *bank)
{
	if (--bank->parcels)
		return;
	if (bank == store->newest)
		store->newest = NULL;
	if (bank == store->last)
		store->last = NULL;
	bank_keep(store, bank);
}

void gm_store_give(struct gm_store *store, struct gm_parcel *parcel)
{
	struct gm_bank *bank = parcel->bank, *next;
	uint64_t rest = parcel->size, at = parcel->begin;
	store->taken -= rest;
	for (; rest; bank = next, at = 0) { /* the parcel may end with its first bank */
		uint64_t n = bank->size - at < rest ? bank->size - at : rest;
		rest -= n;
		next = atomic_load(&bank->next);
		bank_leave(store, bank);
	}
}

/* --- what is kept --- */

uint64_t gm_store_room(const struct gm_store *store)
{
	uint64_t room = room_now();
	return room < UINT64_MAX - store->kept ? room + store->kept : UINT64_MAX;
}

uint64_t gm_store_room_beside(const struct gm_store *store)
{
	uint64_t room = room_now();
	return room > store->ahead_bytes ? room - store->ahead_bytes : 0;
}

bool gm_store_shrink(struct gm_store *store)
{
	struct gm_bank *bank = store->banks > store->warm ? kept_take(store) : NULL;
	if (bank)
		bank_end(store, bank);
	return bank;
}

void gm_store_trim(struct gm_store *store)
{
	struct gm_bank *bank;
	while ((bank = kept_take(store)))
		bank_end(store, bank);
}

void gm_store_forget(struct gm_store *store)
{
	store->newest = store->ahead = store->last = store->kept_first = NULL;
	store->kept = store->taken = store->banks = store->pinned = store->promised = 0;
	store->ahead_bytes = store->expected = store->spare_size = 0;
	store->refusals = 0;
	store->populating = false;
	atomic_store(&store->populate_from, NULL);
}
