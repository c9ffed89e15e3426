/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that answers the mailbox of a heap. Any thread may call, unless stated. */
#ifndef GM_HEAP_SERVICE_H
#define GM_HEAP_SERVICE_H

#include "heap/host.h"

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
