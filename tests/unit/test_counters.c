/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "log/frag.h"
#include "log/page.h"
#include "log/sample.h"
#include "log_help.h"

#define THREADS 16
#define TURNS 10000

static void *add_many(void *arg)
{
	uint64_t base = (uint64_t)(uintptr_t)arg;
	for (uint64_t i = 0; i < TURNS; i++) {
		gm_counter_add(1, GM_C_allocate_calls, 1);
		gm_counter_add(1, GM_C_live_blocks, base % 2 ? 3 : -(uint64_t)2);
		gm_counter_add(1, GM_C_map_calls, 1); /* not a split one */
		gm_counter_add(base % 7, GM_C_fences, 1);
		gm_counter_raise(1, GM_C_requested_peak, base * TURNS + i);
	}
	return NULL;
}

static void in_threads(unsigned n, void *(*work)(void *arg))
{
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void test_basics(void)
{
	gm_counter_add(0, GM_C_allocate_bytes, 100);
	TAP_IS(gm_counter_get(0, GM_C_allocate_bytes), 100, "counted before there is a page");
	TAP_IS(gm_counter_get(1, GM_C_allocate_bytes), 0, "devices have separate counters");
	TAP_IS(gm_counter_change(2, GM_C_foreign, 7), 7,
	       "change returns the new value of the counter");
	TAP_IS(gm_counter_change(2, GM_C_foreign, -(uint64_t)3), 4,
	       "change returns the new value of a falling counter");
	gm_counter_add(5, GM_C_captures, 2);
	TAP_IS(gm_counter_get(0, GM_C_captures), 2, "process counters ignore the device");
	gm_counter_add(1000, GM_C_free_calls, 3);
	TAP_IS(gm_counter_get(GM_COUNTER_DEVICES - 1, GM_C_free_calls), 3,
	       "devices past the last share the last");
	TAP_OK(gm_counter_raise(0, GM_C_mapped_peak, 7), "a peak rises to a larger value");
	TAP_OK(!gm_counter_raise(0, GM_C_mapped_peak, 7) &&
		       !gm_counter_raise(0, GM_C_mapped_peak, 6),
	       "a counter is not raised to its value, nor below");
	in_threads(THREADS, add_many);
	TAP_IS(gm_counter_get(1, GM_C_allocate_calls), THREADS * TURNS, "no count is lost");
	TAP_IS(gm_counter_get(1, GM_C_live_blocks), THREADS / 2 * TURNS,
	       "no count is lost of a counter that rises in some threads and falls in others");
	TAP_IS(gm_counter_get(1, GM_C_map_calls), THREADS * TURNS,
	       "no count is lost in threads that share a row");
	uint64_t fences = 0;
	for (unsigned device = 0; device < 7; device++)
		fences += gm_counter_get(device, GM_C_fences);
	TAP_IS(fences, THREADS * TURNS, "no count is lost in threads that use several devices");
	TAP_IS(gm_counter_get(1, GM_C_requested_peak), THREADS * TURNS - 1, "no peak is lost");
}

/* A device counter summed over the parts of a page, and the number of rows in use. */
static uint64_t parts_of(const struct gm_parts *parts, unsigned device, enum gm_counter counter,
			 unsigned *rows)
{
	uint64_t sum = 0;
	*rows = 0;
	for (unsigned i = 0; i < parts->rows; i++) {
		const struct gm_part_row *of = &parts->of[i];
		*rows += of->row == 2 + device;
		for (unsigned place = 0; of->row == 2 + device && place < GM_PART_PLACES; place++)
			if (parts->counter[1][place] == counter + 1)
				sum += of->part[place];
	}
	return sum;
}

/* The descriptor of our memfd, found as another process would find it; -1: none. */
static int find_memfd(void)
{
	char path[64], link[256];
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, link, sizeof link - 1);
		link[n > 0 ? n : 0] = 0;
		if (!strcmp(link, "/memfd:gpumem (deleted)"))
			return fd;
	}
	return -1;
}

static void test_page(void)
{
	TAP_IS(find_memfd(), -1, "no descriptor before the page is made");
	TAP_OK(gm_counters_open() && gm_counters_open(), "the page is made once");
	TAP_IS(gm_counter_get(0, GM_C_allocate_bytes), 100, "the page has the counts from before");
	int fd = find_memfd();
	TAP_OK(fd >= 200, "the descriptor is found by its name, above the small numbers");
	const struct gm_counter_live *live = mmap(NULL, sizeof *live, PROT_READ, MAP_SHARED, fd, 0);
	const struct gm_counter_page *page = &live->page;
	unsigned rows;
	if (!TAP_OK(live != MAP_FAILED, "another process can map the page"))
		return;
	gm_counter_add(0, GM_C_allocate_bytes, 11);
	TAP_IS(page->value[1][GM_C_allocate_bytes] +
		       parts_of(&live->parts, 0, GM_C_allocate_bytes, &rows),
	       111, "readers see later counts");
	TAP_IS(page->value[2][GM_C_map_calls], THREADS * TURNS, "a count is in the page");
	TAP_IS(parts_of(&live->parts, 1, GM_C_allocate_calls, &rows), THREADS * TURNS,
	       "the rows of threads have a count that is not in the page");
	TAP_IS(page->value[0][GM_C_captures], 2, "row 0 is the process");
	TAP_OK(!memcmp(page->head.magic, GM_PAGE_MAGIC, 8) &&
		       page->head.counters == GM_COUNTER_COUNT &&
		       page->head.version == GM_PAGE_SPLIT && live->parts.rows == GM_PART_ROWS &&
		       page->head.pid == (uint32_t)getpid(),
	       "the page identifies itself");
	TAP_OK(ftruncate(fd, 0) && errno == EPERM, "the page cannot be shortened");
}

static void test_fork(void)
{
	int status;
	fflush(stdout);
	if (fork() == 0) {
		gm_counters_forget();
		bool zero = gm_counter_get(0, GM_C_allocate_bytes) == 0 && find_memfd() < 0;
		gm_counter_add(0, GM_C_allocate_bytes, 1000);
		_exit(zero && gm_counters_open() && find_memfd() >= 0 ? 0 : 1);
	}
	wait(&status);
	TAP_IS(status, 0, "a forked child counts from zero, in a page of its own");
	TAP_IS(gm_counter_get(0, GM_C_allocate_bytes), 111,
	       "a child does not count in its parent's page");
}

/* Run in a child with a limit on a resource; 0: the page was made, 1: it was refused. */
static int open_limited(int resource, rlim_t most)
{
	int status;
	struct rlimit before, limit;
	fflush(stdout);
	if (fork() == 0) {
		gm_counters_forget();
		getrlimit(resource, &before);
		limit = (struct rlimit){most, before.rlim_max};
		setrlimit(resource, &limit);
		signal(SIGXFSZ, SIG_IGN);
		errno = 0;
		bool made = gm_counters_open();
		int error = errno;
		setrlimit(resource, &before);
		gm_counter_add(0, GM_C_allocate_bytes, 1000);
		bool right = error == 0 && gm_counter_get(0, GM_C_allocate_bytes) == 1000 &&
			     (find_memfd() >= 0) == made && find_memfd() < 200;
		_exit(right ? !made : 2);
	}
	wait(&status);
	return WEXITSTATUS(status);
}

static void test_limits(void)
{
	TAP_IS(open_limited(RLIMIT_NOFILE, 3), 1, "no descriptor: counted in private");
	TAP_IS(open_limited(RLIMIT_FSIZE, 0), 1,
	       "no page: counted in private, and no descriptor is left");
	TAP_IS(open_limited(RLIMIT_NOFILE, 100), 0, "few descriptors: the page takes a low one");
}

static void *add_one(void *arg)
{
	gm_counter_add((unsigned)(uintptr_t)arg, GM_C_free_calls, 1);
	return NULL;
}

/* Adds to `count` devices at once: one row each. */
static void *add_everywhere(void *arg)
{
	for (unsigned device = 0; device < GM_COUNTER_DEVICES; device++)
		add_one((void *)(uintptr_t)device);
	return arg;
}

static pthread_barrier_t all_counted;

static void *add_and_wait(void *arg)
{
	add_everywhere(arg);
	pthread_barrier_wait(&all_counted);
	add_everywhere(arg);
	return arg;
}

static uint64_t all_frees(void)
{
	uint64_t sum = 0;
	for (unsigned device = 0; device < GM_COUNTER_DEVICES; device++)
		sum += gm_counter_get(device, GM_C_free_calls);
	return sum;
}

/* More threads than rows: first one after the other, then at once. */
static void test_rows(void)
{
	struct gm_counter_live *live =
		aligned_alloc(_Alignof(struct gm_counter_live), sizeof *live);
	memset(live, 0, sizeof *live);
	unsigned rows;
	gm_counters_forget();
	gm_counters_move(live);
	gm_counter_add(3, GM_C_captures, 1); /* counter of the process: takes no row */
	for (unsigned i = 0; i < 4 * GM_PART_ROWS; i++)
		in_threads(1, add_one);
	TAP_IS(gm_counter_get(0, GM_C_free_calls), 4 * GM_PART_ROWS,
	       "%d threads, one after the other, count each free", 4 * GM_PART_ROWS);
	TAP_IS(parts_of(&live->parts, 0, GM_C_free_calls, &rows), 4 * GM_PART_ROWS,
	       "each thread had a row of its own");
	TAP_IS(rows, GM_PART_ROWS, "rows of ended threads are reused once all were used");
	TAP_IS(live->page.value[1][GM_C_free_calls], 0, "no thread counted in the page");
	gm_counters_forget();
	memset(live, 0, sizeof *live);
	gm_counters_move(live);
	pthread_barrier_init(&all_counted, NULL, THREADS);
	in_threads(THREADS, add_and_wait);
	TAP_IS(all_frees(), (uint64_t)2 * THREADS * GM_COUNTER_DEVICES,
	       "threads that find no row left count in the page, and lose nothing");
	uint64_t shared = 0;
	for (unsigned row = 0; row < GM_PAGE_ROWS; row++)
		shared += live->page.value[row][GM_C_free_calls];
	TAP_IS(shared, 2 * (THREADS * GM_COUNTER_DEVICES - GM_PART_ROWS),
	       "no thread but the surplus ones counts in the page");
	gm_counters_move(NULL);
	TAP_IS(all_frees(), (uint64_t)2 * THREADS * GM_COUNTER_DEVICES,
	       "the sums are the same after the page moves");
	in_threads(1, add_everywhere);
	TAP_IS(all_frees(), (uint64_t)(2 * THREADS + 1) * GM_COUNTER_DEVICES,
	       "counting goes on after the move");
	struct gm_counter_page *whole = calloc(1, sizeof *whole);
	gm_counters_copy(whole);
	TAP_OK(whole->value[1][GM_C_free_calls] == 2 * THREADS + 1 &&
		       whole->value[GM_COUNTER_DEVICES][GM_C_free_calls] == 2 * THREADS + 1,
	       "a copy of the page has the parts added");
	free(whole);
	free(live);
}

#define SECOND 1000000000u

static void test_samples(void)
{
	/* 0 s: 100 of 400 mapped asked for, 160 handed out; idle 240, largest 60, remapped 120 */
	struct gm_sample s = {.requested = 100,
			      .handed_out = 160,
			      .mapped = 400,
			      .idle = 240,
			      .largest_idle = 60,
			      .largest_after_remap = 120,
			      .unreclaimable = 80};
	uint64_t counters[GM_COUNTER_COUNT];
	struct gm_frag f;
	gm_sample_stop();
	gm_sample_count(3, SECOND, &s);
	gm_frag_now(&s, &f);
	TAP_OK(f.internal == 60 && f.external == 0.75 && f.external_remap == 0.5 &&
		       f.unreclaimable == 80 && f.utilisation == 0.25,
	       "the figures of one sample");
	s.requested = 160; /* 3 s later */
	s.largest_idle = 240;
	s.largest_after_remap = 240;
	s.unreclaimable = 0;
	gm_sample_count(3, 4 * (uint64_t)SECOND, &s);
	s = (struct gm_sample){0}; /* and 1 s later: all gone */
	gm_sample_count(3, 5 * (uint64_t)SECOND, &s);
	TAP_IS(gm_counter_get(3, GM_C_requested_seconds), 100 * 3 + 160,
	       "the requested bytes are summed by seconds");
	TAP_IS(gm_counter_get(3, GM_C_mapped_seconds), 400 * 4,
	       "the mapped bytes are summed by seconds");
	TAP_IS(gm_counter_get(3, GM_C_internal_seconds), 60 * 3,
	       "internal fragmentation is summed by seconds");
	TAP_IS(gm_counter_get(3, GM_C_unreclaimable_seconds), 80 * 3,
	       "the unreclaimable bytes are summed by seconds");
	TAP_IS(gm_counter_get(3, GM_C_external_seconds), 750000 * 3,
	       "external fragmentation is summed by seconds");
	TAP_IS(gm_counter_get(3, GM_C_external_remap_seconds), 500000 * 3,
	       "external fragmentation after a remap is summed by seconds");
	TAP_IS(gm_counter_get(3, GM_C_samples), 3, "three samples are counted");
	TAP_IS(gm_counter_get(3, GM_C_sampled_ns), 4 * (uint64_t)SECOND,
	       "the sampled time is four seconds");
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		counters[i] = gm_counter_get(3, (enum gm_counter)i);
	gm_frag_mean(counters, &f);
	TAP_OK(f.internal == 45 && f.external == 0.5625 && f.external_remap == 0.375 &&
		       f.unreclaimable == 60 && f.utilisation == 460.0 / 1600,
	       "the means of samples are over time");
	counters[GM_C_requested_peak] = 160;
	counters[GM_C_mapped_peak] = 400;
	gm_frag_peak(counters, &f);
	TAP_OK(f.internal == 60 && f.external == 0.75 && f.external_remap == 0.5 &&
		       f.unreclaimable == 80 && f.utilisation == 0.4,
	       "the figures at the peaks of samples");
	/* one byte for a tenth of a microsecond, ten million times: no rounding to 0 */
	s.requested = s.handed_out = s.mapped = 1;
	for (uint64_t i = 0; i <= 10000000; i++)
		gm_sample_count(4, SECOND + i * 100, &s);
	TAP_IS(gm_counter_get(4, GM_C_requested_seconds), 1, "small steps add up");
	memset(counters, 0, sizeof counters);
	gm_frag_mean(counters, &f);
	TAP_OK(f.external == 0 && f.utilisation == 1, "no sample, no division by zero");
}

static void test_due(void)
{
	TAP_OK(!gm_log_sample_due(0, SECOND), "no sample is due before the log is open");
	gm_sample_start(100);
	TAP_OK(gm_log_sample_due(0, 1000), "the first sample is due at once");
	TAP_OK(!gm_log_sample_due(0, 1099) && gm_log_sample_due(1, 1099),
	       "each device has samples of its own");
	TAP_OK(gm_log_sample_due(0, 1100), "the next sample is due after the interval");
	TAP_OK(gm_log_sample_next(0) == 1200 && gm_log_sample_next(1) == 1199,
	       "the time of the next sample can be read beforehand");
	TAP_IS(gm_log_sample_next(4), 0, "the first sample of another device is due at once");
	gm_sample_start(0);
	TAP_OK(gm_log_sample_due(2, 5) && gm_log_sample_due(2, 5), "interval 0: always due");
	gm_sample_stop();
	TAP_OK(!gm_log_sample_due(2, 9), "no sample is due after the end");
}

int main(void)
{
	test_basics();
	test_page();
	test_fork();
	test_limits();
	test_samples();
	test_due();
	test_rows();
	return tap_done();
}
