/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel named for a heap's growth: the running one, where only one can run. */
#include "tests/unit/heap_host_help.h"

static const char one[] = "one", two[] = "two", three[] = "three";

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

/* In the stream each kernel is followed by a write of its number. */
static void launch(struct site *site, CUstream stream, const char *kernel)
{
	gm_heap_launch(site->heap, stream, kernel);
	gm_sim_launch(stream, nothing, NULL);
	gm_heap_launched(site->heap, stream, true, kernel);
}

static const char *named(struct site *site)
{
	gm_lock_take(&site->heap->lock);
	const char *kernel = gm_heap_kernel(site->heap);
	gm_lock_release(&site->heap->lock);
	return kernel;
}

static void make(struct site *site)
{
	site_make(site, "512M", 256u << 20, NULL);
	gm_heap_stop(site->heap);
}

static void close_all(struct site *site, CUstream a, CUstream b, const char *what)
{
	gm_sim_release(a, (unsigned)-1);
	drv(cuStreamDestroy_v2)(a);
	if (b) {
		gm_sim_release(b, (unsigned)-1);
		drv(cuStreamDestroy_v2)(b);
	}
	site_close(site, what);
}

static void is_that_of_the_first_that_is_not_done(void)
{
	struct site site;
	make(&site);
	CUstream stream = held_stream();
	TAP_OK(!named(&site), "no kernel is named when nothing was launched");
	launch(&site, stream, one);
	launch(&site, stream, two);
	launch(&site, stream, two);
	launch(&site, stream, NULL);
	launch(&site, stream, three);
	TAP_PTR(named(&site), one, "the first of five kernels in a stream is named");
	gm_sim_release(stream, 2);
	TAP_PTR(named(&site), two, "the second kernel is named when the first is done");
	gm_sim_release(stream, 2);
	TAP_PTR(named(&site), two, "the third kernel has the same name as the second");
	gm_sim_release(stream, 2);
	TAP_OK(!named(&site), "the fourth kernel has no name that is known");
	gm_sim_release(stream, 2);
	TAP_PTR(named(&site), three, "the fifth kernel is named");
	gm_sim_release(stream, 2);
	TAP_OK(!named(&site), "no kernel is named when none runs");
	close_all(&site, stream, NULL, "a stream");
}

static void is_none_where_two_may_run(void)
{
	struct site site;
	make(&site);
	CUstream a = held_stream(), b = held_stream();
	launch(&site, a, one);
	launch(&site, b, two);
	TAP_OK(!named(&site), "no kernel is named when two of two names run");
	gm_sim_release(a, 2);
	TAP_PTR(named(&site), two, "one kernel is named when the other is done");
	launch(&site, a, two);
	TAP_PTR(named(&site), two, "the name of two kernels is named");
	close_all(&site, a, b, "two streams");
}

static void is_that_of_a_launch_in_progress(void)
{
	struct site site;
	make(&site);
	CUstream stream = held_stream();
	gm_heap_launch(site.heap, stream, one);
	TAP_PTR(named(&site), one, "a kernel may run before its launch returns");
	gm_heap_launch(site.heap, stream, two);
	TAP_OK(!named(&site), "a kernel of another thread may run, so none is named");
	gm_heap_launched(site.heap, stream, false, one);
	gm_heap_launched(site.heap, stream, false, two);
	gm_heap_launch(site.heap, stream, three);
	TAP_PTR(named(&site), three, "launches that failed do not count");
	gm_heap_launched(site.heap, stream, false, three);
	close_all(&site, stream, NULL, "launches");
}

static void is_forgotten_behind_many_others(void)
{
	static const char *const others[GM_HEAP_NAMES] = {two, three, two, three};
	struct site site;
	make(&site);
	CUstream stream = held_stream();
	launch(&site, stream, one);
	for (unsigned i = 0; i < GM_HEAP_NAMES - 1; i++)
		launch(&site, stream, others[i]);
	TAP_PTR(named(&site), one, "the kernels before a change of name are kept");
	launch(&site, stream, others[GM_HEAP_NAMES - 1]);
	TAP_OK(!named(&site), "a bounded number of earlier kernels is kept");
	gm_sim_release(stream, 2);
	TAP_PTR(named(&site), two, "the kernels after those dropped are kept");
	close_all(&site, stream, NULL, "changes of name");
}

static void is_none_without_a_write(void)
{
	struct site site;
	make(&site);
	CUstream a = held_stream(), b = held_stream();
	launch(&site, a, one);
	gm_sim_fail("cuStreamWriteValue32_v2", 1, CUDA_ERROR_NOT_SUPPORTED);
	launch(&site, b, two);
	TAP_OK(!named(&site), "the end of a kernel without a write is not seen");
	close_all(&site, a, b, "no write");
}

int main(void)
{
	is_that_of_the_first_that_is_not_done();
	is_none_where_two_may_run();
	is_that_of_a_launch_in_progress();
	is_forgotten_behind_many_others();
	is_none_without_a_write();
	return tap_done();
}
