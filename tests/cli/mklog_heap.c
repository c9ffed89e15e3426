/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of mklog about malloc in kernels. */
#include <string.h>

#include "mklog.h"

static struct gm_heap_sample heap;
static uint64_t n_contexts, heap_mapped;

static void put_takeover(unsigned d, uint64_t end, uint64_t limit, uint64_t ns, const char *text)
{
	gm_counter_add(d, end ? GM_C_takeovers_native : GM_C_takeovers, 1);
	gm_counter_add(d, GM_C_takeover_ns, ns);
	n_contexts++;
	put((struct gm_record){.address = end ? 0 : (uint64_t)1 << 40,
			       .size = end,
			       .held = limit,
			       .id = n_contexts,
			       .context = (uint32_t)n_contexts,
			       .duration = (uint32_t)ns,
			       .string = gm_log_string(text),
			       .status = end ? 200 : 0,
			       .device = (uint8_t)d,
			       .kind = GM_RECORD_TAKEOVER});
}

void do_native(const uint64_t v[WORDS])
{
	put_takeover((unsigned)v[0], 5, 0, v[1],
		     "the driver refused the helper module, while loading the helper "
		     "(CUDA_ERROR_INVALID_IMAGE)");
}

void do_taken(const uint64_t v[WORDS])
{
	heap.limit = v[1];
	put_takeover((unsigned)v[0], 0, v[1], v[2], "malloc and free of kernels are gpumem's");
}

void do_image(const uint64_t v[WORDS])
{
	static const char *const texts[] = {
		"calls no allocator", "calls an allocator: malloc, free",
		"kernels.fatbin: is compressed, and there is no liblz4.so.1"};
	gm_counter_add(0, GM_C_images, 1);
	gm_counter_add(0, GM_C_images_malloc, v[0] > 0);
	gm_counter_add(0, GM_C_images_unknown, v[0] == 2);
	put((struct gm_record){.address = (uint64_t)1 << 33,
			       .held = v[0] == 2,
			       .id = v[0] > 0,
			       .string = gm_log_string(texts[v[0] % 3]),
			       .device = 255,
			       .kind = GM_RECORD_MODULE});
}

static void lend(unsigned d, uint64_t size, uint64_t chunk, uint64_t ns)
{
	const uint64_t map[WORDS] = {d, size, ns};
	chunk_lend(map);
	heap_mapped += chunk;
	heap.mapped_peak = heap_mapped;
	heap.chunks++;
	heap.grown++;
	gm_counter_raise(d, GM_C_heap_mapped_peak, gm_counter_change(d, GM_C_heap_mapped, chunk));
}

void do_lend(const uint64_t v[WORDS])
{
	gm_counter_add((unsigned)v[0], GM_C_heaps, 1);
	heap.heap = (uint64_t)1 << 40;
	heap.own = v[1];
	lend((unsigned)v[0], 2 * v[1], v[1], 1);
}

static unsigned growth_bin(uint64_t ns)
{
	unsigned bin = 0;
	for (uint64_t most = GM_HEAP_GROWTH_LEAST; bin < GM_HEAP_GROWTH_BINS - 1 && ns > most;
	     most *= 4)
		bin++;
	return bin;
}

static const char *kernel;

void do_kernel(const uint64_t v[WORDS])
{
	static const char *const names[] = {NULL, "_Z11lists_buildPP4NodeP6Answer", "a graph",
					    "_ZN4test5LayerILi4EE3runEv", "bad\033[31m"};
	kernel = names[v[0] % (sizeof names / sizeof *names)];
}

void do_grow(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0], bin = growth_bin(v[2]);
	lend(d, v[1], v[1], v[2]);
	heap.growths[bin]++;
	heap.growth_ns += v[2];
	heap.growth_longest = v[2] > heap.growth_longest ? v[2] : heap.growth_longest;
	gm_counter_add(d, GM_C_heap_growths, 1);
	gm_counter_add(d, GM_C_heap_growth_bytes, v[1]);
	gm_counter_add(d, GM_C_heap_growth_ns, v[2]);
	gm_counter_raise(d, GM_C_heap_growth_longest, v[2]);
	if (bin < GM_HEAP_GROWTH_BINS - 1)
		gm_counter_add(d, GM_C_heap_growths_64us + bin, 1);
	put((struct gm_record){.address = (uint64_t)1 << 41,
			       .size = v[1],
			       .held = heap_mapped,
			       .duration = (uint32_t)v[2],
			       .string = kernel ? gm_log_string(kernel) : 0,
			       .device = (uint8_t)d,
			       .kind = GM_RECORD_GROW});
}

void do_nogrow(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	heap.refused++;
	heap.refused_limit += v[2] == 1;
	gm_counter_add(d, GM_C_heap_refused, 1);
	gm_counter_add(d, GM_C_heap_refused_limit, v[2] == 1);
	put((struct gm_record){.size = v[1],
			       .held = heap_mapped,
			       .status = 2,
			       .device = (uint8_t)d,
			       .kind = GM_RECORD_GROW});
}

void do_slack(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	chunk_lend(v);
	gm_counter_raise(d, GM_C_heap_slack_peak, gm_counter_change(d, GM_C_heap_slack, v[1]));
	gm_counter_add(d, GM_C_heap_slack_growths, v[2]);
	heap.slack = v[1];
}

void do_waited(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	gm_counter_add(d, GM_C_heap_wait_ns, v[2]);
	gm_counter_raise(d, GM_C_heap_used_peak, v[1]);
	heap.wait_ns += v[2];
}

void do_size(const uint64_t v[WORDS])
{
	heap.live[v[0] % GM_HEAP_BINS] = (uint32_t)v[1];
}

static uint64_t heap_live, heap_nulls, heap_foreign;

static void put_heap(unsigned d, unsigned flags)
{
	const struct gm_record record = {.address = heap_live,
					 .size = heap_mapped,
					 .held = heap_nulls,
					 .id = heap_foreign,
					 .context = (uint32_t)n_contexts,
					 .string = gm_log_string("granule"),
					 .flags = (uint16_t)flags,
					 .device = (uint8_t)d,
					 .kind = GM_RECORD_HEAP_SAMPLE};
	gm_log_put_heap(&record, &heap);
}

void do_heap(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	gm_counter_raise(d, GM_C_heap_live_peak,
			 gm_counter_change(d, GM_C_heap_live, v[1] - heap_live));
	gm_counter_add(d, GM_C_heap_nulls, v[2] - heap_nulls);
	gm_counter_add(d, GM_C_heap_foreign_frees, v[3] - heap_foreign);
	gm_counter_add(d, GM_C_heap_samples, 1);
	heap_live = v[1];
	heap_nulls = v[2];
	heap_foreign = v[3];
	heap.live_peak = heap_live > heap.live_peak ? heap_live : heap.live_peak;
	heap.used = gm_round_up(heap_live, 2 * GM_MIB);
	put_heap(d, 0);
}

void do_last(const uint64_t v[WORDS])
{
	put_heap((unsigned)v[0], GM_RECORD_LAST);
}

/* The last figures of a call: bytes, blocks; then what went wrong. */
static uint64_t site_counts[3];

void do_site(const uint64_t v[WORDS])
{
	const unsigned number = (unsigned)v[0], names = v[1];
	const uint64_t line = 10 + (names > 2 ? 0 : number);
	struct gm_record r = {.id = number,
			      .context = (uint32_t)n_contexts,
			      .address = number ? 0x7f0000000000 + 16 * number : 0,
			      .size = names ? 0x1f0 : 0,
			      .string = names ? gm_log_string("_Z4workPi") : 0,
			      .held = names > 1 ? gm_log_string("work.cu") | line << 32 : 0,
			      .kind = GM_RECORD_SITE};
	put(r);
	r = (struct gm_record){.id = number,
			       .context = r.context,
			       .address = v[2],
			       .size = v[3],
			       .held = 2 * v[2],
			       .kind = GM_RECORD_SITE_BLOCKS};
	put(r);
	r = (struct gm_record){.id = number,
			       .context = r.context,
			       .address = v[3] + 1,
			       .size = site_counts[0],
			       .held = site_counts[1] | site_counts[2] << 32,
			       .kind = GM_RECORD_SITE_CALLS};
	put(r);
	memset(site_counts, 0, sizeof site_counts);
}

void do_wrong(const uint64_t v[WORDS])
{
	memcpy(site_counts, v, sizeof site_counts);
}
