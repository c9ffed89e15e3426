/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The takeover of a context, on the simulated driver, with a helper of our own: its kernels read
 * and write code that lies in memory of the test, and multiprocessors hold lines of it until
 * another module was launched. Then every call of the driver fails once, in every place: what was
 * changed is put back, and the next takeover succeeds.
 */
#include "takeover/decode.h"
#include "takeover/helper.h"
#include "takeover/takeover.h"

#include "tests/unit/on_sim.h"

#define BLOCKS 6
#define CALL 0x7943u
#define RETURN 0x7950u

/*
 * Code of a context: functions of the driver and of the helper, 1 KiB each. The driver's malloc and
 * free (of which the words that count here are driver 580's) switch to a stack of their own and
 * call what does the work.
 */
enum function {
	MALLOC,
	FREE,
	WORK_MALLOC,
	WORK_FREE,
	OUR_MALLOC,
	OUR_FREE,
	CALLS_OURS,
	CALLS_MALLOC,
	CALLS_FREE,
	FUNCTIONS
};
enum { SWITCH = 19, WORK = 26, RETURNS = 51 };
static _Alignas(1024) struct gm_insn code[FUNCTIONS][GM_HELPER_CODE], line[2];
static struct gm_insn original[2];

static struct gm_helper_answer *answer; /* the helper's variable */
static enum gm_call_form form;
static int deaf; /* the store that has no effect: 1 the first, ...; 0: none */
static int stores;
static bool forgets_frees, refuses, damages;
static uint64_t strangers;
static bool ready; /* the driver has made the context ready before anything was written */

static uint64_t at(enum function f)
{
	return (uintptr_t)code[f];
}

static void reset_code(enum gm_call_form as)
{
	static const enum function target[] = {OUR_MALLOC, MALLOC, FREE};
	memset(code, 0, sizeof code);
	form = as;
	deaf = stores = 0;
	strangers = 0;
	ready = false;
	forgets_frees = refuses = damages = false;
	for (unsigned i = 0; i < 3; i++) {
		struct gm_insn *f = code[CALLS_OURS + i];
		f[0] = (struct gm_insn){0x147802, 0};
		f[5] = gm_insn_aim(as, (struct gm_insn){CALL, 0x000fea0003c00000}, at(target[i]));
		f[9] = (struct gm_insn){RETURN, 0};
	}
	for (unsigned i = 0; i < 2; i++) {
		struct gm_insn *f = code[MALLOC + i];
		f[0] = (struct gm_insn){0xfffdc401ff007387, 0x0009e20000100800};
		f[SWITCH] = (struct gm_insn){0x00fffdc000017802, 0x000fe20000000f00};
		f[WORK] = gm_insn_aim(as, (struct gm_insn){CALL, 0x002fea0003c00000},
				      at(WORK_MALLOC + i));
		f[RETURNS] = (struct gm_insn){RETURN, 0};
		line[i] = original[i] = f[WORK];
	}
}

static bool is_native(void)
{
	return gm_insn_same(code[MALLOC][WORK], original[0]) &&
	       gm_insn_same(line[0], original[0]) && gm_insn_same(code[FREE][WORK], original[1]) &&
	       gm_insn_same(line[1], original[1]);
}

static bool calls_it(struct gm_insn insn, enum function to)
{
	return (insn.low & 0xffff) == CALL && gm_insn_target(form, insn) == at(to);
}

static bool is_ours(void)
{
	return calls_it(code[MALLOC][WORK], OUR_MALLOC) && calls_it(line[0], OUR_MALLOC) &&
	       calls_it(code[FREE][WORK], OUR_FREE) && calls_it(line[1], OUR_FREE);
}

/* --- the helper's kernels --- */

static void run_addresses(void **args)
{
	static const enum function told[GM_HELPER_FUNCTIONS] = {
		[GM_HELPER_MALLOC] = OUR_MALLOC,     [GM_HELPER_FREE] = OUR_FREE,
		[GM_HELPER_CALLS_OURS] = CALLS_OURS, [GM_HELPER_CALLS_MALLOC] = CALLS_MALLOC,
		[GM_HELPER_CALLS_FREE] = CALLS_FREE,
	};
	if (*(bool *)args[0])
		abort();
	for (unsigned i = 0; i < GM_HELPER_FUNCTIONS; i++)
		answer->address[i] = at(told[i]);
}

static void run_read(void **args)
{
	uint64_t from = *(uint64_t *)args[0];
	unsigned n = *(unsigned *)args[1];
	if (from < at(0) || from + n * sizeof(struct gm_insn) > at(FUNCTIONS) || n > GM_HELPER_CODE)
		abort();
	memcpy(answer->code, (void *)(uintptr_t)from, n * sizeof(struct gm_insn));
}

/* Memory of ours must never get to the driver's free. */
static void run_write(void **args)
{
	uint64_t to = *(uint64_t *)args[0];
	if (to != (uintptr_t)&code[MALLOC][WORK] && to != (uintptr_t)&code[FREE][WORK])
		abort();
	if (++stores != deaf)
		*(struct gm_insn *)(uintptr_t)to =
			(struct gm_insn){*(uint64_t *)args[1], *(uint64_t *)args[2]};
	if (calls_it(code[MALLOC][WORK], OUR_MALLOC) && !calls_it(code[FREE][WORK], OUR_FREE))
		abort();
}

static void run_nothing(void **args)
{
	(void)args;
}

static void run_test(void **args)
{
	unsigned part = *(unsigned *)args[0];
	uint64_t threads =
		part == GM_HELPER_MALLOCS ? BLOCKS : (uint64_t)BLOCKS * GM_HELPER_THREADS;
	bool all = part == GM_HELPER_ALL;
	if (part == GM_HELPER_NOTHING)
		ready = is_native();
	if (part == GM_HELPER_STRANGERS)
		strangers += calls_it(line[1], OUR_FREE) && !forgets_frees ? BLOCKS : 0;
	if (part == GM_HELPER_NOTHING || part == GM_HELPER_STRANGERS)
		return;
	*(!calls_it(line[0], OUR_MALLOC) ? &answer->elsewhere : &answer->given) += threads - 2;
	*(refuses ? &answer->refused : &answer->given) += 1;
	*(damages && all ? &answer->damaged : &answer->given) += 1;
}

static void run_seen(void **args)
{
	if (*(uint64_t *)args[0] != BLOCKS)
		abort();
	answer->strangers = strangers;
}

static void run_empty(void **args)
{
	(void)args;
	line[0] = code[MALLOC][WORK];
	line[1] = code[FREE][WORK];
}

static const struct gm_sim_kernel helper_kernels[] = {
	{"gm_helper_addresses", run_addresses, {1}, 0}, {"gm_helper_read", run_read, {8, 4}, 0},
	{"gm_helper_write", run_write, {8, 8, 8}, 0},	{"gm_helper_use", run_nothing, {8}, 0},
	{"gm_helper_test", run_test, {4}, 0},		{"gm_helper_seen", run_seen, {8}, 0},
};
static const struct gm_sim_kernel empty_kernels[] = {{"gm_empty", run_empty, {0}, 0}};
static const struct gm_sim_global helper_globals[] = {
	{"gm_helper_answer", sizeof(struct gm_helper_answer)}};
static const struct gm_sim_image helper = {GM_SIM_IMAGE, 6, helper_kernels,
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
	for (form = GM_CALL_WHOLE; form <= GM_CALL_SPLIT; form++) {
		reset_code(form);
		launches = launched = launched_well = 0;
		TAP_OK(take() && report.end == GM_TAKEOVER_TAKEN, "taken over, form %d", form);
		TAP_OK(is_ours(), "malloc and free call ours, in every line");
		TAP_OK(ready, "the driver was ready before anything was written");
		TAP_OK(report.at[0] == at(MALLOC) && report.at[1] == at(FREE) &&
			       report.to[0] == at(OUR_MALLOC) && report.to[1] == at(OUR_FREE) &&
			       report.form == form,
		       "the report says where they are");
		TAP_IS(report.given, BLOCKS * (1 + GM_HELPER_THREADS), "all threads of the test");
		TAP_OK(launches == 4 && launched == 4 && launched_well == 4,
		       "the heap was told of each launch of the test");
		TAP_OK(!take() && report.end == GM_TAKEOVER_STRANGE_MALLOC && is_ours(),
		       "what is ours is not taken over again");
	}
}

static void check_refusal(const char *what, enum gm_takeover_end end)
{
	bool taken = take();
	TAP_OK(!taken && report.end == end && report.step, "%s: %s", what,
	       gm_takeover_text(report.end));
	TAP_OK(is_native(), "%s: all is as before", what);
}

static void test_code(void)
{
	reset_code(GM_CALL_SPLIT);
	code[CALLS_OURS][5].low ^= UINT64_C(1) << 40;
	check_refusal("a call that says another target", GM_TAKEOVER_UNKNOWN_CODE);
	reset_code(GM_CALL_SPLIT);
	code[CALLS_MALLOC][5].low = 0x7950;
	check_refusal("no call of malloc", GM_TAKEOVER_UNKNOWN_CODE);
	reset_code(GM_CALL_SPLIT);
	code[CALLS_FREE][5] = code[CALLS_MALLOC][5];
	check_refusal("malloc and free are one", GM_TAKEOVER_STRANGE_MALLOC);
	reset_code(GM_CALL_SPLIT);
	code[CALLS_FREE][5] = gm_insn_aim(form, code[CALLS_FREE][5], at(OUR_MALLOC));
	check_refusal("free is a function of ours", GM_TAKEOVER_STRANGE_MALLOC);
	reset_code(GM_CALL_SPLIT);
	code[CALLS_FREE][5] = gm_insn_aim(form, code[CALLS_FREE][5], at(FREE) + 8);
	check_refusal("free is in the middle of an instruction", GM_TAKEOVER_STRANGE_MALLOC);
	reset_code(GM_CALL_SPLIT);
	code[FREE][SWITCH].low ^= 1;
	check_refusal("free stays on its caller's stack", GM_TAKEOVER_STRANGE_MALLOC);
	reset_code(GM_CALL_SPLIT);
	code[MALLOC][20] = code[MALLOC][RETURNS];
	check_refusal("malloc does the work itself", GM_TAKEOVER_STRANGE_MALLOC);
}

static void test_writes(void)
{
	for (int which = 1; which <= 2; which++) {
		reset_code(GM_CALL_SPLIT);
		deaf = which;
		check_refusal("a store without effect", GM_TAKEOVER_NOT_WRITTEN);
	}
	reset_code(GM_CALL_SPLIT);
	refuses = true;
	check_refusal("a thread of the test gets NULL", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	damages = true;
	check_refusal("a thread reads something else", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	forgets_frees = true;
	check_refusal("frees do not arrive", GM_TAKEOVER_TEST_FAILED);
	reset_code(GM_CALL_SPLIT);
	refuses = true;
	deaf = 3;
	TAP_OK(!take() && report.end == GM_TAKEOVER_BROKEN, "what cannot be put back is said");
}

static void test_images(void)
{
	struct gm_takeover_config c = config();
	reset_code(GM_CALL_SPLIT);
	c.images.helper = NULL;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_HELPER, "no helper");
	c.images.helper = "no image at all, and of some length";
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_LOAD &&
		       report.result == CUDA_ERROR_INVALID_IMAGE,
	       "a helper that the driver does not take");
	c.images.helper = &empty;
	TAP_OK(!gm_takeover(&c, &report) && report.end == GM_TAKEOVER_NO_LOAD, "a wrong one");
	TAP_OK(is_native(), "all is as before");
}

/* --- every call of the driver fails once --- */

static const char *const calls[] = {
	"cuStreamCreate",	"cuModuleLoadData", "cuModuleGetFunction", "cuModuleGetGlobal_v2",
	"cuMemcpyDtoHAsync_v2", "cuLaunchKernel",   "cuStreamSynchronize",
};

enum { MOST_CALLS = 100 }; /* of one function in a takeover */

static CUstreamCaptureMode mode_now(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	sim.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

/* The one that fails at `nth`: true if there was one. */
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
	TAP_OK(report.end == GM_TAKEOVER_BROKEN || is_native(), "all is as before: %s",
	       gm_takeover_text(report.end));
	TAP_OK(report.end != GM_TAKEOVER_BROKEN, "and that is known");
	TAP_IS(mode_now(), CU_STREAM_CAPTURE_MODE_GLOBAL, "the capture mode as well");
	TAP_OK(take() && is_ours(), "the next takeover succeeds");
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
	TAP_OK(failures > 50, "%u failures", failures);
}

int main(void)
{
	start();
	test_taken();
	test_code();
	test_writes();
	test_images();
	test_faults();
	return tap_done();
}
