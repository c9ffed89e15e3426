/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of a heap: launches in flight, the service thread and its cost, every driver call
 * failing in turn, small address ranges, contexts that end, fork, exit.
 */
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/heap_host_help.h"

#define MIB ((uint64_t)1 << 20)

static void nothing(void *unused)
{
	(void)unused;
}

/* A kernel of the program on a held stream: it runs when the test releases the stream. */
static void launch(struct site *site, CUstream stream)
{
	gm_heap_launch(site->heap, stream, NULL);
	gm_sim_launch(stream, nothing, NULL);
	gm_heap_launched(site->heap, stream, true, NULL);
}

static CUstream held_stream(void)
{
	CUstream stream;
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	return stream;
}

/* Request granules, as a lane does that finds none. */
static void want(struct site *site, uint64_t granules)
{
	__atomic_store_n(&site->heap->shared->mail.want.value, granules, __ATOMIC_RELEASE);
}

static uint64_t have(const struct site *site)
{
	return __atomic_load_n(&site->heap->shared->mail.have.value, __ATOMIC_ACQUIRE);
}

/* --- launches in flight --- */

static void follows_launches(void)
{
	struct site site;
	site_make(&site, "512M", 256 * MIB, NULL);
	CUstream a = held_stream(), b = held_stream();
	TAP_OK(!gm_heap_in_flight(site.heap), "nothing is in flight before a launch");
	gm_heap_launch(site.heap, a, NULL);
	TAP_OK(gm_heap_in_flight(site.heap), "a launch that begins is in flight");
	gm_heap_launched(site.heap, a, false, NULL);
	TAP_OK(!gm_heap_in_flight(site.heap), "a launch that fails is not in flight");
	launch(&site, a);
	launch(&site, b);
	launch(&site, a);
	gm_sim_release(b, (unsigned)-1);
	TAP_OK(gm_heap_in_flight(site.heap), "one of two streams is done");
	gm_sim_release(a, 3);
	TAP_OK(gm_heap_in_flight(site.heap), "one of two kernels of a stream is done");
	TAP_IS(gm_heap_trim(site.heap), 0, "no trim happens while a kernel runs");
	struct gm_heap_figures figures;
	TAP_IS(gm_heap_figures(site.heap, &figures), CUDA_ERROR_NOT_READY,
	       "no figures are read meanwhile");
	TAP_IS(figures.chunks, 1, "the host's own figures are available");
	gm_sim_release(a, (unsigned)-1);
	TAP_OK(!gm_heap_in_flight(site.heap), "no kernel is in flight");
	TAP_IS(gm_heap_figures(site.heap, &figures), CUDA_SUCCESS, "figures are read again");
	TAP_IS(site.heap->tracks, 2, "two streams took two words");
	drv(cuStreamDestroy_v2)(a);
	drv(cuStreamDestroy_v2)(b);
	site_close(&site, "launches");
}

static void follows_many_streams(void)
{
	enum { N = GM_HEAP_TRACKS + 3 };
	static CUstream stream[N];
	struct site site;
	site_make(&site, "512M", 256 * MIB, NULL);
	for (unsigned i = 0; i < N; i++) {
		stream[i] = held_stream();
		launch(&site, stream[i]);
	}
	for (unsigned i = 0; i < N; i++)
		gm_sim_release(stream[i], (unsigned)-1);
	TAP_OK(gm_heap_in_flight(site.heap), "a launch that cannot be tracked counts as in flight");
	gm_heap_trim(site.heap);
	TAP_OK(!gm_heap_in_flight(site.heap),
	       "a launch is not in flight after a trim has waited for it");
	launch(&site, stream[N - 1]);
	gm_sim_fail("cuStreamWriteValue32_v2", 1, CUDA_ERROR_NOT_SUPPORTED);
	launch(&site, stream[0]);
	TAP_OK(gm_heap_in_flight(site.heap), "a launch without a written word counts as in flight");
	gm_heap_trim(site.heap);
	TAP_OK(!gm_heap_in_flight(site.heap), "a launch without a written word ends with a trim");
	for (unsigned i = 0; i < N; i++)
		drv(cuStreamDestroy_v2)(stream[i]);
	site_close(&site, "streams");
}

/* --- the service --- */

static void *launch_some(void *arg)
{
	struct site *site = arg;
	drv(cuCtxSetCurrent)(site->context->handle);
	for (unsigned i = 0; i < 50; i++) {
		launch(site, NULL);
		sched_yield();
	}
	return NULL;
}

/* The thread itself: it serves requests while a kernel is in flight, and ends afterwards. */
static void serves(void)
{
	struct site site;
	pthread_t other;
	site_make(&site, "1G", 512 * MIB, NULL);
	CUstream stream = held_stream();
	TAP_IS(atomic_load(&site.heap->service.running), 0, "no thread without a kernel");
	launch(&site, stream);
	TAP_IS(atomic_load(&site.heap->service.running), 1, "one service thread with a kernel");
	for (unsigned i = 0; i < 5; i++) {
		uint64_t grants = have(&site);
		want(&site, site.heap->granted + 1);
		while (have(&site) == grants)
			sched_yield();
		__atomic_store_n(&site.heap->shared->mail.taken.value, have(&site),
				 __ATOMIC_RELEASE);
	}
	TAP_IS(site_figures(&site).grown, 6, "the service answers each request");
	want(&site, site.heap->capacity + 1);
	while (!__atomic_load_n(&site.heap->shared->mail.refused.value, __ATOMIC_ACQUIRE))
		sched_yield();
	TAP_IS(site_figures(&site).grown, 6, "refused requests do not grow the heap");
	pthread_create(&other, NULL, launch_some, &site);
	launch_some(&site);
	pthread_join(other, NULL);
	gm_sim_release(stream, (unsigned)-1);
	while (gm_heap_in_flight(site.heap))
		sched_yield();
	gm_heap_stop(site.heap);
	TAP_IS(atomic_load(&site.heap->service.running), 0, "the service ends when it is told to");
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "thread");
}

/* A request ahead of need accepts fewer granules. A request of one lane for many is granted in full
 * or refused. */
static void gives_what_there_is(void)
{
	struct site site;
	site_make(&site, "512M", (GM_HEAP_FIRST + 2) * 2 * MIB, NULL);
	const uint64_t *refused = &site.heap->shared->mail.refused.value;
	want(&site, GM_HEAP_FIRST + GM_HEAP_LOW);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_answer(site.heap), "two of four granules");
	TAP_IS(site_figures(&site).mapped, site_figures(&site).limit,
	       "two granules are all that remain");
	TAP_OK(!gm_heap_answer(site.heap) && *refused == GM_HEAP_FIRST + 3,
	       "a third granule beyond the limit is refused");
	site_close(&site, "few");
	site_make(&site, "512M", (GM_HEAP_FIRST + 8) * 2 * MIB, NULL);
	refused = &site.heap->shared->mail.refused.value;
	want(&site, GM_HEAP_FIRST + 9);
	TAP_OK(!gm_heap_answer(site.heap) && *refused == GM_HEAP_FIRST + 9,
	       "nine granules are refused");
	TAP_IS(site_figures(&site).chunks, 1, "a refused request maps no chunk");
	want(&site, GM_HEAP_FIRST + 8);
	TAP_OK(gm_heap_answer(site.heap), "eight granules are granted");
	site_close(&site, "many");
}

static uint64_t fake_now, fake_end;
static unsigned naps;
static CUstream fake_stream;

static uint64_t fake_clock(void)
{
	return fake_now += 100;
}

/* A nap takes its full time, until the kernel ends. */
static void fake_sleep(struct gm_heap_host *heap, uint64_t ns)
{
	(void)heap;
	naps++;
	fake_now += ns;
	if (fake_now >= fake_end && fake_stream) {
		gm_sim_release(fake_stream, (unsigned)-1);
		fake_stream = NULL;
	}
}

/* An hour has 72,000 polls of the mailbox, each of a few microseconds. */
static void costs_little(void)
{
	struct site site;
	site_make(&site, "512M", 256 * MIB, NULL);
	gm_heap_stop(site.heap); /* no thread: the loop runs here, by a clock of the test */
	fake_stream = held_stream();
	CUstream stream = fake_stream;
	launch(&site, stream);
	atomic_store(&site.heap->stopped, false);
	site.heap->config.clock = fake_clock;
	site.heap->config.sleep = fake_sleep;
	fake_now = 0;
	fake_end = 3600 * 1000000000ull;
	naps = 0;
	gm_heap_serve(site.heap);
	TAP_OK(naps > 1000 && naps < 80000, "an hour without a want: %u looks", naps);
	TAP_OK(fake_now >= fake_end, "the service stayed all the time");
	TAP_OK(fake_now < fake_end + 2000000000ull, "the service ended soon after");
	atomic_store(&site.heap->stopped, true);
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "hour");
}

/* --- each call of the driver fails --- */

static const char *const calls[] = {
	"cuMemAddressReserve",	   "cuMemCreate",	   "cuMemMap",
	"cuMemSetAccess",	   "cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2",
	"cuModuleLoadData",	   "cuModuleGetFunction",  "cuStreamCreate",
	"cuMemsetD8Async",	   "cuLaunchKernel",	   "cuStreamSynchronize",
	"cuCtxPushCurrent_v2",	   "cuMemUnmap",	   "cuCtxRecordEvent",
	"cuEventSynchronize",	   "cuEventCreate",	   "cuStreamGetId",
	"cuStreamWriteValue32_v2", "cuEventRecord",
};
enum { CALLS = sizeof calls / sizeof *calls };

static unsigned fail(unsigned call, unsigned nth)
{
	unsigned before = gm_sim_calls(calls[call]);
	gm_sim_fail(calls[call], nth, CUDA_ERROR_OUT_OF_MEMORY);
	return before;
}

/* A smaller address range suffices, and launches can do their own waiting. */
static bool is_spare(const char *call)
{
	return strcmp(call, "cuMemAddressReserve") == 0 || strcmp(call, "cuEventRecord") == 0;
}

/* What the time of a creation depends on: one kernel, which runs once. */
static void create_costs(void)
{
	static const char *const once[] = {"cuModuleLoadData", "cuModuleGetFunction",
					   "cuLaunchKernel", "cuStreamSynchronize"};
	enum { ONCE = sizeof once / sizeof *once };
	unsigned before[ONCE];
	struct site site;
	site_open(&site, "512M", 256 * MIB);
	for (unsigned i = 0; i < ONCE; i++)
		before[i] = gm_sim_calls(once[i]);
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_SUCCESS, "a heap is made");
	for (unsigned i = 0; i < ONCE; i++)
		TAP_IS(gm_sim_calls(once[i]) - before[i], 1, "a creation calls %s once", once[i]);
	site_close(&site, "costs");
}

static void create_fails(void)
{
	struct site site;
	for (unsigned c = 0; c < CALLS; c++) {
		for (unsigned nth = 1;; nth++) {
			char name[64];
			snprintf(name, sizeof name, "%s %u", calls[c], nth);
			site_open(&site, "512M", 256 * MIB);
			unsigned before = fail(c, nth);
			site.result = gm_heap_create(&site.config, &site.heap);
			bool came = gm_sim_calls(calls[c]) - before >= nth;
			gm_sim_fail(calls[c], 0, 0);
			if (!came) {
				site_close(&site, name);
				break;
			}
			TAP_OK(site.result == CUDA_SUCCESS ? is_spare(calls[c]) : !site.heap,
			       "%s fails: there is no heap, or it can go without", name);
			site_close(&site, name);
		}
	}
}

/* A life: growth, a launch, a trim. After a failure the next attempt finds an unchanged heap. */
static void live(struct site *site)
{
	want(site, site->heap->granted + 1);
	gm_heap_answer(site->heap);
	launch(site, NULL);
	gm_heap_trim(site->heap);
}

static void life_fails(void)
{
	struct site site;
	for (unsigned c = 0; c < CALLS; c++) {
		for (unsigned nth = 1;; nth++) {
			char name[64];
			snprintf(name, sizeof name, "life, %s %u", calls[c], nth);
			site_make(&site, "512M", 256 * MIB, NULL);
			gm_heap_stop(site.heap);
			unsigned before = fail(c, nth);
			live(&site);
			bool came = gm_sim_calls(calls[c]) - before >= nth;
			gm_sim_fail(calls[c], 0, 0);
			live(&site);
			gm_heap_trim(site.heap);
			struct gm_heap_figures figures = site_figures(&site);
			TAP_IS(figures.chunks, 1, "%s: all chunks but the first were returned",
			       name);
			TAP_IS(figures.used, 0, "%s: no memory of the heap is lost", name);
			site_close(&site, name);
			if (!came)
				break;
		}
	}
}

/* Memory that the driver does not take back stays mapped; all other memory is released. */
static void destroy_fails(void)
{
	struct site site;
	for (unsigned nth = 1; nth <= 3; nth++) {
		site_make(&site, "512M", 256 * MIB, NULL);
		gm_heap_stop(site.heap);
		live(&site);
		gm_sim_fail("cuMemUnmap", nth, CUDA_ERROR_UNKNOWN);
		gm_heap_destroy(site.heap);
		gm_sim_fail("cuMemUnmap", 0, 0);
		gm_pool_destroy(site.pool);
		TAP_OK(gm_sim_leaks(false) <= 3, "unmap %u of an end fails: one thing is left",
		       nth);
	}
}

/* --- few addresses, other contexts, other processes --- */

static void takes_fewer_addresses(void)
{
	struct site site;
	site_open(&site, "2G", 1024 * MIB);
	gm_sim_fail("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY);
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_SUCCESS,
	       "half of the address range is reserved");
	TAP_IS(site_figures(&site).reserved, 2048 * MIB, "half of the address range suffices");
	site_close(&site, "addresses");
	/* Metadata of 8 percent of the memory it describes: no address range of four times that. */
	site_make(&site, "2G", 1024 * MIB, "ouro-s-p");
	TAP_IS(site_figures(&site).reserved, 1024 * MIB, "the address range suits the metadata");
	site_close(&site, "books");
}

static void refuses(void)
{
	struct site site;
	static const struct gm_sim_image empty = {.magic = GM_SIM_IMAGE};
	site_open(&site, "512M", 256 * MIB);
	site.config.policy = "none";
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_ERROR_NOT_SUPPORTED,
	       "an unknown policy is refused");
	site.config.policy = "rw";
	site.config.image = NULL;
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_ERROR_NOT_SUPPORTED,
	       "a missing image is refused");
	site.config.image = &empty;
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_ERROR_INVALID_IMAGE,
	       "a wrong image is refused");
	site.config.image = &gm_heap_sim_image;
	site.config.limit = MIB;
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_ERROR_OUT_OF_MEMORY,
	       "a limit below a granule is refused");
	site.config.limit = 256 * MIB;
	site.driver.cuStreamGetId = NULL; /* as before driver 12.0 */
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_ERROR_NOT_SUPPORTED,
	       "an old driver is refused");
	site_close(&site, "refused");
}

static void outlives_its_context(void)
{
	struct site site;
	CUcontext other;
	CUresult result;
	site_open(&site, "512M", 256 * MIB);
	drv(cuCtxCreate_v2)(&other, 0, 0);
	site.config.context = gm_context_current(&site.driver, &result);
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_SUCCESS, "a context of its own");
	launch(&site, NULL);
	gm_heap_context_ending(site.heap);
	TAP_IS(atomic_load(&site.heap->service.running), 0, "no thread is left");
	CUevent ran = site.heap->ran;
	drv(cuCtxDestroy_v2)(other);
	gm_context_gone(other);
	gm_heap_context_gone(site.heap);
	TAP_IS(site_pool(&site).lent, 0, "all memory is back in the pool");
	TAP_IS(gm_heap_trim(site.heap), 0, "a trim of the ended heap returns no memory");
	gm_heap_launch(site.heap, NULL, NULL);
	TAP_IS(atomic_load(&site.heap->service.running), 0, "no service thread is started");
	site.driver.cuEventDestroy_v2(site.config.context->probe);
	site.driver.cuEventDestroy_v2(ran);
	site_close(&site, "gone");
}

/* Waits until a request of a kernel in flight is answered. */
static bool is_served(struct site *site)
{
	uint64_t grants = have(site);
	want(site, site->heap->granted + 1);
	for (unsigned i = 0; i < 600000 && have(site) == grants; i++)
		usleep(1000);
	__atomic_store_n(&site->heap->shared->mail.taken.value, have(site), __ATOMIC_RELEASE);
	return have(site) != grants;
}

/* The end was refused: kernels in flight then, and later kernels, are served again. */
static void outlives_a_refused_end(void)
{
	struct site site;
	site_make(&site, "512M", 256 * MIB, NULL);
	CUstream stream = held_stream();
	launch(&site, stream);
	gm_heap_context_ending(site.heap);
	launch(&site, stream);
	TAP_IS(atomic_load(&site.heap->service.running), 0, "no thread while a context is ending");
	gm_heap_context_stays(site.heap);
	TAP_OK(is_served(&site), "the context stays: kernels in flight are served");
	gm_sim_release(stream, (unsigned)-1);
	while (gm_heap_in_flight(site.heap))
		sched_yield();
	gm_heap_context_ending(site.heap);
	gm_heap_context_stays(site.heap);
	gm_sim_hold(stream);
	launch(&site, stream);
	TAP_OK(is_served(&site), "later kernels are served");
	gm_sim_release(stream, (unsigned)-1);
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "stays");
}

static void is_not_touched_in_a_child(void)
{
	struct site site;
	int status = -1;
	site_make(&site, "512M", 256 * MIB, NULL);
	CUstream stream = held_stream();
	launch(&site, stream);
	gm_lock_take(&site.heap->lock); /* as another thread may hold it at that moment */
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct gm_heap_figures figures;
		gm_heap_forget_all();
		gm_heap_launch(site.heap, stream, NULL);
		gm_heap_launched(site.heap, stream, true, NULL);
		bool clean = !gm_heap_in_flight(site.heap) && gm_heap_trim(site.heap) == 0 &&
			     gm_heap_trim_next(site.heap) == UINT64_MAX &&
			     gm_heap_trim_idle(site.heap, UINT64_MAX - 1) == 0 &&
			     gm_heap_figures(site.heap, &figures) == CUDA_ERROR_NOT_READY;
		gm_heap_context_gone(site.heap);
		gm_heap_destroy(site.heap);
		gm_heap_exit();
		_exit(clean ? 0 : 1);
	}
	gm_lock_release(&site.heap->lock);
	waitpid(child, &status, 0);
	TAP_OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child calls nothing, and waits "
							      "for nothing");
	gm_sim_release(stream, (unsigned)-1);
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "fork");
}

/* Exit would wait for a call whose end was missed, with a voluntary context switch. */
static void exits_at_once(void)
{
	struct site site;
	int status = -1;
	site_make(&site, "512M", 256 * MIB, NULL);
	gm_heap_trim(site.heap);
	site_close(&site, "before the exit");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct rusage before, after;
		getrusage(RUSAGE_THREAD, &before);
		gm_heap_exit();
		getrusage(RUSAGE_THREAD, &after);
		_exit(after.ru_nvcsw != before.ru_nvcsw);
	}
	waitpid(child, &status, 0);
	TAP_OK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "an exit waits for no call of a heap that is gone");
}

/* Runs last: no service after it. */
static void ends_with_the_process(void)
{
	struct site site;
	site_make(&site, "512M", 256 * MIB, NULL);
	CUstream stream = held_stream();
	launch(&site, stream);
	gm_heap_exit();
	unsigned created = gm_sim_calls("cuMemCreate"), unmapped = gm_sim_calls("cuMemUnmap");
	want(&site, site.heap->granted + 1);
	TAP_OK(!gm_heap_answer(site.heap), "no want is answered");
	gm_heap_launch(site.heap, stream, NULL);
	gm_heap_launched(site.heap, stream, false, NULL);
	gm_heap_stop(site.heap);
	gm_heap_destroy(site.heap);
	TAP_IS(gm_sim_calls("cuMemCreate"), created, "no memory is mapped");
	TAP_IS(gm_sim_calls("cuMemUnmap"), unmapped, "no memory is unmapped");
}

static void names_policies(void)
{
	union gm_knob_value value;
	struct gm_knobs knobs = *gm_knob_get();
	char why[200];
	TAP_STR(gm_heap_wanted(&knobs), "granule", "GPUMEM_HEAP=auto is the default policy");
	gm_knob_parse(GM_KNOB_ID_heap, "off", &knobs.heap, why, sizeof why);
	TAP_OK(!gm_heap_wanted(&knobs), "GPUMEM_HEAP=off is no policy");
	for (unsigned i = 0; gm_heap_policy_name(i); i++) {
		char text[32];
		snprintf(text, sizeof text, "policy:%s", gm_heap_policy_name(i));
		TAP_OK(gm_knob_parse(GM_KNOB_ID_heap, text, &value, why, sizeof why),
		       "GPUMEM_HEAP=%s is read", text);
		knobs.heap = value;
		TAP_STR(gm_heap_wanted(&knobs), gm_heap_policy_name(i),
			"the knob's policy is returned");
	}
	gm_knob_parse(GM_KNOB_ID_heap_limit, "25%", &knobs.heap_limit, why, sizeof why);
	TAP_IS(gm_heap_limit(&knobs, 1000), 250, "GPUMEM_HEAP_LIMIT is a share");
	gm_knob_parse(GM_KNOB_ID_heap_limit, "3M", &knobs.heap_limit, why, sizeof why);
	TAP_IS(gm_heap_limit(&knobs, 1000), 3 * MIB, "GPUMEM_HEAP_LIMIT is a size");
}

int main(void)
{
	names_policies();
	follows_launches();
	follows_many_streams();
	gives_what_there_is();
	serves();
	costs_little();
	create_costs();
	create_fails();
	life_fails();
	destroy_fails();
	takes_fewer_addresses();
	refuses();
	outlives_its_context();
	outlives_a_refused_end();
	is_not_touched_in_a_child();
	exits_at_once();
	ends_with_the_process();
	return tap_done();
}
