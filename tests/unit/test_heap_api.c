/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that gpumem_device.cuh offers to kernels, run by the emulation. */
#include "tests/unit/heap_help.h"

#include "heap/device/api.h"

enum { WARPS = 3, LANES = WARPS * 32, CAPACITY = 128 };

struct work {
	struct fixture f;
	struct gpumem_block block[WARPS];
	struct gpumem_arena arena;
	unsigned char *kept[LANES];
	size_t size[LANES];
	uint64_t null, bad, misaligned;
};

static void open_heap(struct work *work)
{
	memset(work, 0, sizeof *work);
	memset(work->block, 0x5a, sizeof work->block); /* shared memory is not cleared */
	for (unsigned p = 0; p < GM_POLICIES; p++)
		if (gm_policies[p].malloc == gm_granule_malloc)
			test_open(&work->f, &gm_policies[p], CAPACITY, CAPACITY, test_seed());
}

static void check(struct work *work, bool good)
{
	if (!good)
		test_count(&work->bad);
}

/* No error was counted, and no allocation is left. */
static void end(struct work *work, const char *name)
{
	TAP_IS(work->bad, 0, "%s: blocks keep their contents", name);
	TAP_IS(work->null, 0, "%s: no lane gets NULL", name);
	TAP_IS(work->misaligned, 0, "%s: all blocks are aligned", name);
	TAP_IS(test_stats(&work->f).live_bytes, 0, "%s: no byte is live after all frees", name);
	TAP_IS(work->f.heap.foreign_frees, 0, "%s: nothing was freed that was none", name);
	test_close(&work->f);
}

static void standard(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	size_t size = 40 + thread * 13;
	unsigned char *block = gpumem_malloc(heap, size);
	check(work, block && gpumem_usable_size(heap, block) >= size);
	test_fill(block, size, thread);
	/* Longer, then much shorter. */
	unsigned char *longer = gpumem_realloc(heap, block, size * 9);
	check(work, longer && test_holds(longer, size, thread) && longer != block);
	test_fill(longer, size * 9, thread);
	check(work, gpumem_realloc(heap, longer, size * 9 - 1) == longer);
	unsigned char *shorter = gpumem_realloc(heap, longer, 24);
	check(work, shorter && test_holds(shorter, 24, thread) && shorter != longer);
	check(work, gpumem_usable_size(heap, shorter) < size * 9);
	gpumem_free(heap, shorter);
	block = gpumem_realloc(heap, NULL, size);
	check(work, block != NULL);
	memset(block, 0xff, size);
	gpumem_free(heap, block);
	block = gpumem_calloc(heap, size, 3);
	for (size_t i = 0; block && i < size * 3; i++)
		check(work, block[i] == 0);
	gpumem_free(heap, block);
	check(work, !gpumem_calloc(heap, SIZE_MAX / 2, 3) && !gpumem_malloc(heap, SIZE_MAX));
	gpumem_free(heap, NULL);
}

static void aligned(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	static const size_t sizes[] = {0, 1, 24, 100, 777, 3000, 40000};
	for (size_t alignment = 1; alignment <= 65536; alignment *= 4) {
		size_t size = sizes[(thread + alignment) % 7];
		unsigned char *block = gpumem_aligned_alloc(heap, alignment, size);
		if (!block || (uintptr_t)block % alignment)
			test_count(block ? &work->misaligned : &work->null);
		if (block)
			test_fill(block, size, thread);
		gm_simt_progress();
		check(work, !block || test_holds(block, size, thread));
		gpumem_free(heap, block);
	}
	check(work, !gpumem_aligned_alloc(heap, 0, 1) && !gpumem_aligned_alloc(heap, 24, 1) &&
			    !gpumem_aligned_alloc(heap, 2 * GM_GRANULE, 1));
	if (thread == 0)
		for (size_t alignment = GM_GRANULE / 4; alignment <= GM_GRANULE; alignment *= 2) {
			void *block = gpumem_aligned_alloc(heap, alignment, 1000);
			check(work, block && (uintptr_t)block % alignment == 0);
			gpumem_free(heap, block);
		}
}

static void warps(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	size_t size = thread % 7 * 50;
	for (unsigned i = 0; i < 4; i++) {
		/* The two halves of the warp diverge. */
		uint32_t mask = i < 2 ? ~0u : gm_lane() < 16 ? 0xffffu : 0xffff0000u;
		unsigned char *part = gpumem_warp_malloc(heap, mask, size);
		if (!part)
			test_count(&work->null);
		if ((uintptr_t)part % 16)
			test_count(&work->misaligned);
		test_fill(part, size, thread + i);
		gm_simt_progress();
		check(work, test_holds(part, size, thread + i));
		gpumem_warp_free(heap, mask, part);
	}
	check(work, gpumem_warp_malloc(heap, ~0u, (CAPACITY / 32 + 1) * GM_GRANULE) == NULL);
}

static void blocks(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gpumem_block *block = &work->block[thread / 32];
	size_t size = thread % 5 * 100;
	for (unsigned i = 0; i < 4; i++) {
		unsigned char *part = gpumem_block_malloc(&work->f.heap, block, size);
		if (!part)
			test_count(&work->null);
		test_fill(part, size, thread + i);
		gm_simt_progress();
		check(work, test_holds(part, size, thread + i));
		gpumem_block_free(&work->f.heap, block);
	}
}

static void fill_arena(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (unsigned i = 0; i < 20; i++) {
		size_t size = i == 7 && thread % 16 == 0 ? 20000 : thread * 7 % 900;
		unsigned char *block = gpumem_arena_malloc(&work->f.heap, &work->arena, size);
		if (!block)
			test_count(&work->null);
		if ((uintptr_t)block % 16)
			test_count(&work->misaligned);
		if (!block)
			return;
		test_fill(block, size, thread);
		gm_simt_progress();
		if (i % 10 != 9)
			continue;
		work->kept[thread] = block;
		work->size[thread] = size;
	}
}

static void free_arena(void *arg, uint32_t thread)
{
	struct work *work = arg;
	check(work, test_holds(work->kept[thread], work->size[thread], thread));
	gm_syncwarp(~0u);
	if (thread == LANES - 1)
		gpumem_arena_free(&work->f.heap, &work->arena);
}

static void exhaust(void *arg, uint32_t thread)
{
	struct work *work = arg;
	while (gpumem_arena_malloc(&work->f.heap, &work->arena, 9000 + thread))
		gm_simt_progress();
	test_count(&work->null);
}

static void run(struct work *work, void (*kernel)(void *, uint32_t), const char *name)
{
	TAP_OK(test_launch(&work->f, WARPS, WARPS, kernel, work), "%s: all lanes end", name);
}

int main(void)
{
	static struct work work;
	static const struct {
		const char *name;
		void (*kernel)(void *, uint32_t);
	} rows[] = {{"malloc and its kin", standard},
		    {"aligned", aligned},
		    {"warps", warps},
		    {"blocks", blocks}};
	for (unsigned i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
		open_heap(&work);
		work.f.mode = i % 2 ? GM_SIMT_UNFAIR : GM_SIMT_FAIR;
		run(&work, rows[i / 2].kernel, rows[i / 2].name);
		end(&work, rows[i / 2].name);
	}
	open_heap(&work);
	run(&work, fill_arena, "arena");
	TAP_OK(work.arena.large && work.arena.top, "arena: pieces, and separate large blocks");
	run(&work, free_arena, "all at once");
	TAP_OK(!work.arena.large && !work.arena.top,
	       "arena: nothing remains of an arena freed at once");
	run(&work, exhaust, "full");
	TAP_IS(work.null, LANES, "full: a full heap gives NULL at last");
	work.null = 0;
	gpumem_arena_free(&work.f.heap, &work.arena);
	end(&work, "arena");
	return tap_done();
}
