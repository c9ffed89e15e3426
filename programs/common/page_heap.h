/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap of one of gpumem's policies on one block of device memory, without a thread of the host:
 * all of its granules are granted at once, and more is refused. For nvcc and for the emulation.
 */
#ifndef PAGE_HEAP_H
#define PAGE_HEAP_H

#include <string.h>

#include "heap/device/span.h"
#include "programs/common/args.h"

struct page_heap {
	struct gm_heap host;	/* as it was made */
	struct gm_heap *device; /* what kernels get */
	void *memory;
};

static inline void *page_heap_zeroed(uint64_t bytes)
{
	void *block = pr_take(bytes);
	PR_MUST(cudaMemset(block, 0, bytes));
	return block;
}

/* `policy_bytes`: gm_N_bytes(capacity). The caller runs gm_span_collect and gm_N_init by a kernel
 * before any other, and page_heap_close at the end. */
static inline void page_heap_open(struct page_heap *h, uint32_t capacity, uint64_t policy_bytes)
{
	void *mail;
	memset((void *)h, 0, sizeof *h);
	h->memory = pr_take(((uint64_t)capacity + 1) << GM_GRANULE_SHIFT);
	PR_MUST(cudaMallocHost(&mail, sizeof(struct gm_mailbox)));
	h->host.mail = (struct gm_mailbox *)memset(mail, 0, sizeof(struct gm_mailbox));
	h->host.mail->grant[0] = capacity;
	h->host.mail->have.value = 1;
	h->host.mail->refused.value = 1;
	h->host.base = ((uint64_t)(uintptr_t)h->memory + GM_GRANULE - 1) & ~(GM_GRANULE - 1);
	h->host.capacity = capacity;
	h->host.summaries = (capacity + 4095) / 4096;
	h->host.policy = page_heap_zeroed(policy_bytes);
	h->host.free.word = (uint64_t *)page_heap_zeroed((capacity + 63) / 64 * sizeof(uint64_t));
	h->host.free.summary = (uint64_t *)page_heap_zeroed(h->host.summaries * sizeof(uint64_t));
	h->host.run = (uint32_t *)page_heap_zeroed(capacity * sizeof(uint32_t));
	h->device = (struct gm_heap *)pr_take(sizeof h->host);
	PR_MUST(cudaMemcpy(h->device, &h->host, sizeof h->host, cudaMemcpyHostToDevice));
}

static inline void page_heap_close(struct page_heap *h)
{
	PR_MUST(cudaFree(h->host.policy));
	PR_MUST(cudaFree(h->host.free.word));
	PR_MUST(cudaFree(h->host.free.summary));
	PR_MUST(cudaFree(h->host.run));
	PR_MUST(cudaFree(h->device));
	PR_MUST(cudaFree(h->memory));
	PR_MUST(cudaFreeHost(h->host.mail));
}

#endif
