/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device heaps in counters and log: children use heaps and write a log, which is compared with
 * their operations.
 */
#include <sched.h>

#include "tests/unit/heap_host_help.h"
/* after the emulation's headers */
#include "log_help.h"

#define MIB GM_MIB
#define FIRST (GM_HEAP_FIRST * GM_GRANULE)

static void nothing(void *unused)
{
	(void)unused;
}

static CUstream held_stream(void)
{
	CUstream stream;
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	return stream;
}

static void launch(struct gm_heap_host *heap, CUstream stream)
{
	gm_heap_launch(heap, stream, NULL);
	gm_sim_launch(stream, nothing, NULL);
	gm_heap_launched(heap, stream, true, NULL);
}

static struct gm_heap *device_of(const struct gm_heap_host *heap)
{
	return (struct gm_heap *)(uintptr_t)gm_heap_device(heap);
}

/* Request `granules` beyond the granted ones. The test answers, for there is no thread. */
static bool want_more(struct gm_heap_host *heap, uint64_t granules)
{
	__atomic_store_n(&heap->shared->mail.want.value, heap->granted + granules,
			 __ATOMIC_RELEASE);
	return gm_heap_answer(heap);
}

static bool begin(struct site *site, const char *memory, uint64_t limit)
{
	site_open(site, memory, limit);
	return gm_counters_open() && gm_log_open(&help_config);
}

static uint64_t counted(enum gm_counter counter)
{
	return gm_counter_get(0, counter);
}

/* The number of the failed check, as the child's status. */
#define CHECK(condition)                       \
	do {                                   \
		if (!(condition))              \
			return __LINE__ & 127; \
	} while (0)

static int live(void *arg)
{
	struct site site;
	void *block[5];
	(void)arg;
	CHECK(begin(&site, "512M", FIRST + 2 * GM_GRANULE));
	CHECK(gm_heap_create(&site.config, &site.heap) == CUDA_SUCCESS);
	struct gm_heap_host *heap = site.heap;
	unsigned made = gm_sim_calls("cuLaunchKernel"); /* the launches of the set-up */
	heap->launching = 1; /* as gm_heap_launch does, but no service starts */
	heap->starting = "one";
	CHECK(want_more(heap, 2));
	heap->launching = 0;
	CHECK(!want_more(heap, 9)); /* beyond its limit */
	for (unsigned i = 0; i < 3; i++)
		block[i] = gm_granule_malloc(device_of(heap), 10);
	block[3] = gm_granule_malloc(device_of(heap), 100);
	block[4] = gm_granule_malloc(device_of(heap), 3 * MIB);
	CHECK(block[4] && !gm_granule_malloc(device_of(heap), (size_t)1 << 50));
	gm_granule_free(device_of(heap), &site);
	gm_granule_free(device_of(heap), block[0]);
	gm_granule_free(device_of(heap), block[0]);
	device_of(heap)->stalled = 777;
	CUstream stream = held_stream();
	CHECK(gm_heap_sample_at == UINT64_MAX);
	launch(heap, stream);
	CHECK(gm_heap_sample_at <= gm_clock_ns());
	gm_heap_sample_context(site.context);
	CHECK(gm_sim_calls("cuLaunchKernel") - made == 0); /* the reading is in flight */
	gm_sim_release(stream, (unsigned)-1);
	gm_heap_sample_context(site.context);
	CHECK(gm_sim_calls("cuLaunchKernel") - made == 1);
	gm_heap_sample_context(site.context);
	CHECK(counted(GM_C_heap_samples) == 1 && gm_heap_sample_at == UINT64_MAX);
	gm_heap_sample_context(site.context); /* no launch since */
	CHECK(gm_sim_calls("cuLaunchKernel") - made == 1);
	gm_granule_free(device_of(heap), block[4]);
	gm_sim_hold(stream);
	launch(heap, stream);
	gm_sim_release(stream, (unsigned)-1);
	gm_sim_hold(heap->stream);
	gm_heap_sample_context(site.context);
	gm_heap_sample_context(site.context);
	CHECK(counted(GM_C_heap_samples) == 1 && gm_heap_sample_at != UINT64_MAX);
	gm_sim_release(heap->stream, (unsigned)-1); /* it is complete: exit reads it */
	gm_heap_exit();
	gm_heap_log_all();
	gm_log_close();
	return 0;
}

/* The records of a kind, in order; returns how many. */
static unsigned records_of(struct gm_log_file *file, enum gm_record_kind kind,
			   struct gm_record *record, struct gm_heap_sample *sample, unsigned most)
{
	struct gm_log_entry entry;
	unsigned n = 0;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		if (entry.record.kind != kind || n == most)
			continue;
		if (entry.heap)
			sample[n] = *entry.heap;
		record[n++] = entry.record;
	}
	return n;
}

static void has_counters(struct gm_log_file *file)
{
	static const struct {
		enum gm_counter counter;
		uint64_t value;
	} rows[] = {
		{GM_C_heaps, 1},
		{GM_C_heap_mapped, FIRST + 2 * GM_GRANULE},
		{GM_C_heap_mapped_peak, FIRST + 2 * GM_GRANULE},
		{GM_C_heap_growths, 1},
		{GM_C_heap_growth_bytes, 2 * GM_GRANULE},
		{GM_C_heap_refused, 1},
		{GM_C_heap_refused_limit, 1},
		{GM_C_heap_samples, 2},
		{GM_C_heap_live, 2 * 16 + 112},
		{GM_C_heap_live_peak, 2 * 16 + 112 + 2 * GM_GRANULE},
		{GM_C_heap_used, 2 * GM_GRANULE},
		{GM_C_heap_used_peak, 4 * GM_GRANULE},
		{GM_C_heap_wait_ns, 777},
		{GM_C_heap_nulls, 1},
		{GM_C_heap_foreign_frees, 2},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		TAP_IS(gm_log_read_counter(file, 0, rows[i].counter), rows[i].value, "%s",
		       gm_counter_table[rows[i].counter].name);
	TAP_IS(gm_log_read_counter(file, 0, GM_C_heap_growth_ns),
	       gm_log_read_counter(file, 0, GM_C_heap_growth_longest),
	       "one growth is the longest of all");
}

static void has_growths(struct gm_log_file *file)
{
	struct gm_record grow[3];
	TAP_IS(records_of(file, GM_RECORD_GROW, grow, NULL, 3), 2, "two growths are two events");
	TAP_OK(grow[0].address && grow[0].size == 2 * GM_GRANULE &&
		       grow[0].held == FIRST + 2 * GM_GRANULE && grow[0].id == GM_HEAP_FIRST + 2 &&
		       grow[0].status == 0,
	       "the growth that was met is recorded");
	TAP_IS(grow[0].duration, gm_log_read_counter(file, 0, GM_C_heap_growth_ns),
	       "a granted growth has its duration");
	TAP_OK(!strcmp(gm_log_read_string(file, grow[0].string), "one") && !grow[1].string,
	       "a growth has the name of its kernel, if one is known");
	TAP_OK(!grow[1].address && grow[1].size == 9 * GM_GRANULE &&
		       grow[1].held == FIRST + 2 * GM_GRANULE &&
		       grow[1].id == GM_HEAP_FIRST + 2 + 9 &&
		       grow[1].status == CUDA_ERROR_OUT_OF_MEMORY,
	       "a refused growth is recorded");
}

static void is_last(struct gm_log_file *file, const struct gm_record *r,
		    const struct gm_heap_sample *s)
{
	uint64_t growths = 0;
	TAP_IS(r->flags, GM_RECORD_LAST, "the last sample is marked as the last");
	TAP_OK(r->address == 2 * 16 + 112 && r->size == FIRST + 2 * GM_GRANULE && r->held == 1 &&
		       r->id == 2,
	       "the last sample has live and mapped bytes, NULLs, foreign frees");
	TAP_STR(gm_log_read_string(file, r->string), "granule",
		"the last sample has the policy's name");
	TAP_OK(s->heap && s->chunks == 2 && s->limit == FIRST + 2 * GM_GRANULE &&
		       s->mapped_peak == s->limit && s->used == 2 * GM_GRANULE && s->own > 0,
	       "a sample has the heap's memory");
	TAP_IS(s->live_peak, 2 * 16 + 112 + 2 * GM_GRANULE,
	       "the last sample has the most that was live");
	TAP_OK(s->grown == 2 && s->shrunk == 0 && s->refused == 1 && s->refused_limit == 1,
	       "the last sample has chunks and refusals");
	for (unsigned i = 0; i < GM_HEAP_GROWTH_BINS; i++)
		growths += s->growths[i];
	TAP_IS(growths, 1, "the last sample has growths by time");
	TAP_OK(s->live[0] == 2 && s->live[5] == 1 && s->live[GM_HEAP_BINS - 1] == 0,
	       "the last sample has allocations by size");
}

static void writes_events(void)
{
	struct gm_record r[4];
	struct gm_heap_sample s[4];
	TAP_IS(help_child("GPUMEM_LOG=events,0", live, NULL), 0,
	       "a heap's life is logged with events");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	has_counters(file);
	has_growths(file);
	TAP_IS(records_of(file, GM_RECORD_HEAP_SAMPLE, r, s, 4), 3,
	       "two readings, and the last word");
	TAP_OK(r[0].address == 2 * 16 + 112 + 2 * GM_GRANULE && r[0].flags == 0 &&
		       s[0].live[0] == 2 && s[0].live[GM_HEAP_BINS - 1] == 1,
	       "the first sample saw the run that went later");
	is_last(file, &r[2], &s[2]);
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

static void writes_little(void)
{
	struct gm_record r[4];
	struct gm_heap_sample s[4];
	TAP_IS(help_child("GPUMEM_LOG=small,0", live, NULL), 0,
	       "a heap's life is logged in little");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	has_counters(file);
	TAP_IS(records_of(file, GM_RECORD_GROW, r, s, 4), 0,
	       "a small log has no events of growths");
	TAP_IS(records_of(file, GM_RECORD_HEAP_SAMPLE, r, s, 4), 1,
	       "a small log keeps the last sample alone");
	is_last(file, &r[0], &s[0]);
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

/* Numbers of blocks take memory beside the heap's books. */
static int sited(void *arg)
{
	struct site site;
	(void)arg;
	CHECK(begin(&site, "512M", FIRST + 2 * GM_GRANULE));
	site.config.sites = true;
	CHECK(gm_heap_create(&site.config, &site.heap) == CUDA_SUCCESS);
	struct gm_heap_host *heap = site.heap;
	const uint64_t numbered = atomic_load(&heap->numbered_bytes);
	CUstream stream = held_stream();
	launch(heap, stream);
	gm_sim_release(stream, (unsigned)-1);
	gm_heap_sample_last(site.context);
	CHECK(counted(GM_C_heap_samples) == 1 && numbered > 0);
	CHECK(heap->sample.own == heap->own + numbered);
	gm_log_close();
	return 0;
}

/* The stream of its readings never proceeds. */
static int stuck(void *arg)
{
	struct site site;
	(void)arg;
	CHECK(begin(&site, "512M", FIRST + 2 * GM_GRANULE));
	CHECK(gm_heap_create(&site.config, &site.heap) == CUDA_SUCCESS);
	CUstream stream = held_stream();
	launch(site.heap, stream);
	gm_sim_release(stream, (unsigned)-1);
	gm_sim_hold(site.heap->stream);
	gm_heap_sample_context(site.context);
	CHECK(gm_heap_any_unread(site.context) && counted(GM_C_heap_samples) == 0);
	gm_heap_exit();
	gm_heap_log_all();
	CHECK(gm_heap_any_unread(site.context) && counted(GM_C_heap_samples) == 0);
	gm_log_close();
	return 0;
}

static void writes_without_reading(void)
{
	struct gm_record r[2];
	struct gm_heap_sample s[2];
	TAP_IS(help_child("GPUMEM_LOG=events,0", stuck, NULL), 0,
	       "an exit does not wait for ever for a reading");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	TAP_IS(records_of(file, GM_RECORD_HEAP_SAMPLE, r, s, 2), 1,
	       "an exit beside a reading writes one last sample");
	TAP_OK(r[0].flags == GM_RECORD_LAST && r[0].address == 0,
	       "the last sample has the earlier values");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

/* A device that is too small; a policy that cannot be read while others allocate; a context that is
 * about to end; a heap that is destroyed. */
static int end(void *arg)
{
	struct site site;
	(void)arg;
	CHECK(begin(&site, "96M", FIRST + 64 * GM_GRANULE));
	site.config.policy = "kma";
	site.config.own = true;
	CHECK(gm_heap_create(&site.config, &site.heap) == CUDA_SUCCESS);
	struct gm_heap_host *heap = site.heap;
	CHECK(!want_more(heap, 64)); /* as many as the limit allows */
	CUstream stream = held_stream();
	launch(heap, stream);
	gm_heap_sample_last(site.context); /* in flight */
	CHECK(counted(GM_C_heap_samples) == 0);
	gm_sim_release(stream, (unsigned)-1);
	gm_heap_sample_context(site.context);
	gm_heap_sample_context(site.context);
	CHECK(counted(GM_C_heap_samples) == 0);
	gm_heap_sample_last(site.context);
	CHECK(counted(GM_C_heap_samples) == 1);
	gm_heap_sample_last(site.context);
	CHECK(counted(GM_C_heap_samples) == 1);
	gm_sim_hold(stream);
	launch(heap, stream);
	gm_sim_release(stream, (unsigned)-1);
	CHECK(gm_kma_malloc(device_of(heap), 16));
	gm_heap_destroy(heap); /* reads it a last time */
	CHECK(counted(GM_C_heap_live_peak) >= 16 && counted(GM_C_heap_live) == 0);
	CHECK(counted(GM_C_heap_samples) == 2 && counted(GM_C_heap_mapped) == 0);
	gm_heap_sample_context(site.context);
	gm_heap_log_all();
	gm_log_close();
	return 0;
}

static void writes_ends(void)
{
	struct gm_record r[4];
	struct gm_heap_sample s[4];
	TAP_IS(help_child("GPUMEM_LOG=events,0", end, NULL), 0, "a heap that ends is logged");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	TAP_IS(gm_log_read_counter(file, 0, GM_C_heap_refused), 1, "the device was full");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_heap_refused_limit), 0,
	       "a refusal by a full device is not one by the limit");
	TAP_IS(records_of(file, GM_RECORD_HEAP_SAMPLE, r, s, 4), 3,
	       "a heap that ends has three samples, the last one once");
	TAP_OK(r[1].flags == GM_RECORD_OWN && r[2].flags == (GM_RECORD_OWN | GM_RECORD_LAST),
	       "the samples mark the heap as the program's own");
	TAP_IS(r[2].size, FIRST, "the last sample has the size before the release");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

/* --- many threads --- */

enum { THREADS = 4, LIVES = 25 };

/* Heaps are made and destroyed while every thread reads all of them. No allocations: only one
 * thread at a time can use the emulation. */
static void *live_fast(void *arg)
{
	struct site site = *(struct site *)arg;
	drv(cuCtxSetCurrent)(site.context->handle);
	for (unsigned i = 0; i < LIVES; i++) {
		if (gm_heap_create(&site.config, &site.heap) != CUDA_SUCCESS)
			return arg;
		for (unsigned j = 0; j < 4; j++) {
			gm_heap_launch(site.heap, CU_STREAM_PER_THREAD, NULL);
			gm_heap_launched(site.heap, CU_STREAM_PER_THREAD, true, NULL);
			gm_heap_sample_context(site.context);
		}
		gm_heap_destroy(site.heap);
	}
	return NULL;
}

static int crowd(void *arg)
{
	struct site site;
	pthread_t thread[THREADS];
	void *failed = NULL;
	(void)arg;
	CHECK(begin(&site, "1G", 64 * MIB));
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, live_fast, &site) == 0);
	for (unsigned i = 0; i < THREADS && !failed; i++)
		CHECK(pthread_join(thread[i], &failed) == 0);
	CHECK(!failed);
	gm_heap_log_all();
	gm_log_close();
	return 0;
}

static void is_safe(void)
{
	TAP_IS(help_child("GPUMEM_LOG=events,0", crowd, NULL), 0,
	       "threads make and end heaps at once");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	TAP_IS(gm_log_read_counter(file, 0, GM_C_heaps), THREADS * LIVES, "all heaps were made");
	TAP_OK(gm_log_read_counter(file, 0, GM_C_heap_samples) >= THREADS * LIVES,
	       "each heap was read at its end, if not before");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_heap_mapped), 0,
	       "nothing is mapped after all heaps ended");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

static atomic_bool destroyed;

static void *destroy(void *arg)
{
	gm_heap_destroy(arg);
	atomic_store(&destroyed, true);
	return NULL;
}

/* A thread that reads a heap keeps it alive; no thread begins to read one that is about to be
 * destroyed. */
static int hold(void *arg)
{
	struct site site;
	struct gm_heap_host *other;
	pthread_t thread;
	(void)arg;
	CHECK(begin(&site, "512M", 64 * MIB));
	CHECK(gm_heap_create(&site.config, &site.heap) == CUDA_SUCCESS);
	const uint64_t key = site.context->key;
	CHECK(gm_heap_pin_next(NULL, key) == site.heap && !gm_heap_pin_next(NULL, key + 1));
	CHECK(pthread_create(&thread, NULL, destroy, site.heap) == 0);
	while ((other = gm_heap_pin_next(NULL, key)))
		CHECK(!gm_heap_pin_next(other, key));
	for (unsigned i = 0; i < 10000; i++)
		sched_yield();
	CHECK(!atomic_load(&destroyed));
	CHECK(!gm_heap_pin_next(site.heap, key));
	CHECK(pthread_join(thread, NULL) == 0 && atomic_load(&destroyed));
	gm_log_close();
	return 0;
}

int main(void)
{
	help_begin();
	writes_events();
	writes_little();
	TAP_IS(help_child("GPUMEM_LOG=events,0", sited, NULL), 0,
	       "a sample has the memory of the numbers of blocks");
	unlink("log");
	writes_without_reading();
	writes_ends();
	is_safe();
	TAP_IS(help_child("GPUMEM_LOG=off", hold, NULL), 0, "a heap stays while it is looked at");
	return tap_done();
}
