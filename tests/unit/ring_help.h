/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of copy/ring.h on the simulated driver: a ring, device memory, bytes to compare. */
#ifndef GM_TESTS_UNIT_RING_HELP_H
#define GM_TESTS_UNIT_RING_HELP_H

#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "copy/ring.h"

#include "on_sim.h"

#define MIB ((size_t)GM_MIB)
#define DEVICE_ROOM (24 * MIB)

static struct gm_ring ring;
static struct gm_context *context;
static CUdeviceptr device;

/* Reset the ring; its threads stay. */
static inline void ring_reset(void)
{
	if (ring.slots)
		munmap(ring.slots, gm_ring_room(&ring));
	memset(ring.site, 0, sizeof ring.site);
	ring.slots = NULL;
	ring.registrar = NULL;
	ring.refusals = 0;
	atomic_store(&ring.last_used, 0);
	atomic_store(&ring.useless, false);
	atomic_store(&ring.taken, false);
}

/* A driver, a context, device memory, and a ring without slots. */
static inline void set_up(unsigned threads, size_t room)
{
	CUresult ignored;
	sim_start("13.0", "1");
	sim_set_current(sim_primary(0));
	gm_context_forget_all();
	ring_reset();
	context = gm_context_current(&sim, &ignored);
	if (sim.cuMemAlloc_v2(&device, DEVICE_ROOM) != CUDA_SUCCESS ||
	    !gm_ring_init(&ring, &sim, threads, room)) {
		printf("Bail out! no ring\n");
		exit(1);
	}
}

/* Copy through the ring as the shim does. */
static inline bool staged(const struct gm_ring_copy *copy)
{
	bool done = false;
	if (!gm_ring_take(&ring))
		return false;
	if (gm_context_enter(context)) {
		CUstreamCaptureMode mode = gm_driver_quiet_begin(&sim);
		done = gm_ring_copy(&ring, context, copy);
		gm_driver_quiet_end(&sim, mode);
		gm_context_leave(context);
	}
	gm_ring_leave(&ring);
	return done;
}

static inline bool line(bool to_device, void *host, size_t at, size_t n)
{
	return staged(&(struct gm_ring_copy){.to_device = to_device,
					     .host = host,
					     .device = device + at,
					     .width = n,
					     .rows = 1,
					     .behind = CU_STREAM_LEGACY});
}

static inline unsigned char byte_of(size_t i, unsigned seed)
{
	return (unsigned char)(i * 2654435761u >> 13 ^ i ^ seed);
}

static inline void paint(unsigned char *at, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = byte_of(i, seed);
}

static inline bool is_painted(const unsigned char *at, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != byte_of(i, seed))
			return false;
	return true;
}

static inline bool is_all(const unsigned char *at, size_t n, unsigned char byte)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != byte)
			return false;
	return true;
}

/* Device memory is host memory of the simulated driver. */
static inline unsigned char *on_device(size_t at)
{
	return (unsigned char *)device + at;
}

static inline void *pages(size_t n)
{
	void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

#endif
