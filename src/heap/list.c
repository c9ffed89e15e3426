/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/list.h"

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static pthread_cond_t unpinned = PTHREAD_COND_INITIALIZER;
static struct gm_heap_host *all;

void gm_heap_list_add(struct gm_heap_host *heap)
{
	gm_lock_take(&lock);
	heap->next = all;
	all = heap;
	gm_lock_release(&lock);
}

struct gm_heap_host *gm_heap_pin_next(struct gm_heap_host *heap, uint64_t key)
{
	gm_lock_take(&lock);
	struct gm_heap_host *next = heap ? heap->next : all;
	while (next && (next->unlisted || (key && next->config.context->key != key)))
		next = next->next;
	if (next)
		next->pinned++;
	if (heap && --heap->pinned == 0)
		pthread_cond_broadcast(&unpinned);
	gm_lock_release(&lock);
	return next;
}

/* A pinned heap stays linked: the thread that walks the list continues from it. */
void gm_heap_list_remove(struct gm_heap_host *heap)
{
	struct gm_heap_host **at = &all;
	gm_lock_take(&lock);
	heap->unlisted = true;
	while (heap->pinned)
		gm_lock_wait(&lock, &unpinned);
	while (*at && *at != heap)
		at = &(*at)->next;
	if (*at)
		*at = heap->next;
	gm_lock_release(&lock);
}

void gm_heap_list_forget(void)
{
	all = NULL;
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	pthread_cond_init(&unpinned, NULL);
}
