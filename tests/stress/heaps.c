/* SPDX-License-Identifier: BSD-3-Clause */
/* malloc in kernels: the lanes run in the emulation, the host's side as in any program. */
#include "stress.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "heap/device/api.h"
#include "sim/kernels.h"
/* after sim.h, whose names it takes */
#include "../preload/steer.h"
#include "api/gpumem.h"

#define LANES 64
#define BLOCKS 4

struct launch {
	struct gm_heap *heap;
	uint64_t random;
	atomic_uint served; /* blocks */
	atomic_bool damaged;
};

/* Each lane allocates some blocks and fills them with its number; none may have another lane's. */
static void lane_run(void *arg, uint32_t lane)
{
	struct launch *launch = arg;
	unsigned char *block[BLOCKS];
	size_t size[BLOCKS];
	for (unsigned i = 0; i < BLOCKS; i++) {
		size[i] = 16 + (launch->random >> (4 * i) & 15) * 100 + lane;
		block[i] = gpumem_malloc(launch->heap, size[i]);
		if (!block[i])
			continue;
		atomic_fetch_add(&launch->served, 1);
		memset(block[i], (int)(lane + i), size[i]);
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		for (size_t k = 0; block[i] && k < size[i]; k++)
			if (block[i][k] != (unsigned char)(lane + i))
				launch->damaged = true;
		gpumem_free(launch->heap, block[i]);
	}
}

static void kernel_run(void *arg)
{
	struct launch *launch = arg;
	gm_simt_launch(&(struct gm_simt){LANES / 32, 32, launch->random, GM_SIMT_FAIR}, lane_run,
		       arg);
}

/* Request granules as a lane does that finds none, and wait without a time limit until the host has
 * answered. */
static void heap_grow(struct gm_heap *heap)
{
	uint64_t granted = gm_load64(&heap->granted);
	for (unsigned i = 0; i < 1000 && gm_load64(&heap->granted) == granted; i++) {
		gm_span_want(heap, granted + 1);
		gm_simt_advance(GM_POLL);
		gm_span_poll(heap);
		usleep(100);
	}
}

void stress_heaps_open(void)
{
	gm_sim_stand_in(&gm_heap_sim_image);
}

/* The emulation runs one kernel at a time, including the library's. */
void stress_heap(struct worker *w)
{
	static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
	struct launch launch = {.random = stress_random(w, UINT64_MAX)};
	unsigned device = (unsigned)stress_random(w, DEVICES);
	struct gpumem_heap *heap;
	CUstream stream;
	if (pthread_mutex_trylock(&alone) != 0)
		return;
	stress_use(w, device);
	int result = gpumem_heap_create((int)device, 64 * MIB, &heap);
	if (!stress_try(w, "gpumem_heap_create", (CUresult)result)) {
		pthread_mutex_unlock(&alone);
		return;
	}
	launch.heap = gpumem_heap_device(heap);
	if (TRY(w, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) {
		gm_sim_hold(stream);
		gpumem_heap_begin(heap, stream);
		gm_sim_launch(stream, kernel_run, &launch);
		gpumem_heap_end(heap, stream);
		heap_grow(launch.heap);
		gm_sim_release(stream, (unsigned)-1);
		TRY(w, cuStreamSynchronize(stream));
		TRY(w, cuStreamDestroy(stream));
	}
	stress_count_served(launch.served, true);
	if (launch.damaged)
		stress_fault(w, "two lanes had one byte");
	struct gpumem_heap_stats stats = {.size = sizeof stats};
	if (gpumem_heap_stats(heap, &stats) == 0 && stats.live != 0)
		stress_fault(w, "%llu bytes are alive in a heap of which all is freed",
			     (unsigned long long)stats.live);
	gpumem_heap_destroy(heap);
	pthread_mutex_unlock(&alone);
}
