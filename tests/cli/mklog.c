/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write a log through the real writer, with contents that the arguments determine to the byte:
 * mklog WORD... with the usual knobs in the environment. Clock, process number and host are fixed:
 * the start is 2026-11-21 12:00:00 UTC, as process 4711 of node7. Words:
 *   at:TIME                   advance the clock to TIME after the start
 *   map:DEVICE:SIZE:TIME      a chunk, mapped in TIME
 *   to:ADDRESS                the address of the next chunk, block or tensor
 *   unmap:CHUNK               the n-th chunk is returned
 *   move:CHUNK:ADDRESS        the n-th chunk is mapped at another address
 *   alloc:DEVICE:SIZE:TIME    a block of the pool; the n-th one is block n
 *   driver:DEVICE:SIZE:TIME   an allocation that the driver serves
 *   fail:DEVICE:SIZE:FREE     an allocation is refused, with FREE left on the device
 *   own:DEVICE:SIZE           memory of cuMemCreate, as the next refusal of the device has it
 *   call:DEVICE:SIZE:FREE     a copy lacks memory; SIZE 0: not known
 *   nohost:SIZE               a copy lacks memory of the host
 *   lack:DEVICE:SIZE          an allocation is refused by the driver, without a pool
 *   held:DEVICE:SIZE:N        live at the last refusal: N blocks of this stack and SIZE
 *   rest:DEVICE:SIZE:N        live at the last refusal: N other blocks of SIZE each
 *   free:BLOCK:TIME           a block is freed
 *   gone:BLOCK                a block ends with its context
 *   stack:N                   the stack of the following allocations; 0: none (stack_put,
 *                             torch_stack_put)
 *   loop:DEVICE:SIZE:N        a block is allocated and freed N times
 *   nest:DEVICE:SIZE:N        N times eight blocks are allocated, and freed in reverse order
 *   churn:DEVICE:SIZE:N       N times, 10 us apart: one of 500 blocks of up to SIZE is allocated,
 * from one of twenty stacks, or freed; the same ones in each log h2d:BYTES:TIME            a copy
 * from the host run:DEVICE:SIZE           a run of idle memory, for the next sample of the device
 *   remap:DEVICE:SIZE         the longest run that remapping could make, for the next sample
 *   limit:DEVICE:SIZE         GPUMEM_LIMIT, for the next sample
 *   sample:DEVICE:LARGEST:UNRECLAIMABLE
 *   give:COUNTER:DEVICE:SIZE  foreign memory of the kind whose calls COUNTER counts
 *   take:COUNTER:DEVICE:SIZE  such memory is freed
 *   used:DEVICE:SIZE          the driver reports this much used memory
 *   native:DEVICE:TIME        a context keeps the driver's malloc in kernels; decided in TIME
 *   taken:DEVICE:SIZE:TIME    a context is taken over, by a heap of at most SIZE
 *   image:N                   an image is loaded: 0 no malloc, 1 malloc, 2 unknown
 *   lend:DEVICE:SIZE          the first chunk of a heap, and its metadata of the same size
 *   grow:DEVICE:SIZE:TIME     another chunk, for which kernels waited TIME
 *   kernel:N                  the name of the kernel for the following growths; 0: none
 *   nogrow:DEVICE:SIZE:N      a refused growth; N=1: at the heap's limit
 *   slack:DEVICE:SIZE:N       memory mapped ahead for a heap, and N growths that used such memory
 *   waited:DEVICE:SIZE:TIME   kernels waited TIME for heaps; at most SIZE is in use
 *   size:N:N                  allocations of a bin of sizes, for the next heap:
 *   heap:DEVICE:SIZE:N:N      a heap is read: live bytes, NULLs so far, and foreign frees
 *   last:DEVICE               the last reading of the heap
 *   wrong:N:N:N               of the next call: NULLs, frees of free blocks and of no block
 *   site:N:N:SIZE:BLOCKS      call N of malloc in kernels, with names: 1 of its function, 2 of its
 *                             file, too, 3 at line 10; its live bytes and blocks
 *   table:N:N:N               of an unknown table: what became of it, a function (0: none), its
 *                             calls
 *   tensor:DEVICE:SIZE        a tensor of PyTorch; the n-th one is tensor n
 *   back:TENSOR               it is taken back
 *   refuse:DEVICE:SIZE:BYTES  PyTorch's cache, whose segments have BYTES, gives up
 *   count:COUNTER:N           add N to a counter, consistent or not
 *   kill                      end here, as by kill -9
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "log/count.h"
#include "log/frag.h"
#include "log/log.h"
#include "mklog.h"
#include "mklog_host.h"
#include "mklog_stacks.h"

enum { BLOCKS = 4096 };

struct device devices[DEVICES];
static struct block {
	unsigned device;
	uint64_t size, held, address;
} blocks[BLOCKS + 1], chunks[BLOCKS + 1];
static uint64_t n_blocks, n_chunks, n_driver, next_address;

enum { HOOK_ALLOC = 1, HOOK_FREE, HOOK_COPY };
static const char *const hooks[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2"};

void put(struct gm_record record)
{
	if (gm_log_wants((enum gm_record_kind)record.kind))
		gm_log_put(&record);
}

static void peak(unsigned d, enum gm_counter high, enum gm_counter time, uint64_t value)
{
	if (gm_counter_raise(d, high, value))
		gm_counter_set(d, time, START + passed);
}

void gauges(unsigned d)
{
	const struct device *device = &devices[d];
	gm_counter_set(d, GM_C_requested, device->requested);
	gm_counter_set(d, GM_C_handed_out, device->handed_out);
	gm_counter_set(d, GM_C_mapped, device->mapped);
	gm_counter_set(d, GM_C_idle, device->mapped - device->handed_out);
	gm_counter_set(d, GM_C_live_blocks, device->live);
	peak(d, GM_C_requested_peak, GM_C_requested_peak_time, device->requested);
	peak(d, GM_C_mapped_peak, GM_C_mapped_peak_time, device->mapped);
}

/* The address of the last `to`, which is used up; without one, `otherwise`. */
uint64_t address_take(uint64_t otherwise)
{
	const uint64_t address = next_address ? next_address : otherwise;
	next_address = 0;
	return address;
}

unsigned stack_now;

static void do_stack(const uint64_t v[WORDS])
{
	stack_now = (unsigned)v[0];
	if (stack_now >= TORCH_STACKS)
		torch_stack_put(stack_now);
	else if (stack_now)
		stack_put(stack_now);
}

static void do_to(const uint64_t v[WORDS])
{
	next_address = v[0];
}

static void put_chunk(uint64_t n, uint64_t old, uint64_t ns, unsigned kind, unsigned flags)
{
	put((struct gm_record){.address = chunks[n].address,
			       .size = chunks[n].size,
			       .held = old,
			       .id = n,
			       .duration = (uint32_t)ns,
			       .flags = (uint16_t)flags,
			       .device = (uint8_t)chunks[n].device,
			       .kind = (uint8_t)kind});
}

static void chunk_map(const uint64_t v[WORDS], unsigned flags)
{
	const unsigned d = (unsigned)v[0];
	gm_counter_add(d, GM_C_map_calls, 1);
	gm_counter_add(d, GM_C_map_bytes, v[1]);
	gm_counter_add(d, GM_C_map_ns, v[2]);
	gauges(d);
	chunks[++n_chunks] = (struct block){d, v[1], 0, address_take(0)};
	put_chunk(n_chunks, 0, v[2], GM_RECORD_MAP, flags);
}

static void do_map(const uint64_t v[WORDS])
{
	devices[v[0]].mapped += v[1];
	chunk_map(v, 0);
}

void chunk_lend(const uint64_t v[WORDS])
{
	gm_counter_add((unsigned)v[0], GM_C_lent, v[1]);
	chunk_map(v, GM_RECORD_LENT);
}

static void do_unmap(const uint64_t v[WORDS])
{
	const unsigned d = chunks[v[0]].device;
	devices[d].mapped -= chunks[v[0]].size;
	gm_counter_add(d, GM_C_unmap_calls, 1);
	gm_counter_add(d, GM_C_unmap_bytes, chunks[v[0]].size);
	gauges(d);
	put_chunk(v[0], 0, 0, GM_RECORD_UNMAP, 0);
}

static void do_move(const uint64_t v[WORDS])
{
	const uint64_t old = chunks[v[0]].address;
	chunks[v[0]].address = v[1];
	put_chunk(v[0], old, 0, GM_RECORD_REMAP, 0);
}

static void do_alloc(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	const struct block block = {d, v[1], gm_round_up(v[1], 512),
				    address_take((n_blocks + 1) << 32)};
	blocks[++n_blocks > BLOCKS ? 0 : n_blocks] = block;
	devices[d].requested += block.size;
	devices[d].handed_out += block.held;
	devices[d].live++;
	gm_counter_add(d, GM_C_allocate_calls, 1);
	gm_counter_add(d, GM_C_allocate_pool, 1);
	gm_counter_add(d, GM_C_allocate_bytes, block.size);
	gm_counter_add(d, GM_C_allocate_ns, v[2]);
	gauges(d);
	put((struct gm_record){.address = block.address,
			       .size = block.size,
			       .held = block.held,
			       .id = n_blocks,
			       .context = d + 1,
			       .duration = (uint32_t)v[2],
			       .stack = stack_now,
			       .hook = HOOK_ALLOC,
			       .device = (uint8_t)d,
			       .kind = GM_RECORD_ALLOCATE});
}

/* Kinds of memory on the device; each has six counters: calls, bytes, frees, freed, alive, peak. */
static bool on_device(enum gm_counter calls)
{
	return calls <= GM_C_foreign_array_calls;
}

static void do_give(const uint64_t v[WORDS])
{
	const enum gm_counter calls = (enum gm_counter)v[0];
	const unsigned d = (unsigned)v[1];
	gm_counter_add(d, calls, 1);
	gm_counter_add(d, calls + 1, v[2]);
	gm_counter_raise(d, calls + 5, gm_counter_change(d, calls + 4, v[2]));
	if (on_device(calls))
		gm_counter_raise(d, GM_C_foreign_peak, gm_counter_change(d, GM_C_foreign, v[2]));
}

static void do_take(const uint64_t v[WORDS])
{
	const enum gm_counter calls = (enum gm_counter)v[0];
	const unsigned d = (unsigned)v[1];
	gm_counter_add(d, calls + 2, 1);
	gm_counter_add(d, calls + 3, v[2]);
	gm_counter_add(d, calls + 4, -v[2]);
	if (on_device(calls))
		gm_counter_add(d, GM_C_foreign, -v[2]);
}

static void do_used(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	gm_counter_add(d, GM_C_device_asked, 1);
	gm_counter_set(d, GM_C_device_asked_time, START + passed);
	gm_counter_set(d, GM_C_device_used, v[1]);
	gm_counter_set(d, GM_C_device_accounted,
		       devices[d].mapped + gm_counter_get(d, GM_C_foreign));
}

static void do_driver(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	do_give((const uint64_t[WORDS]){GM_C_foreign_driver_calls, d, v[1]});
	gm_counter_add(d, GM_C_allocate_calls, 1);
	gm_counter_add(d, GM_C_allocate_driver, 1);
	gm_counter_add(d, GM_C_allocate_ns, v[2]);
	put((struct gm_record){.address = (uint64_t)1 << 46,
			       .size = v[1],
			       .held = v[1],
			       .id = UINT64_MAX - n_driver++,
			       .stack = stack_now,
			       .duration = (uint32_t)v[2],
			       .hook = HOOK_ALLOC,
			       .flags = GM_RECORD_DRIVER,
			       .device = (uint8_t)d,
			       .kind = GM_RECORD_ALLOCATE});
}

static struct gm_sample state(unsigned d, uint64_t largest, uint64_t unreclaimable)
{
	const struct device *device = &devices[d];
	struct gm_sample sample = device->next;
	sample.requested = device->requested;
	sample.handed_out = device->handed_out;
	sample.mapped = device->mapped;
	sample.idle = device->mapped - device->handed_out;
	sample.largest_idle = largest;
	if (sample.largest_after_remap < largest)
		sample.largest_after_remap = largest;
	sample.unreclaimable = unreclaimable;
	sample.live_blocks = device->live;
	sample.chunks = 1;
	if (!sample.idle_extents) /* like an older library: no runs by size */
		sample.idle_extents = 1;
	return sample;
}

static void do_sample(const uint64_t v[WORDS])
{
	const struct gm_sample sample = state((unsigned)v[0], v[1], v[2]);
	const struct gm_record record = {.device = (uint8_t)v[0], .kind = GM_RECORD_SAMPLE};
	gm_log_put_sample(&record, &sample);
	devices[v[0]].next = (struct gm_sample){0};
}

static void do_run(const uint64_t v[WORDS])
{
	struct gm_sample *next = &devices[v[0]].next;
	next->idle_units[gm_frag_bin(v[1])] += (uint32_t)(v[1] / GM_SAMPLE_UNIT);
	next->idle_runs[gm_frag_bin(v[1])]++;
	next->idle_extents++;
}

static void do_remap(const uint64_t v[WORDS])
{
	devices[v[0]].next.largest_after_remap = v[1];
}

static void do_limit(const uint64_t v[WORDS])
{
	devices[v[0]].next.limit = v[1];
}

static uint64_t failures[DEVICES];

static void do_lack(const uint64_t v[WORDS])
{
	const unsigned d = (unsigned)v[0];
	gm_counter_add(d, GM_C_allocate_calls, 1);
	gm_counter_add(d, GM_C_allocate_failed, 1);
	put((struct gm_record){.size = v[1],
			       .hook = HOOK_ALLOC,
			       .status = 2,
			       .device = (uint8_t)d,
			       .kind = GM_RECORD_ALLOCATE_FAILED});
}

static void do_own(const uint64_t v[WORDS])
{
	devices[v[0]].next.created = v[1];
	devices[v[0]].next.known = GM_SAMPLE_OWNERS | GM_SAMPLE_FREE;
}

static void lack_put(const uint64_t v[WORDS], unsigned hook)
{
	const unsigned d = (unsigned)v[0];
	struct gm_sample sample = state(d, devices[d].mapped - devices[d].handed_out, 0);
	const struct gm_record snapshot = {.size = v[1],
					   .hook = (uint16_t)hook,
					   .device = (uint8_t)d,
					   .kind = GM_RECORD_OUT_OF_MEMORY};
	failures[d]++;
	sample.device_free = v[2];
	sample.device_total = 8 * GM_GIB;
	gm_log_put_sample(&snapshot, &sample);
}

static void do_fail(const uint64_t v[WORDS])
{
	lack_put(v, HOOK_ALLOC);
	do_lack(v);
}

static void do_call(const uint64_t v[WORDS])
{
	lack_put(v, HOOK_COPY);
	gm_counter_add((unsigned)v[0], GM_C_refused_calls, 1);
}

static void do_host(const uint64_t v[WORDS])
{
	const struct gm_sample none = {0};
	const struct gm_record record = {.size = v[0],
					 .hook = HOOK_COPY,
					 .device = GM_RECORD_NO_DEVICE,
					 .kind = GM_RECORD_OUT_OF_MEMORY};
	gm_log_put_sample(&record, &none);
	gm_counter_add(0, GM_C_refused_calls, 1);
}

static void do_table(const uint64_t v[WORDS])
{
	gm_counter_add(0, GM_C_tables_unknown, v[1] == 0);
	put((struct gm_record){.address = v[0],
			       .size = 136,
			       .held = v[2],
			       .id = v[1],
			       .string =
				       gm_log_string("00112233445566778899aabbccddeeff of libx.so"),
			       .device = 255,
			       .kind = GM_RECORD_TABLE});
}

static void held_put(const uint64_t v[WORDS], unsigned flags)
{
	put((struct gm_record){.address = v[2],
			       .size = v[1] * v[2],
			       .held = v[1],
			       .id = failures[v[0]],
			       .stack = stack_now,
			       .flags = (uint16_t)flags,
			       .device = (uint8_t)v[0],
			       .kind = GM_RECORD_HELD});
}

static void do_held(const uint64_t v[WORDS])
{
	held_put(v, 0);
}

static void do_rest(const uint64_t v[WORDS])
{
	held_put(v, GM_RECORD_REST);
}

static void block_free(uint64_t id, uint64_t ns, unsigned flags)
{
	const struct block block = blocks[id > BLOCKS ? 0 : id];
	const bool gone = flags & GM_RECORD_CONTEXT_GONE;
	devices[block.device].requested -= block.size;
	devices[block.device].handed_out -= block.held;
	devices[block.device].live--;
	gm_counter_add(block.device, gone ? GM_C_free_context : GM_C_free_calls, 1);
	gm_counter_add(block.device, GM_C_free_bytes, block.size);
	gm_counter_add(block.device, GM_C_free_ns, ns);
	gauges(block.device);
	put((struct gm_record){.address = block.address,
			       .size = block.size,
			       .held = block.held,
			       .id = id,
			       .duration = (uint32_t)ns,
			       .hook = gone ? 0 : HOOK_FREE,
			       .flags = (uint16_t)flags,
			       .device = (uint8_t)block.device,
			       .kind = GM_RECORD_FREE});
}

static void do_free(const uint64_t v[WORDS])
{
	block_free(v[0], v[1], 0);
}

static void do_gone(const uint64_t v[WORDS])
{
	block_free(v[0], 0, GM_RECORD_CONTEXT_GONE);
}

static void do_loop(const uint64_t v[WORDS])
{
	const uint64_t alloc[WORDS] = {v[0], v[1], 1};
	for (uint64_t i = 0; i < v[2]; i++) {
		do_alloc(alloc);
		do_free((uint64_t[WORDS]){n_blocks, 1});
	}
}

static void do_nest(const uint64_t v[WORDS])
{
	enum { EACH = 8 };
	const uint64_t alloc[WORDS] = {v[0], v[1], 1};
	for (uint64_t i = 0; i < v[2]; i++) {
		for (unsigned n = 0; n < EACH; n++)
			do_alloc(alloc);
		for (unsigned n = 0; n < EACH; n++)
			do_free((uint64_t[WORDS]){n_blocks - n, 1});
	}
}

static void do_churn(const uint64_t v[WORDS])
{
	enum { SLOTS = 500, FIRST = 7, STACKS = 20 };
	static uint64_t ids[SLOTS];
	static struct block slots[SLOTS];
	uint32_t seed = 1;
	for (unsigned i = 0; i < STACKS; i++)
		do_stack((uint64_t[WORDS]){FIRST + i});
	n_blocks = n_blocks < BLOCKS ? BLOCKS : n_blocks;
	for (uint64_t i = 0; i < v[2]; i++) {
		seed = seed * 1664525u + 1013904223u;
		const unsigned slot = (seed >> 8) % SLOTS;
		passed += 10000;
		blocks[0] = slots[slot];
		if (ids[slot]) {
			block_free(ids[slot], 1, 0);
			ids[slot] = 0;
			continue;
		}
		stack_now = FIRST + (seed >> 4) % STACKS;
		do_alloc((uint64_t[WORDS]){v[0], 1 + (seed >> 3) % v[1], 1});
		ids[slot] = n_blocks;
		slots[slot] = blocks[0];
	}
}

static void do_h2d(const uint64_t v[WORDS])
{
	gm_counter_add(0, GM_C_copy_h2d_calls, 1);
	gm_counter_add(0, GM_C_copy_h2d_bytes, v[0]);
	gm_counter_add(0, GM_C_copy_h2d_ns, v[1]);
	put((struct gm_record){.address = (uint64_t)1 << 32,
			       .size = v[0],
			       .duration = (uint32_t)v[1],
			       .hook = HOOK_COPY,
			       .flags = GM_RECORD_H2D,
			       .kind = GM_RECORD_COPY});
}

static void do_at(const uint64_t v[WORDS])
{
	passed = v[0];
}

static void do_kill(const uint64_t v[WORDS])
{
	(void)v;
	_exit(0);
}

static void do_count(const uint64_t v[WORDS])
{
	gm_counter_add(0, (enum gm_counter)v[0], v[1]);
}

/* `as`: d device, s size, t time, n block or number, c counter. */
static const struct word {
	const char *name, *as;
	void (*run)(const uint64_t v[WORDS]);
} words[] = {
	{"at", "t", do_at},	      {"map", "dst", do_map},	    {"alloc", "dst", do_alloc},
	{"driver", "dst", do_driver}, {"fail", "dss", do_fail},	    {"free", "nt", do_free},
	{"h2d", "st", do_h2d},	      {"sample", "dss", do_sample}, {"count", "cs", do_count},
	{"kill", "", do_kill},	      {"give", "cds", do_give},	    {"take", "cds", do_take},
	{"used", "ds", do_used},      {"run", "ds", do_run},	    {"remap", "ds", do_remap},
	{"limit", "ds", do_limit},    {"loop", "dss", do_loop},	    {"nest", "dss", do_nest},
	{"native", "dt", do_native},  {"taken", "dst", do_taken},   {"image", "n", do_image},
	{"lend", "ds", do_lend},      {"grow", "dst", do_grow},	    {"nogrow", "dsn", do_nogrow},
	{"size", "nn", do_size},      {"slack", "dsn", do_slack},   {"waited", "dst", do_waited},
	{"heap", "dsnn", do_heap},    {"last", "d", do_last},	    {"to", "s", do_to},
	{"unmap", "n", do_unmap},     {"held", "dsn", do_held},	    {"rest", "dsn", do_rest},
	{"move", "ns", do_move},      {"gone", "n", do_gone},	    {"stack", "n", do_stack},
	{"kernel", "n", do_kernel},   {"table", "nnn", do_table},   {"tensor", "ds", do_tensor},
	{"back", "n", do_back},	      {"refuse", "dss", do_refuse}, {"lack", "ds", do_lack},
	{"site", "nnsn", do_site},    {"wrong", "nnn", do_wrong},   {"own", "ds", do_own},
	{"call", "dss", do_call},     {"nohost", "s", do_host},	    {"churn", "dss", do_churn},
};

static bool counter_parse(const char *name, uint64_t *out)
{
	for (uint64_t i = 0; i < GM_COUNTER_COUNT; i++)
		if (strcmp(name, gm_counter_table[i].name) == 0) {
			*out = i;
			return true;
		}
	return false;
}

static bool value_parse(char as, const char *text, uint64_t *out)
{
	if (as == 't')
		return gm_time_parse(text, out);
	if (as == 'c')
		return counter_parse(text, out);
	return gm_size_parse(text, out) && (as != 'd' || *out < DEVICES) &&
	       (as != 'n' || *out <= BLOCKS);
}

static bool obey(char *text)
{
	uint64_t v[WORDS] = {0};
	char *rest = text, *name = strsep(&rest, ":");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(name, words[i].name) != 0)
			continue;
		for (size_t j = 0; words[i].as[j]; j++) {
			const char *value = strsep(&rest, ":");
			if (!value || !value_parse(words[i].as[j], value, &v[j]))
				return false;
		}
		words[i].run(v);
		return !rest;
	}
	return false;
}

int main(int argc, char **argv)
{
	static const struct gm_log_device known[DEVICES] = {
		{.name = "GPU one", .uuid = {0xab, 1, 2, 3}, .total = 8 * GM_GIB},
		{.name = "GPU two", .total = 16 * GM_GIB},
	};
	const char *mode = getenv("GPUMEM_MODE");
	const struct gm_log_config config = {.mode = mode ? mode : "pool",
					     .driver_version = 13000,
					     .devices = known,
					     .n_devices = DEVICES,
					     .hooks = hooks,
					     .n_hooks = sizeof hooks / sizeof *hooks};
	if (!gm_log_open(&config))
		return 1;
	for (int i = 1; i < argc; i++) {
		char copy[256];
		snprintf(copy, sizeof copy, "%s", argv[i]);
		if (!obey(copy)) {
			fprintf(stderr, "mklog: %s: not understood\n", argv[i]);
			return 2;
		}
	}
	gm_log_close();
	return 0;
}
