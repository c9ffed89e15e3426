/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways: how the rows of the result get their space. */
#include <stdlib.h>
#include <string.h>

#include "programs/common/args.h"
#include "spgemm.h"

#define ROUNDS 4	/* segments a row for which persistent allocates at once */
#define SAMPLE 1024	/* rows that are counted for the size of segments */
#define SAMPLE_GOOD 90	/* percent of slots in use that a sampled size has to reach */
#define SCRATCH_SHARE 4 /* of the free memory: most that counting may use */
static const uint32_t sizes[] = {256, 128, 96, 64, 48, 32, 16, 8};

struct run {
	const struct sp_device *device;
	struct sp_work work; /* as the last launch has left it */
	struct sp_work *on_device;
	void **block; /* of segments */
	uint32_t blocks;
	uint64_t slots, bytes; /* in blocks, of ways by segments */
	double kernel_ms;
	uint32_t launches;
};

/* --- the matrix --- */

static void *copied(const void *from, uint64_t bytes)
{
	void *to = pr_take(bytes);
	PR_MUST(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
	return to;
}

void sp_device_open(struct sp_device *d, const struct sp_matrix *m)
{
	uint64_t entries = m->start[m->rows];
	PR_MUST(sp_kernel_warps(&d->warps, &d->processors));
	d->matrix.rows = m->rows;
	d->matrix.start = copied(m->start, (m->rows + UINT64_C(1)) * sizeof *m->start);
	d->matrix.column = copied(m->column, entries * sizeof *m->column);
	d->matrix.value = copied(m->value, entries * sizeof *m->value);
}

void sp_device_close(struct sp_device *d)
{
	PR_MUST(cudaFree(d->matrix.start));
	PR_MUST(cudaFree(d->matrix.column));
	PR_MUST(cudaFree(d->matrix.value));
}

/* --- launches --- */

static void work_put(struct run *run)
{
	run->work.taken = run->work.remaining = run->work.longest = run->work.rounds = 0;
	PR_MUST(cudaMemcpy(run->on_device, &run->work, sizeof run->work, cudaMemcpyHostToDevice));
}

static void work_get(struct run *run)
{
	PR_MUST(cudaMemcpy(&run->work, run->on_device, sizeof run->work, cudaMemcpyDeviceToHost));
}

/* Another block for segments; nothing of it is used yet. */
static void space_add(struct run *run, uint64_t bytes)
{
	void **block = realloc(run->block, (run->blocks + 1) * sizeof *block);
	if (!block)
		pr_fail(1, "no memory of the host");
	run->block = block;
	run->work.space = block[run->blocks++] = pr_take(bytes);
	run->work.space_bytes = bytes;
	run->work.used = 0;
}

/* The rows that remain are listed. */
static void list_remaining(struct run *run)
{
	uint32_t *list = run->work.list;
	run->work.list = run->work.next;
	run->work.next = list;
	run->work.listed = run->work.remaining;
}

/* Every row is listed, and begins with its first product. */
static void work_open(struct run *run, uint32_t size)
{
	const struct sp_matrix *m = &run->device->matrix;
	uint64_t rows = m->rows;
	struct sp_row *row = pr_host_take(rows, sizeof *row);
	uint32_t *start = pr_host_take(rows + 1, sizeof *start);
	PR_MUST(cudaMemcpy(start, m->start, (rows + 1) * sizeof *start, cudaMemcpyDeviceToHost));
	for (uint64_t r = 0; r < rows; r++) {
		row[r].a = start[r];
		start[r] = (uint32_t)r;
	}
	run->work.matrix = *m;
	run->work.row = copied(row, rows * sizeof *row);
	run->work.list = copied(start, rows * sizeof *start);
	run->work.next = pr_take(rows * sizeof *run->work.next);
	run->work.listed = m->rows;
	run->work.size = size;
	run->on_device = pr_take(sizeof run->work);
	free(row);
	free(start);
}

static void work_close(struct run *run)
{
	PR_MUST(cudaFree(run->work.row));
	PR_MUST(cudaFree(run->work.next));
	PR_MUST(cudaFree(run->work.list));
	PR_MUST(cudaFree(run->work.count));
	PR_MUST(cudaFree(run->on_device));
	for (uint32_t i = 0; i < run->blocks; i++)
		PR_MUST(cudaFree(run->block[i]));
	free(run->block);
}

/* --- estimates --- */

static void count_upper(struct run *run)
{
	run->work.count = pr_take(run->work.matrix.rows * UINT64_C(4));
	work_put(run);
	PR_MUST(sp_kernel_upper(run->on_device));
	work_get(run);
}

/* Count the entries of the listed rows, which have at most `longest` products. */
static void count_exactly(struct run *run, uint32_t longest)
{
	size_t unused = 0, total;
	uint64_t each = sp_segment_bytes(longest ? longest : 1), warps = run->device->warps;
	PR_MUST(cudaMemGetInfo(&unused, &total));
	if (warps * each > unused / SCRATCH_SHARE)
		warps = unused / SCRATCH_SHARE / each ? unused / SCRATCH_SHARE / each : 1;
	char *scratch = pr_take(warps * each);
	run->work.slots = run->work.bytes = 0;
	work_put(run);
	PR_MUST(sp_kernel_count(run->on_device, scratch, longest ? longest : 1, (uint32_t)warps));
	work_get(run);
	PR_MUST(cudaFree(scratch));
}

/* The largest size whose slots would be in use, as a sample of rows says; else the smallest. */
static uint32_t size_choose(const uint32_t *count, uint32_t n)
{
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint64_t used = 0, slots = 0;
		for (uint32_t r = 0; r < n; r++) {
			used += count[r];
			slots += (count[r] + sizes[i] - UINT64_C(1)) / sizes[i] * sizes[i];
		}
		if (used * 100 >= slots * SAMPLE_GOOD)
			return sizes[i];
	}
	return sizes[sizeof sizes / sizeof *sizes - 1];
}

/* Rows at equal distances are counted. */
static void size_sample(struct run *run)
{
	uint32_t rows = run->work.matrix.rows, n = rows < SAMPLE ? rows : SAMPLE;
	uint32_t *sample = pr_host_take(n, sizeof *sample), *list = run->work.list;
	uint32_t *all = pr_host_take(rows, sizeof *all);
	for (uint32_t i = 0; i < n; i++)
		sample[i] = (uint32_t)((uint64_t)rows * i / n);
	count_upper(run);
	uint32_t longest = run->work.longest;
	run->work.list = copied(sample, n * sizeof *sample);
	run->work.listed = n;
	count_exactly(run, longest);
	PR_MUST(cudaMemcpy(all, run->work.count, rows * sizeof *all, cudaMemcpyDeviceToHost));
	for (uint32_t i = 0; i < n; i++)
		sample[i] = all[sample[i]];
	run->work.size = size_choose(sample, n);
	PR_MUST(cudaFree(run->work.count));
	PR_MUST(cudaFree(run->work.list));
	run->work.count = NULL;
	run->work.list = list;
	run->work.listed = rows;
	run->work.slots = run->work.bytes = 0;
	free(sample);
	free(all);
}

/* --- ways --- */

static void rows_launch(struct run *run, enum sp_way way)
{
	work_put(run);
	double begin = pr_now_ms();
	PR_MUST(way == SP_PERSISTENT ? sp_kernel_persistent(run->on_device, run->device->warps)
				     : sp_kernel_rows(run->on_device, run->device->warps));
	PR_MUST(cudaDeviceSynchronize());
	run->kernel_ms += pr_now_ms() - begin;
	run->launches++;
	work_get(run);
}

/* Each row has one segment, for all entries that it may have or has. Returns the time of counting.
 */
static double run_counted(struct run *run, enum sp_way way)
{
	double begin = pr_now_ms();
	count_upper(run);
	if (way == SP_PRECISE)
		count_exactly(run, run->work.longest);
	double estimate_ms = pr_now_ms() - begin;
	run->slots = run->work.slots;
	run->bytes = run->work.bytes;
	space_add(run, run->bytes);
	run->work.budget = 1;
	rows_launch(run, way);
	if (run->work.remaining)
		pr_fail(1, "%u rows have more entries than were counted", run->work.remaining);
	return estimate_ms;
}

/* Each launch gives a segment to every row that is not complete; persistent several, by rounds. */
static void run_segments(struct run *run, enum sp_way way)
{
	uint64_t rounds = way == SP_PERSISTENT ? ROUNDS : 1;
	run->work.budget = 1;
	do {
		uint64_t segments = run->work.listed * rounds;
		run->slots += segments * run->work.size;
		run->bytes += segments * sp_segment_bytes(run->work.size);
		space_add(run, segments * sp_segment_bytes(run->work.size));
		rows_launch(run, way);
		list_remaining(run);
	} while (run->work.listed);
}

/* One launch, whatever the rows need. */
static void run_malloc(struct run *run)
{
	run->work.budget = UINT32_MAX;
	rows_launch(run, SP_MALLOC);
	run->slots = run->work.slots;
	run->bytes = run->work.bytes;
	if (run->work.remaining)
		pr_fail(1, "malloc returned NULL in %u rows: natively a larger --heap is needed",
			run->work.remaining);
}

static void result_fill(struct run *run, struct sp_result *out)
{
	const struct sp_device *d = run->device;
	if (run->kernel_ms > 0 && d->processors)
		out->active_warps =
			(double)run->work.busy_ns / (run->kernel_ms * 1e6 * d->processors);
	out->launches = run->launches;
	out->slots = run->slots;
	out->bytes = run->bytes;
	PR_MUST(sp_kernel_finish(run->on_device, d->warps));
	work_get(run);
	out->entries = run->work.entries;
	out->checksum = run->work.checksum;
}

void sp_run(const struct sp_device *d, enum sp_way way, uint32_t size, struct sp_result *out)
{
	struct run run = {.device = d};
	memset(out, 0, sizeof *out);
	work_open(&run, size);
	PR_MUST(cudaDeviceSynchronize());
	double begin = pr_now_ms();
	if (!size && way >= SP_DYNAMIC) {
		size_sample(&run);
		out->estimate_ms = pr_now_ms() - begin;
	}
	if (way <= SP_PRECISE)
		out->estimate_ms = run_counted(&run, way);
	else if (way == SP_MALLOC)
		run_malloc(&run);
	else
		run_segments(&run, way);
	out->total_ms = pr_now_ms() - begin;
	out->size = way >= SP_DYNAMIC ? run.work.size : 0;
	result_fill(&run, out);
	work_close(&run);
}
