/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "log/frag.h"
#include "log/page.h"
#include "log/sample.h"
#include "log_help.h"

#define THREADS 8
#define TURNS 10000

static void *add_many(void *arg)
{
	uint64_t base = (uint64_t)(uintptr_t)arg;
	for (uint64_t i = 0; i < TURNS; i++) {
		gm_counter_add(1, GM_C_allocate_calls, 1);
		gm_counter_raise(1, GM_C_requested_peak, base * TURNS + i);
	}
	return NULL;
}

static void test_basics(void)
{
	pthread_t threads[THREADS];
	gm_counter_add(0, GM_C_allocate_bytes, 100);
	TAP_IS(gm_counter_get(0, GM_C_allocate_bytes), 100, "counted before there is a page");
	TAP_IS(gm_counter_get(1, GM_C_allocate_bytes), 0, "devices are apart");
	TAP_IS(gm_counter_add(2, GM_C_foreign, 7), 7, "add answers what the counter becomes");
	TAP_IS(gm_counter_add(2, GM_C_foreign, -(uint64_t)3), 4, "also when it falls");
	gm_counter_add(5, GM_C_captures, 2);
	TAP_IS(gm_counter_get(0, GM_C_captures), 2, "process counters ignore the device");
	gm_counter_add(1000, GM_C_free_calls, 3);
	TAP_IS(gm_counter_get(GM_COUNTER_DEVICES - 1, GM_C_free_calls), 3,
	       "devices past the last share the last");
	TAP_OK(gm_counter_raise(0, GM_C_mapped_peak, 7), "a peak rises");
	TAP_OK(!gm_counter_raise(0, GM_C_mapped_peak, 7) &&
		       !gm_counter_raise(0, GM_C_mapped_peak, 6),
	       "but not to what it was, nor below");
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, add_many, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	TAP_IS(gm_counter_get(1, GM_C_allocate_calls), THREADS * TURNS, "no count is lost");
	TAP_IS(gm_counter_get(1, GM_C_requested_peak), THREADS * TURNS - 1, "nor a peak");
}

/* The descriptor of our memfd, as another process would find it; -1: none. */
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
	TAP_OK(gm_counters_open() && gm_counters_open(), "made once");
	TAP_IS(gm_counter_get(0, GM_C_allocate_bytes), 100, "with what was counted before");
	int fd = find_memfd();
	TAP_OK(fd >= 200, "it is found by its name, out of the way of small numbers");
	struct gm_counter_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
	if (!TAP_OK(page != MAP_FAILED, "others can map it"))
		return;
	gm_counter_add(0, GM_C_allocate_bytes, 11);
	TAP_IS(page->value[1][GM_C_allocate_bytes], 111, "and see what is counted now");
	TAP_IS(page->value[0][GM_C_captures], 2, "row 0 is the process");
	TAP_OK(!memcmp(page->head.magic, GM_PAGE_MAGIC, 8) &&
		       page->head.counters == GM_COUNTER_COUNT &&
		       page->head.pid == (uint32_t)getpid(),
	       "it says what it is");
	TAP_OK(ftruncate(fd, 0) && errno == EPERM, "nobody can shorten it");
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
	TAP_IS(gm_counter_get(0, GM_C_allocate_bytes), 111, "and not in its parent's");
}

/* Run with a limit on a resource, in a child; 0: the page was made, 1: it was refused. */
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
	TAP_IS(open_limited(RLIMIT_FSIZE, 0), 1, "no page: likewise, and no descriptor is left");
	TAP_IS(open_limited(RLIMIT_NOFILE, 100), 0, "few descriptors: it takes a low one");
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
	       "the figures of a sample");
	s.requested = 160; /* 3 s later */
	s.largest_idle = 240;
	s.largest_after_remap = 240;
	s.unreclaimable = 0;
	gm_sample_count(3, 4 * (uint64_t)SECOND, &s);
	s = (struct gm_sample){0}; /* and 1 s later: all gone */
	gm_sample_count(3, 5 * (uint64_t)SECOND, &s);
	TAP_IS(gm_counter_get(3, GM_C_requested_seconds), 100 * 3 + 160, "requested by seconds");
	TAP_IS(gm_counter_get(3, GM_C_mapped_seconds), 400 * 4, "mapped by seconds");
	TAP_IS(gm_counter_get(3, GM_C_internal_seconds), 60 * 3, "internal by seconds");
	TAP_IS(gm_counter_get(3, GM_C_unreclaimable_seconds), 80 * 3, "unreclaimable by seconds");
	TAP_IS(gm_counter_get(3, GM_C_external_seconds), 750000 * 3, "external by seconds");
	TAP_IS(gm_counter_get(3, GM_C_external_remap_seconds), 500000 * 3, "after remap");
	TAP_IS(gm_counter_get(3, GM_C_samples), 3, "three samples");
	TAP_IS(gm_counter_get(3, GM_C_sampled_ns), 4 * (uint64_t)SECOND, "over four seconds");
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		counters[i] = gm_counter_get(3, (enum gm_counter)i);
	gm_frag_mean(counters, &f);
	TAP_OK(f.internal == 45 && f.external == 0.5625 && f.external_remap == 0.375 &&
		       f.unreclaimable == 60 && f.utilisation == 460.0 / 1600,
	       "means over time");
	counters[GM_C_requested_peak] = 160;
	counters[GM_C_mapped_peak] = 400;
	gm_frag_peak(counters, &f);
	TAP_OK(f.internal == 60 && f.external == 0.75 && f.external_remap == 0.5 &&
		       f.unreclaimable == 80 && f.utilisation == 0.4,
	       "peaks");
	/* a byte for a tenth of a microsecond, ten million times: nothing is rounded away */
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
	TAP_OK(gm_log_sample_due(0, 1000), "the first is due at once");
	TAP_OK(!gm_log_sample_due(0, 1099) && gm_log_sample_due(1, 1099), "each device by itself");
	TAP_OK(gm_log_sample_due(0, 1100), "and the next after the interval");
	gm_sample_start(0);
	TAP_OK(gm_log_sample_due(2, 5) && gm_log_sample_due(2, 5), "0: always");
	gm_sample_stop();
	TAP_OK(!gm_log_sample_due(2, 9), "none after the end");
}

int main(void)
{
	test_basics();
	test_page();
	test_fork();
	test_limits();
	test_samples();
	test_due();
	return tap_done();
}
