/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The takeover of a context, on the simulated driver, with the test's own helper: its kernel reads
 * and writes code in memory of the test, and multiprocessors keep cached lines of the code until
 * another module is launched. Then every driver call fails once, at every place: all changes are
 * undone, and the next takeover succeeds.
 */
#include "takeover_help.h"

#include "tests/unit/on_sim.h"

#define BLOCKS 6

static struct fake_code code;
static struct gm_helper_answer *answer; /* the helper's variable */
static bool forgets_frees, refuses, damages, misaligns;
static uint64_t strangers, saved[GM_TAKEOVER_FUNCTIONS];
static bool ready; /* the driver has made the context ready before the first write */

static void reset_code(enum gm_call_form as)
{
	fake_reset(&code, as);
	strangers = 0;
	ready = false;
	forgets_frees = refuses = damages = misaligns = false;
}

/* --- the helper's kernel --- */

static bool is_taken(enum gm_takeover_function function)
{
	return fake_is_taken(&code, code.line[function], function);
}

static void helper_test(unsigned part)
{
	bool all = part == GM_HELPER_ALL, aligned = part == GM_HELPER_ALIGNEDS;
	uint64_t threads = all ? (uint64_t)BLOCKS * GM_HELPER_THREADS : BLOCKS;
	bool ours = is_taken(aligned ? GM_TAKEOVER_ALIGNED : GM_TAKEOVER_MALLOC);
	if ((all && !answer->passed) || (part != GM_HELPER_MALLOCS && !fake_went_well(answer)))
		return;
	if (part == GM_HELPER_STRANGERS) {
		strangers += is_taken(GM_TAKEOVER_FREE) && !forgets_frees ? BLOCKS : 0;
		return;
	}
	*(!ours ? &answer->elsewhere : &answer->given) += threads - 2;
	*(refuses ? &answer->refused : &answer->given) += 1;
	*((damages && all) || (misaligns && aligned) ? &answer->damaged : &answer->given) += 1;
}

static void helper_see(unsigned tests)
{
	if (tests != BLOCKS)
		abort();
	answer->strangers = strangers;
	answer->passed = strangers >= BLOCKS && fake_went_well(answer);
}

static void run_helper(void **args)
{
	const struct gm_helper_order *order = args[0];
	switch (order->op) {
	case GM_HELPER_START:
		ready = fake_is_native(&code);
		fake_start(&code, answer, order);
		break;
	case GM_HELPER_READ:
		fake_read(&code, answer, order->at);
		break;
	case GM_HELPER_WRITE:
		memcpy(saved, order->saved, sizeof saved);
		fake_write(&code, answer, order);
		break;
	case GM_HELPER_TEST:
		helper_test(order->n);
		break;
	case GM_HELPER_SEE:
		helper_see(order->n);
		break;
	default:
		abort();
	}
}

static void run_empty(void **args)
{
	(void)args;
	fake_drop_lines(&code);
}

static const struct gm_sim_kernel helper_kernels[] = {
	{"gm_helper_run", run_helper, {sizeof(struct gm_helper_order)}, 0},
};
static const struct gm_sim_kernel empty_kernels[] = {{"gm_empty", run_empty, {0}, 0}};
static const struct gm_sim_global helper_globals[] = {
	{"gm_helper_answer", sizeof(struct gm_helper_answer)}};
static const struct gm_sim_image helper = {GM_SIM_IMAGE, 1, helper_kernels,
					   16384,	 1, helper_globals};
static const struct gm_sim_image empty = {GM_SIM_IMAGE, 1, empty_kernels, 512, 0, NULL};

static CUresult get_global(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
	typedef CUresult (*call)(CUdeviceptr *, size_t *, CUmodule, const char *);
	CUresult result =
		((call)gm_sim_symbol(NULL, "cuModuleGetGlobal_v2"))(address, size, module, name);
	if (result == CUDA_SUCCESS) {
		answer = (struct gm_helper_answer *)(uintptr_t)*address;
		memset(answer, 0, sizeof *answer);
	}
	return result;
}

/* --- takeovers --- */

static unsigned launches, launched, launched_well;

static void count_launch(void *arg, CUstream stream)
{
	launches += arg == &launches && stream;
}

static void count_launched(void *arg, CUstream stream, bool well)
{
	launched += arg == &launches && stream;
	launched_well += well;
}

static struct gm_takeover_report report;

static struct gm_takeover_config config(void)
{
	return (struct gm_takeover_config){
		.driver = &sim,
		.images = {.helper = &helper, .empty = &empty},
		.heap = 0x1000,
		.blocks = BLOCKS,
		.launch = count_launch,
		.launched = count_launched,
		.arg = &launches,
	};
}

static bool take(void)
{
	const struct gm_takeover_config c = config();
	return gm_takeover(&c, &report);
}

static void start(void)
{
	sim_start("13.0", "1");
	sim_set_current(sim_primary(0));
	sim.cuModuleGetGlobal_v2 = get_global;
}

static void test_taken(void)
{
	for (enum gm_call_form form = GM_CALL_WHOLE; form <= GM_CALL_SPLIT; form++) {
		reset_code(form);
		launches = launched = launched_well = 0;
		TAP_OK(take() && report.end == GM_TAKEOVER_TAKEN, "taken over, form %d", form);
		TAP_OK(fake_is_ours(&code), "malloc and free call ours, in every line");
		TAP_OK(ready, "the driver was ready before anything was written");
		bool said = report.form == form;
		for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
			said = said && report.at[i] == fake_at(&code, FAKE_DRIVER + i) &&
			       report.to[i] == fake_at(&code, FAKE_OURS + i);
		TAP_OK(said, "the report says where they are");
		TAP_IS(report.given, BLOCKS * (2 + GM_HELPER_THREADS),
		       "all threads of the test got memory");
		TAP_OK(launches == 1 && launched == 1 && launched_well == 1,
		       "the heap was told of the launches of the test");
		TAP_OK(!take() && report.end == GM_TAKEOVER_STRANGE_MALLOC && fake_is_ours(&code),
		       "code taken over already is refused");
	}
}

/* What the time of a takeover depends on. */
static void test_costs(void)
{
	static const struct {
		const char *call;
		unsigned times;
	} costs[] = {
		{"cuModuleLoadData", 2},    /* the helper; a module that drops cached lines */
		{"cuModuleGetFunction", 2}, /* the kernel of each */
		{"cuLaunchKernel", 9},	    /* start, read, write, drop, and five of the test */
		{"cuStreamSynchronize", 4}, /* after start, read, write and the test */
	};
	enum { COSTS = sizeof costs / sizeof *costs };
	unsigned before[COSTS];
	reset_code(GM_CALL_SPLIT);
	for (unsigned i = 0; i < COSTS; i++)
		before[i] = gm_sim_calls(costs[i].call);
	TAP_OK(take(), "the driver's code is taken over");
	for (unsigned i = 0; i < COSTS; i++)
		TAP_IS(gm_sim_calls(costs[i].call) - before[i], costs[i].times,
		       "a takeover has its number of calls of %s", costs[i].call);
}

static void check_refusal(const char *what, enum gm_takeover_end end)
{
	bool taken = take();
	TAP_OK(!taken && report.end == end && report.step, "%s: the takeover ends with: %s", what,
	       gm_takeover_text(report.end));
	TAP_OK(fake_is_native(&code), "%s: the code is the driver's again", what);
}

enum { AT = FAKE_CALLS_AT, MALLOC = GM_TAKEOVER_MALLOC, FREE = GM_TAKEOVER_FREE };

static void test_helper_code(void)
{
	reset_code(GM_CALL_SPLIT);
	code.f[FAKE_CALLS_OURS][AT].low ^= UINT64_C(1) << 40;
	check_refusal("a call that says another target", GM_TAKEOVER_UNKNOWN_CODE);
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		reset_code(GM_CALL_SPLIT);
		code.f[FAKE_CALLS + i][AT].low = FAKE_RETURN;
		check_refusal("no call of one", GM_TAKEOVER_UNKNOWN_CODE);
		reset_code(GM_CALL_SPLIT);
		code.f[FAKE_CALLS + i][AT] =
			code.f[FAKE_CALLS + (i + 1) % GM_TAKEOVER_FUNCTIONS][AT];
		check_refusal("two are one", GM_TAKEOVER_STRANGE_MALLOC);
	}
	reset_code(GM_CALL_SPLIT);
	fake_calls(&code, FAKE_CALLS + FREE, FAKE_OURS + MALLOC);
	check_refusal("free is a function of ours", GM_TAKEOVER_STRANGE_MALLOC);
	reset_code(GM_CALL_SPLIT);
	struct gm_insn *call = &code.f[FAKE_CALLS + FREE][AT];
	*call = gm_insn_aim(code.form, *call, fake_at(&code, FAKE_DRIVER + FREE) + 8);
	check_refusal("free is in the middle of an instruction", GM_TAKEOVER_STRANGE_MALLOC);
}

static void test_driver_code(void)
{
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		reset_code(GM_CALL_SPLIT);
		code.f[FAKE_DRIVER + i][FAKE_SWITCHES].low ^= 1;
		check_refusal("one stays on its caller's stack", GM_TAKEOVER_STRANGE_MALLOC);
		reset_code(GM_CALL_SPLIT);
		code.f[FAKE_DRIVER + i][20].low = FAKE_RETURN;
		check_refusal("one does the work itself", GM_TAKEOVER_STRANGE_MALLOC);
	}
}

static void test_writes(void)
{
	for (int which = 1; which <= GM_TAKEOVER_FUNCTIONS; which++) {
		reset_code(GM_CALL_SPLIT);
		code.deaf = which;
		check_refusal("a store without effect", GM_TAKEOVER_NOT_WRITTEN);
	}
	reset_code(GM_CALL_SPLIT);
	refuses = true;
	check_refusal("a thread of the test gets NULL", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	damages = true;
	check_refusal("a thread reads something else", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	misaligns = true;
	check_refusal("aligned memory is not aligned", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	forgets_frees = true;
	check_refusal("frees do not arrive", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	refuses = true;
	code.deaf = GM_TAKEOVER_FUNCTIONS + 1;
	TAP_OK(!take() && report.end == GM_TAKEOVER_BROKEN, "a failed restore is reported");
}

/* The second set of malloc and free is redirected to the functions of the first takeover. */
static void test_second(void)
{
	static struct fake_code ours;
	static const struct gm_sim_image first = {GM_SIM_IMAGE, 0, NULL, 64, 0, NULL};
	struct gm_takeover_report before = {.form = GM_CALL_SPLIT};
	struct gm_takeover_config c = config();
	c.images.runtime = c.images.helper;
	c.images.helper = &first;
	c.first = &before;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		before.at[i] = fake_at(&ours, FAKE_DRIVER + i);
		before.to[i] = fake_at(&ours, FAKE_OURS + i);
	}
	reset_code(GM_CALL_SPLIT);
	code.ours = &ours;
	code.f[FAKE_CALLS_OURS][AT].low = FAKE_RETURN; /* this helper has no function of ours */
	TAP_OK(gm_takeover(&c, &report) && fake_is_ours(&code),
	       "the second set calls the functions of the first takeover");
	reset_code(GM_CALL_SPLIT);
	code.ours = &ours;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		code.f[FAKE_DRIVER + i][FAKE_SWITCHES].low ^= 1;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_STRANGE_MALLOC,
	       "a second set on its caller's stack that calls unknown functions is refused");
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		before.work[i] = fake_at(&code, FAKE_WORK + i);
	TAP_OK(gm_takeover(&c, &report) && fake_is_ours(&code),
	       "a second set on its caller's stack that calls the functions of the first");
	TAP_OK(memcmp(report.to, before.to, sizeof before.to) == 0 &&
		       report.at[MALLOC] == fake_at(&code, FAKE_DRIVER + MALLOC),
	       "the report of the second set says where its functions are");
	reset_code(GM_CALL_SPLIT);
	code.ours = &ours;
	code.deaf = 2;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NOT_WRITTEN &&
		       fake_is_native(&code),
	       "a store into the second set without effect is undone");
	c = config();
	reset_code(GM_CALL_SPLIT);
	TAP_OK(gm_takeover(&c, &before), "the first set is taken over without a second one");
	c.first = &before;
	c.images.runtime = c.images.helper;
	int stores = code.stores;
	TAP_OK(gm_takeover(&c, &report) && code.stores == stores && report.given > 0,
	       "a driver without a second set: nothing is written, and the test passes");
	c.images.runtime = NULL;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_HELPER,
	       "no helper for the second set");
}

/* With sites, calls lead to the functions that count them; the second set's to those without
 * addresses. */
static void test_sites(void)
{
	static struct fake_code ours;
	struct gm_takeover_report before;
	struct gm_takeover_config c = config();
	bool sited = true, second = true;
	c.sites = true;
	reset_code(GM_CALL_SPLIT);
	TAP_OK(gm_takeover(&c, &before) && before.sited, "the code is taken over with sites");
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		sited = sited && saved[i] == 0xfffdc8 &&
			fake_is_taken_by(&code, code.line[i], i, FAKE_SITED);
	TAP_OK(sited, "the functions that count are called, and know the return address");
	ours = code;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		before.at[i] = fake_at(&ours, FAKE_DRIVER + i);
		before.to[i] = fake_at(&ours, FAKE_SITED + i);
		before.second[i] = fake_at(&ours, FAKE_SECOND + i);
	}
	c.first = &before;
	c.images.runtime = c.images.helper;
	reset_code(GM_CALL_SPLIT);
	code.ours = &ours;
	TAP_OK(gm_takeover(&c, &report) && !report.sited, "the second set is taken over");
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		second = second && fake_is_taken_by(&code, code.line[i], i, FAKE_SECOND);
	TAP_OK(second, "the second set calls the functions without return addresses");
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		c = config();
		c.sites = true;
		reset_code(GM_CALL_SPLIT);
		code.f[FAKE_DRIVER + i][FAKE_SAVES].low ^= 1;
		TAP_OK(gm_takeover(&c, &report) && !report.sited &&
			       fake_is_taken_by(&code, code.line[MALLOC], MALLOC, FAKE_OURS),
		       "code with an unknown return address is taken over without sites");
	}
}

static void test_images(void)
{
	struct gm_takeover_config c = config();
	reset_code(GM_CALL_SPLIT);
	c.images.helper = NULL;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_HELPER,
	       "a takeover without a helper is refused");
	c.images.helper = "no image at all, and of some length";
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_LOAD &&
		       report.result == CUDA_ERROR_INVALID_IMAGE,
	       "a helper that the driver does not take is refused");
	c.images.helper = &empty;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_LOAD,
	       "a wrong helper is refused");
	TAP_OK(fake_is_native(&code), "the code is the driver's again");
}

/* --- every driver call fails once --- */

static const char *const calls[] = {
	"cuStreamCreate",	"cuModuleLoadData", "cuModuleGetFunction", "cuModuleGetGlobal_v2",
	"cuMemcpyDtoHAsync_v2", "cuLaunchKernel",   "cuStreamSynchronize",
};

enum { MOST_CALLS = 100 }; /* limit of calls of one function in a takeover */

static CUstreamCaptureMode mode_now(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	sim.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

/* Call number `nth` fails; true if there was such a call. */
static bool fail_once(const char *symbol, unsigned nth)
{
	start();
	reset_code(GM_CALL_SPLIT);
	gm_sim_fail(symbol, nth, CUDA_ERROR_LAUNCH_TIMEOUT);
	bool taken = take();
	gm_sim_fail(symbol, 0, CUDA_SUCCESS);
	if (taken)
		return false;
	TAP_OK(report.result == CUDA_ERROR_LAUNCH_TIMEOUT && report.step,
	       "%s fails, call %u, in %s", symbol, nth, report.step);
	TAP_OK(report.end == GM_TAKEOVER_BROKEN || fake_is_native(&code),
	       "the code is the driver's again: %s", gm_takeover_text(report.end));
	TAP_OK(report.end != GM_TAKEOVER_BROKEN, "the report knows that");
	TAP_IS(mode_now(), CU_STREAM_CAPTURE_MODE_GLOBAL, "the capture mode as well");
	TAP_OK(take() && fake_is_ours(&code), "the next takeover succeeds");
	return true;
}

static void test_faults(void)
{
	unsigned failures = 0;
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		unsigned nth = 1;
		while (nth < MOST_CALLS && fail_once(calls[i], nth))
			nth++;
		TAP_OK(nth > 1 && nth < MOST_CALLS, "%s is called, and then no more", calls[i]);
		failures += nth - 1;
	}
	TAP_OK(failures > 20, "%u failures of calls were met", failures);
}

int main(void)
{
	start();
	test_taken();
	test_costs();
	test_helper_code();
	test_driver_code();
	test_writes();
	test_second();
	test_sites();
	test_images();
	test_faults();
	return tap_done();
}
