/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of a heap: the table, and all that changes it. These files share its states
 * (enum gm_chunk_state) and the heap's lock:
 *
 *     chunks      the table itself
 *     grow        one chunk more, by the mailbox
 *     slack       the next one, mapped ahead
 *     shed        chunks taken by a kernel beside the program's
 *     trim        empty ones, to the pool
 *     service     the thread that answers the mailbox
 */
#ifndef GM_HEAP_CHUNKS_CHUNKS_H
#define GM_HEAP_CHUNKS_CHUNKS_H

#include "heap/host.h"

/* --- the table (chunks.c) --- */

/* The table of chunks. begin reserves addresses for `count` granules, as a chunk that is MAPPING;
 * false: there is no room. end takes a chunk off the table. find: the chunk that begins at `first`,
 * which must exist. For end and find the heap's lock is held. */
bool gm_heap_chunk_begin(struct gm_heap_host *heap, uint32_t count, uint32_t *first);
void gm_heap_chunk_end(struct gm_heap_host *heap, struct gm_heap_chunk *chunk);
struct gm_heap_chunk *gm_heap_chunk_find(struct gm_heap_host *heap, uint32_t first);
/* Chunks that count in heap->mapped. The heap's lock is held. */
uint32_t gm_heap_chunks(const struct gm_heap_host *heap);
CUdeviceptr gm_heap_chunk_address(const struct gm_heap_host *heap, uint32_t first);
static inline uint64_t gm_heap_chunk_bytes(uint32_t granules)
{
	return (uint64_t)granules << GM_GRANULE_SHIFT;
}

/* Granules that may still be mapped under the limit. By the service thread. */
uint32_t gm_heap_room(const struct gm_heap_host *heap);

/* --- growth (grow.c). No lock is held. --- */

/*
 * Map one more chunk of `count` granules, side by side, and grant it to the device. By the service
 * thread, and before there is one by gm_heap_create. The error is the pool's; nothing has changed
 * then.
 */
CUresult gm_heap_add_chunk(struct gm_heap_host *heap, uint32_t count);

/* A chunk that is MAPPING has been mapped: grant it to the device. By the service thread, and
 * before there is one by gm_heap_create. */
void gm_heap_chunk_grant(struct gm_heap_host *heap, uint32_t first);

/* Granules of the next growth, if they are available; lanes could use `wish`. */
uint32_t gm_heap_chunk_size(const struct gm_heap_host *heap, uint32_t wish);

/* Answer the mailbox. True: the heap grew. By the service thread. */
bool gm_heap_answer(struct gm_heap_host *heap);

/* Return CLAIMED chunks to the pool; those that the driver does not unmap stay CLAIMED. Returns
 * bytes. Any thread. */
uint64_t gm_heap_drop_chunks(struct gm_heap_host *heap);

/*
 * --- slack (slack.c) ---
 *
 * The next chunk, mapped while kernels use the last, so that the next growth makes no driver call.
 * The device does not know it, so it can be returned at any time, even under a running kernel: at
 * once if the pool lacks memory (gm_pool_recall), after GPUMEM_TRIM_AFTER without use, and with the
 * heap. No lock is held.
 */

/* If the heap grew since the last call, and a kernel is in flight: map the memory of the next
 * growth ahead, if there is memory to spare. True: it was mapped. By the service thread. */
bool gm_heap_map_ahead(struct gm_heap_host *heap);

/* Grant the slack to the device, which needs `need` granules, or a few fewer (GM_HEAP_LOW). False:
 * there is none, or too little. By the service thread. */
bool gm_heap_use_slack(struct gm_heap_host *heap, uint32_t need);

/* Return the slack to the pool. Returns bytes. Any thread. */
uint64_t gm_heap_drop_slack(struct gm_heap_host *heap);

/*
 * --- shedding (shed.c) ---
 *
 * A heap with kernels in flight all the time returns memory that they did not need for
 * GPUMEM_TRIM_AFTER. No thread waits for the GPU:
 *
 *   a trim       requests a shed that is due
 *   a launch     puts the shed's kernel (device/shed.h) before its own, on its stream
 *   the kernel   takes chunks from the device: they are LEAVING
 *   a trim       makes the chunks CLAIMED when all kernels that were in flight then have ended
 *   meanwhile    a growth takes a chunk that is LEAVING, without a call of the driver
 *
 * The heap's lock is held, but for gm_heap_shed_launch.
 */

/* Two sheds are no less than this apart, in ns. */
#define GM_SHED_LEAST UINT64_C(100000000)

/* The time of the next work of gm_heap_shed_poll, by the service's clock; UINT64_MAX: none. */
uint64_t gm_heap_shed_due(const struct gm_heap_host *heap);

/* Request a shed that is due; take in one that has run; make chunks CLAIMED that no kernel can use
 * any more. Any thread. */
void gm_heap_shed_poll(struct gm_heap_host *heap, uint64_t now);

/* A launch begins. True: the caller releases the lock and calls gm_heap_shed_launch, with the
 * heap's context current. */
bool gm_heap_shed_begin(struct gm_heap_host *heap);
void gm_heap_shed_launch(struct gm_heap_host *heap, CUstream stream);

/* Begin the grace period of LEAVING chunks, if no launch is in progress. */
void gm_heap_shed_see_launches(struct gm_heap_host *heap);

/* Make a LEAVING chunk of at least `need` granules, or a few fewer (GM_HEAP_LOW), GM_CHUNK_MAPPED.
 * NULL: there is none. */
struct gm_heap_chunk *gm_heap_shed_return(struct gm_heap_host *heap, uint32_t need);

/* --- the thread that answers the mailbox (service.c). Any thread may call, unless stated. --- */

/* Before a launch: start the thread if there is none. The heap's lock is held. */
void gm_heap_service_start(struct gm_heap_host *heap);

/* End the service and wait for its thread. gm_heap_resume allows it again, and starts it for
 * kernels that are in flight by then. No lock is held; the caller makes the two calls one after the
 * other. */
void gm_heap_stop(struct gm_heap_host *heap);
void gm_heap_resume(struct gm_heap_host *heap);

/* Call config.idle, if gm_heap_trim_next gave no time when it was last called, and gives one now.
 */
void gm_heap_tell(struct gm_heap_host *heap);

/* The service's clock. */
uint64_t gm_heap_now(const struct gm_heap_host *heap);

/* The body of the thread, until it is not needed. False: the program's threads have ended. Called
 * by the thread, and by tests in its place. */
bool gm_heap_serve(struct gm_heap_host *heap);

#endif
