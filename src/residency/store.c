/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/store.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/msg.h"
#include "base/size.h"
#include "base/sys.h"
#include "copy/share.h"

#define MOST_REFUSALS 3
#define FRONT_UNIT (UINT64_C(64) << 10)
#define STEP (64 * GM_MIB)    /* bytes of new parcels between two looks at the room */
#define RESERVE (64 * GM_MIB) /* bytes of the room that stay free */

static size_t parcel_room(uint64_t size)
{
	return gm_round_up(size, sizeof(max_align_t)) + sizeof(struct gm_parcel);
}

/* --- registration --- */

static bool context_is_gone(const struct gm_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* The driver may have kept the registration of a registrar that is gone or about to go. */
static void parcel_unpin(struct gm_store *store, struct gm_parcel *parcel)
{
	CUcontext popped;
	struct gm_context *registrar = parcel->registrar;
	if (!registrar)
		return;
	parcel->registrar = NULL;
	store->pinned -= parcel->size;
	store->fronts -= parcel->front;
	parcel->front = 0;
	bool entered = gm_context_enter(registrar);
	bool pushed =
		entered && store->driver->cuCtxPushCurrent_v2(registrar->handle) == CUDA_SUCCESS;
	store->driver->cuMemHostUnregister(parcel->at);
	if (pushed)
		store->driver->cuCtxPopCurrent_v2(&popped);
	if (entered)
		gm_context_leave(registrar);
}

static bool parcel_is_pinned(const struct gm_parcel *parcel)
{
	return parcel->registrar && !context_is_gone(parcel->registrar);
}

/* Bytes of a parcel to be registered: its share of `pinnable`. */
static uint64_t parcel_front(const struct gm_store *store, uint64_t size)
{
	if (store->expected <= store->pinnable)
		return size;
	double share = (double)store->pinnable / (double)store->expected;
	return (uint64_t)((double)size * share) / FRONT_UNIT * FRONT_UNIT;
}

bool gm_store_wants_pin(const struct gm_store *store, const struct gm_parcel *parcel)
{
	uint64_t others = store->pinned - (parcel->registrar ? parcel->size : 0) + store->plain;
	uint64_t front = parcel_front(store, parcel->size);
	return store->driver && store->driver->cuMemHostRegister_v2 &&
	       store->driver->cuMemHostUnregister && store->refusals < MOST_REFUSALS &&
	       !parcel_is_pinned(parcel) && front && others <= store->warm &&
	       parcel->size <= store->warm - others &&
	       store->fronts - parcel->front + front <= store->pinnable;
}

void gm_store_pin(struct gm_store *store, struct gm_parcel *parcel, struct gm_context *context)
{
	parcel_unpin(store, parcel);
	uint64_t front = parcel_front(store, parcel->size);
	if (store->driver->cuMemHostRegister_v2(parcel->at, front, CU_MEMHOSTREGISTER_PORTABLE) !=
	    CUDA_SUCCESS) {
		if (++store->refusals == MOST_REFUSALS)
			gm_msg(GM_MSG_INFO,
			       "the driver does not register what GPUMEM_SLEEP_STORE keeps");
		return;
	}
	parcel->registrar = context;
	parcel->front = front;
	store->pinned += parcel->size;
	store->fronts += front;
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

/* --- parcels --- */

static struct gm_parcel *parcel_make(uint64_t size)
{
	size_t room = parcel_room(size);
	char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, room, MADV_DONTFORK);
	madvise(at, room, MADV_DONTDUMP);
	madvise(at, room, MADV_HUGEPAGE);
	struct gm_parcel *parcel = (struct gm_parcel *)(at + room - sizeof *parcel);
	*parcel = (struct gm_parcel){.at = at, .size = size};
	return parcel;
}

static void parcel_end(struct gm_store *store, struct gm_parcel *parcel)
{
	parcel_unpin(store, parcel);
	munmap(parcel->at, parcel_room(parcel->size));
}

/* Take the kept parcel at *link off the list. */
static struct gm_parcel *parcel_unlist(struct gm_store *store, struct gm_parcel **link)
{
	struct gm_parcel *parcel = *link;
	*link = parcel->older;
	store->kept -= parcel->size;
	store->plain -= parcel->registrar ? 0 : parcel->size;
	return parcel;
}

static void oldest_end(struct gm_store *store)
{
	struct gm_parcel **link = &store->newest;
	while ((*link)->older)
		link = &(*link)->older;
	parcel_end(store, parcel_unlist(store, link));
}

/* Kernels end processes that use more than their group may. */
static bool room_is_there(struct gm_store *store, uint64_t size)
{
	uint64_t step = size > STEP ? size : STEP, room;
	if (store->promised < size) {
		room = room_now();
		if (room < size)
			return false;
		store->promised = room < step ? room : step;
	}
	store->promised -= size;
	return true;
}

struct gm_parcel *gm_store_take(struct gm_store *store, uint64_t size)
{
	struct gm_parcel **link = &store->newest, *parcel;
	while (*link && (*link)->size != size)
		link = &(*link)->older;
	if (*link) {
		parcel = parcel_unlist(store, link);
	} else {
		while (store->newest && store->kept + store->taken + size > store->warm)
			oldest_end(store);
		parcel = room_is_there(store, size) ? parcel_make(size) : NULL;
	}
	store->taken += parcel ? size : 0;
	return parcel;
}

/* A registered parcel is always kept: its registration counted it. */
void gm_store_give(struct gm_store *store, struct gm_parcel *parcel)
{
	uint64_t held = store->plain + store->pinned;
	store->taken -= parcel->size;
	if (!parcel->registrar && (held > store->warm || parcel->size > store->warm - held)) {
		parcel_end(store, parcel);
		return;
	}
	store->kept += parcel->size;
	store->plain += parcel->registrar ? 0 : parcel->size;
	parcel->older = store->newest;
	store->newest = parcel;
}

uint64_t gm_store_room(const struct gm_store *store)
{
	uint64_t room = room_now();
	return room < UINT64_MAX - store->kept ? room + store->kept : UINT64_MAX;
}

void gm_store_trim(struct gm_store *store)
{
	while (store->newest)
		parcel_end(store, parcel_unlist(store, &store->newest));
}

void gm_store_forget(struct gm_store *store)
{
	store->newest = NULL;
	store->kept = store->taken = store->pinned = store->fronts = store->plain = 0;
	store->promised = 0;
	store->refusals = 0;
}
