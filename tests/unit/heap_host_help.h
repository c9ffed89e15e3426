/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device heap made by the host: the real pool on the simulated driver, the heap's own kernels in
 * the emulation. Lanes ask through the mailbox; the test decides which thread answers.
 */
#ifndef GM_TESTS_HEAP_HOST_HELP_H
#define GM_TESTS_HEAP_HOST_HELP_H

#include "context/fence.h"
#include "heap/chunks/chunks.h"
#include "heap/flight.h"
#include "heap/kernel.h"
#include "heap/list.h"
#include "heap/sample.h"
#include "sim/kernels.h"
#include "tests/unit/sim_setup.h"
/* after the emulation's headers */
#include "tests/unit/heap_help.h"

struct site {
	struct gm_driver driver;
	struct gm_pool *pool;
	struct gm_context *context;
	struct gm_heap_config config;
	struct gm_heap_host *heap;
	CUresult result; /* of gm_heap_create */
};

static inline struct gm_heap *site_device(const struct site *site)
{
	return (struct gm_heap *)(uintptr_t)gm_heap_device(site->heap);
}

static inline struct gm_heap_figures site_figures(const struct site *site)
{
	struct gm_heap_figures figures;
	gm_heap_figures(site->heap, &figures);
	return figures;
}

static inline struct gm_pool_stats site_pool(const struct site *site)
{
	struct gm_pool_stats stats;
	gm_pool_stats(site->pool, &stats);
	return stats;
}

/* A device of `memory`, its pool, and no heap. */
static inline void site_open(struct site *site, const char *memory, uint64_t limit)
{
	CUresult result;
	memset(site, 0, sizeof *site);
	sim_start(memory, NULL, NULL);
	gm_context_forget_all();
	gm_fence_forget_all();
	if (gm_driver_load(&site->driver, gm_sim_symbol, NULL) ||
	    gm_driver_query_version(&site->driver) != CUDA_SUCCESS)
		abort();
	site->context = gm_context_current(&site->driver, &result);
	const struct gm_pool_config pool = {
		.driver = &site->driver,
		.limit = UINT64_MAX,
		.fences = gm_fence_ops(&site->driver),
		.fence_arg = &site->driver,
		.trim_after = UINT64_MAX,
	};
	if (!site->context || gm_pool_create(&pool, &site->pool) != CUDA_SUCCESS)
		abort();
	site->config = (struct gm_heap_config){
		.driver = &site->driver,
		.pool = site->pool,
		.context = site->context,
		.limit = limit,
		.image = &gm_heap_sim_image,
	};
}

/* The same with a heap. */
static inline void site_make(struct site *site, const char *memory, uint64_t limit,
			     const char *policy)
{
	site_open(site, memory, limit);
	site->config.policy = policy;
	site->result = gm_heap_create(&site->config, &site->heap);
	if (!TAP_IS(site->result, CUDA_SUCCESS, "%s: a heap is made", policy ? policy : "default"))
		exit(1);
}

/* End the heap; none of its memory may remain in the pool or in the driver. */
static inline void site_close(struct site *site, const char *name)
{
	const char *why = "";
	if (site->heap)
		gm_heap_destroy(site->heap);
	TAP_IS(site_pool(site).lent, 0, "%s: the pool lends nothing after the heap's end", name);
	TAP_OK(gm_pool_is_valid(site->pool, &why), "%s: the pool is valid %s", name, why);
	gm_pool_destroy(site->pool);
	for (unsigned i = 0; i < GM_CONTEXT_EVENTS; i++)
		if (atomic_load(&site->context->events[i]))
			site->driver.cuEventDestroy_v2(
				atomic_exchange(&site->context->events[i], NULL));
	if (site->context->probe)
		site->driver.cuEventDestroy_v2(site->context->probe);
	TAP_IS(gm_sim_leaks(true), 0, "%s: the driver keeps no memory of the heap", name);
}

#endif
