/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which call in a kernel allocated and freed a block, for the policy `granule` alone.
 *
 *   site    a call of malloc or free, known by its return address. It gets a number, its place in
 *           an open hash table. Number 0 counts the calls whose address is not known, and those
 *           beyond a full table
 *   counts  of each site, once for each of GM_SITE_STRIPES groups of multiprocessors, as all warps
 *           of a grid mostly call from one site. The lanes of a warp with the same site and size
 *           count together
 *   number  of the site that allocated a block: 16 bits for each 16 bytes of the heap's addresses,
 *           written at the beginning of the block, so that blocks keep their sizes and addresses.
 *           Elsewhere these words have any value: the slot's bit decides whether a block begins
 *           there. Of several frees of a block at the same moment, those that come too late count
 * at the site of the block
 *
 * A call has 24 registers, and what it keeps in the stack costs more time than what it reads: so a
 * malloc or free is counted before it is made, by a function of its own.
 *
 * Nothing here waits, and each call is one that any lanes may make, converged or not. A figure may
 * be read while it changes.
 */
#ifndef GM_HEAP_DEVICE_SITES_H
#define GM_HEAP_DEVICE_SITES_H

#include "heap/device/granule.h"

enum {
	GM_SITES = 1024,
	GM_SITE_STRIPES = 32,
	GM_SITE_PROBES = 64,
	GM_SITE_WORDS = 64,    /* half instructions of the code around a return address */
	GM_SITE_NUMBERED = 16, /* bytes of the heap for each number */
};

/* The counts of a site. Of a block: at the site that allocated it. Of a wrong free: at its own. */
enum gm_site_count {
	GM_SITE_MALLOCS, /* successful; their bytes, as rounded up by the policy, follow */
	GM_SITE_BYTES,
	GM_SITE_FREES,
	GM_SITE_FREED_BYTES,
	GM_SITE_NULLS,	 /* mallocs that got NULL */
	GM_SITE_TWICE,	 /* frees of a block that is free */
	GM_SITE_INVALID, /* frees of an address that is no block */
	GM_SITE_COUNTS,
};

struct gm_site_counts {
	uint64_t at[8];
};

/* Device memory, zero at first. */
struct gm_sites {
	uint64_t address[GM_SITES]; /* 0: free, and place 0 always */
	struct gm_site_counts counts[GM_SITE_STRIPES][GM_SITES];
};

/* What the host reads of a site. */
struct gm_site_figures {
	uint64_t address;
	uint64_t at[GM_SITE_COUNTS];
};

/* The instructions around the return address, half of them before it; 0: not in the same 4 KiB. */
struct gm_site_code {
	uint64_t word[GM_SITE_WORDS];
};

/* Host memory that a reading fills. */
struct gm_sites_read {
	uint64_t blind; /* by the host; not 0: code of new sites may be gone, and is not read */
	struct gm_site_figures figures[GM_SITES];
	struct gm_site_code code[GM_SITES]; /* written when figures[i].address was 0 before */
};

/* --- sites --- */

/* Claim a place for a new site. A function of its own: each site is new once. */
GM_DEVICE_SLOW uint32_t gm_sites_claim(struct gm_sites *sites, uint64_t address, uint32_t at)
{
	for (uint32_t probe = 0; probe < GM_SITE_PROBES; probe++) {
		uint64_t there = at ? gm_cas64_relaxed(&sites->address[at], 0, address) : 1;
		if (there == 0 || there == address)
			return at;
		at = (at + 1) % GM_SITES;
	}
	return 0;
}

/* The first place of a site with that return address. */
GM_DEVICE uint32_t gm_sites_hash(uint64_t address)
{
	return (uint32_t)(address >> 4) * 0x9e3779b1u >> 22;
}

/* The number of the site with that return address, of which 0 is not known. */
GM_DEVICE uint32_t gm_sites_find(struct gm_sites *sites, uint64_t address)
{
	return address ? gm_sites_claim(sites, address, gm_sites_hash(address)) : 0;
}

/* Add one to count `kind` of a site, and `size` to the next count, unless it is 0. */
GM_DEVICE void gm_sites_count(struct gm_sites *sites, uint32_t number, uint32_t kind, uint64_t size)
{
	uint64_t *count = sites->counts[gm_sm() % GM_SITE_STRIPES][number].at + kind;
	/* A block of 2 MiB and more counts alone. */
	uint32_t units = size < GM_GRANULE ? (uint32_t)(size >> 4) : 1u << 18 | gm_lane();
	uint32_t same = gm_match32(gm_active(), units << 13 | kind << 10 | number);
	if (gm_lane() != gm_leader(same))
		return;
	gm_count64(count, gm_popc(same));
	if (size)
		gm_count64(count + 1, gm_popc(same) * size);
}

/* --- calls of the policy, counted --- */

/* The place of a block's number. `offset` is in the heap. */
GM_DEVICE uint16_t *gm_sites_number(const struct gm_heap *heap, uint64_t offset)
{
	return &heap->numbers[offset / GM_SITE_NUMBERED];
}

/* What a block of `size` bytes takes. */
GM_DEVICE uint64_t gm_sites_bytes(const struct gm_heap *heap, size_t size)
{
	return size <= 1024 * 1024 ? gm_granule_size(gm_granule_class_of(size))
				   : (uint64_t)gm_granule_run_of(heap, size) << GM_GRANULE_SHIFT;
}

/* A malloc that is counted already got NULL. */
GM_DEVICE_SLOW void gm_sites_refused(struct gm_heap *heap, uint32_t number, size_t size)
{
	uint64_t bytes = gm_sites_bytes(heap, size);
	uint64_t *count = heap->sites->counts[gm_sm() % GM_SITE_STRIPES][number].at;
	gm_count64(&count[GM_SITE_MALLOCS], 0ull - 1);
	gm_count64(&count[GM_SITE_BYTES], 0 - bytes);
	gm_count64(&count[GM_SITE_NULLS], 1);
}

GM_DEVICE uint32_t gm_sites_begun(struct gm_heap *heap, size_t size, uint32_t number)
{
	gm_sites_count(heap->sites, number, GM_SITE_MALLOCS, gm_sites_bytes(heap, size));
	return number;
}

/* gm_sites_begin of a site that is not at its first place, or new. */
GM_DEVICE_SLOW uint32_t gm_sites_begin_slow(struct gm_heap *heap, size_t size, uint64_t from)
{
	return gm_sites_begun(heap, size, gm_sites_find(heap->sites, from));
}

/* Count a malloc that the call with the return address `from` is about to make; its number, or
 * GM_SITES: gm_sites_begin_slow has to follow. It calls nothing, so it needs little stack. */
GM_DEVICE_SLOW uint32_t gm_sites_begin(struct gm_heap *heap, size_t size, uint64_t from)
{
	uint32_t at = gm_sites_hash(from);
	if (at == 0 || gm_load64_cached(&heap->sites->address[at]) != from)
		return GM_SITES;
	return gm_sites_begun(heap, size, at);
}

/* gm_granule_malloc by the call with the return address `from`. */
GM_DEVICE void *gm_sites_malloc(struct gm_heap *heap, size_t size, uint64_t from)
{
	uint32_t number = gm_sites_begin(heap, size, from);
	if (number == GM_SITES)
		number = gm_sites_begin_slow(heap, size, from);
	void *address = gm_granule_malloc(heap, size);
	if (address)
		gm_store16(gm_sites_number(heap, (uint64_t)(uintptr_t)address - heap->base),
			   (uint16_t)number);
	else
		gm_sites_refused(heap, number, size);
	return address;
}

/*
 * Count the free of `address` that is about to be made, at the site of the block. False: no block
 * begins there. The number may be that of another block by then, after a wrong free at the same
 * time. It calls nothing, like gm_sites_begin.
 */
GM_DEVICE_SLOW bool gm_sites_freed(struct gm_heap *heap, const void *address)
{
	bool live;
	uint64_t size = gm_granule_begins(heap, address, &live);
	if (!live)
		return false;
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t number = gm_load16(gm_sites_number(heap, offset)) % GM_SITES;
	gm_sites_count(heap->sites, number, GM_SITE_FREES, size);
	return true;
}

/* Take back the count of `wrong` frees, as gm_sites_freed counted that of `address`. */
GM_DEVICE void gm_sites_unfreed(struct gm_heap *heap, const void *address, uint64_t size,
				uint32_t wrong)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t number = gm_load16(gm_sites_number(heap, offset)) % GM_SITES;
	uint64_t *count = heap->sites->counts[gm_sm() % GM_SITE_STRIPES][number].at;
	gm_count64(&count[GM_SITE_FREES], 0ull - wrong);
	gm_count64(&count[GM_SITE_FREED_BYTES], 0 - wrong * size);
}

#define GM_SITE_NOT_FREED 0xffffffffu

/* gm_granule_free. Unless it returns 0, gm_sites_wrong has to follow. */
GM_DEVICE uint32_t gm_sites_free(struct gm_heap *heap, void *address)
{
	if (address == NULL)
		return 0;
	return gm_sites_freed(heap, address) ? gm_granule_release(heap, address)
					     : GM_SITE_NOT_FREED;
}

/*
 * Count `wrong` frees, what gm_sites_free has returned, by the call with the return address `from`:
 * of a free block, or of no block; or of a block that several lanes freed at the same moment.
 */
GM_DEVICE_SLOW void gm_sites_wrong(struct gm_heap *heap, void *address, uint32_t wrong,
				   uint64_t from)
{
	bool live;
	uint64_t size = gm_granule_begins(heap, address, &live);
	if (wrong == GM_SITE_NOT_FREED) {
		wrong = 1;
		gm_count64(&heap->foreign_frees, 1);
	} else {
		gm_sites_unfreed(heap, address, size, wrong);
	}
	uint32_t number = gm_sites_find(heap->sites, from);
	uint64_t *count = heap->sites->counts[gm_sm() % GM_SITE_STRIPES][number].at;
	gm_count64(&count[size ? GM_SITE_TWICE : GM_SITE_INVALID], wrong);
}

/* --- reading, by `threads` lanes, of which this is `thread` --- */

GM_DEVICE void gm_sites_read_code(uint64_t address, struct gm_site_code *code)
{
	uint64_t first = address - sizeof *code / 2, page = (address - 16) >> 12;
	for (uint32_t i = 0; i < GM_SITE_WORDS; i++) {
		uint64_t at = first + i * sizeof(uint64_t);
		uint64_t word =
			at >> 12 == page ? gm_peek64_system((const uint64_t *)(uintptr_t)at) : 0;
		gm_post64_system(&code->word[i], word);
	}
}

GM_DEVICE void gm_sites_read(struct gm_heap *heap, struct gm_sites_read *out, uint32_t thread,
			     uint32_t threads)
{
	for (uint32_t i = thread; i < GM_SITES; i += threads) {
		uint64_t address = gm_load64(&heap->sites->address[i]), sum[GM_SITE_COUNTS] = {0};
		if (i && !address)
			continue;
		for (uint32_t stripe = 0; stripe < GM_SITE_STRIPES; stripe++)
			for (uint32_t kind = 0; kind < GM_SITE_COUNTS; kind++)
				sum[kind] += gm_load64(&heap->sites->counts[stripe][i].at[kind]);
		for (uint32_t kind = 0; kind < GM_SITE_COUNTS; kind++)
			gm_post64_system(&out->figures[i].at[kind], sum[kind]);
		if (address && !gm_peek64_system(&out->figures[i].address) &&
		    !gm_peek64_system(&out->blind))
			gm_sites_read_code(address, &out->code[i]);
		gm_fence_system();
		gm_post64_system(&out->figures[i].address, address);
	}
}

#endif
