/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points: one wrapper a symbol, made from exports.def, around the body sim_<symbol>. */
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "sim/internal.h"

#define ENTRIES (sizeof exports / sizeof *exports)

static CUresult export_enter(enum sim_symbol symbol);
static CUresult export_leave(enum sim_symbol symbol, CUresult result);
/* The arguments of a call follow. */
static void export_clear(int symbol, ...);
#define SIM_AND(...) , ##__VA_ARGS__

/* libcuda.so.1 (tests/sim) exports each entry point under its own name: an alias, so that
 * cuGetProcAddress and dlsym return one address. */
#ifdef SIM_EXPORT_SYMBOLS
#define SIM_ALIAS(symbol, params) \
	CUresult CUDAAPI symbol params __attribute__((alias("entry_" #symbol)));
#define SIM_LINKAGE
#else
#define SIM_ALIAS(symbol, params)
#define SIM_LINKAGE static
#endif

#define SIM_ENTRY(symbol, body, params, args)                                                   \
	SIM_LINKAGE CUresult CUDAAPI entry_##symbol params;                                     \
	SIM_LINKAGE CUresult CUDAAPI entry_##symbol params                                      \
	{                                                                                       \
		export_clear(SIM_##symbol SIM_AND args);                                        \
		CUresult result = export_enter(SIM_##symbol);                                   \
		return export_leave(SIM_##symbol, result == CUDA_SUCCESS ? body args : result); \
	}                                                                                       \
	SIM_ALIAS(symbol, params)
#define SIM_CALL(symbol, base, since, flags, params, args) \
	SIM_ENTRY(symbol, sim_##symbol, params, args)
#define SIM_BOTH(symbol, twin, base, since, twin_since, flags, params, args) \
	SIM_ENTRY(symbol, sim_##symbol, params, args)                        \
	SIM_ENTRY(twin, sim_##symbol, params, args)
#include "sim/exports.def"
#undef SIM_CALL
#undef SIM_BOTH

/* The compiler compares every entry point with cuda.h; entry points missing there, with
 * themselves. */
#if CUDA_VERSION >= 13000
#define SIM_NEWER(symbol) extern __typeof__(entry_##symbol) symbol;
#if CUDA_VERSION < 13010
SIM_NEWER(cuLaunchHostFunc_v2)
SIM_NEWER(cuLaunchHostFunc_v2_ptsz)
SIM_NEWER(cuMulticastBindAddr_v2)
#endif
#if CUDA_VERSION < 13020
SIM_NEWER(cuStreamBeginCaptureToCig)
SIM_NEWER(cuStreamBeginCaptureToCig_ptsz)
SIM_NEWER(cuStreamEndCaptureToCig)
SIM_NEWER(cuStreamEndCaptureToCig_ptsz)
SIM_NEWER(cuMemcpyWithAttributesAsync)
SIM_NEWER(cuMemcpyWithAttributesAsync_ptsz)
SIM_NEWER(cuMemcpy3DWithAttributesAsync)
SIM_NEWER(cuMemcpy3DWithAttributesAsync_ptsz)
#endif
#if CUDA_VERSION < 13030
SIM_NEWER(cuLogicalEndpointBindAddr)
SIM_NEWER(cuStreamBeginRecaptureToGraph)
SIM_NEWER(cuStreamBeginRecaptureToGraph_ptsz)
#endif
#if CUDA_VERSION < 13040
SIM_NEWER(cuGraphAddNode_v3)
SIM_NEWER(cuGraphNodeSetParams_v2)
SIM_NEWER(cuMemGetLocationInfo)
#endif
#define SIM_SAME(symbol)                                                                      \
	_Static_assert(                                                                       \
		__builtin_types_compatible_p(__typeof__(symbol), __typeof__(entry_##symbol)), \
		#symbol " is not as cuda.h has it");
#define SIM_CALL(symbol, base, since, flags, params, args) SIM_SAME(symbol)
#define SIM_BOTH(symbol, twin, base, since, twin_since, flags, params, args) \
	SIM_SAME(symbol) SIM_SAME(twin)
#include "sim/exports.def"
#undef SIM_CALL
#undef SIM_BOTH
#endif

static const struct gm_sim_export exports[] = {
#define SIM_CALL(symbol, base, since, flags, params, args) \
	{#symbol, #base, since, false, (void *)entry_##symbol},
#define SIM_BOTH(symbol, twin, base, since, twin_since, flags, params, args)               \
	SIM_CALL(symbol, base, since, flags, params, args){#twin, #base, twin_since, true, \
							   (void *)entry_##twin},
#include "sim/exports.def"
#undef SIM_CALL
#undef SIM_BOTH
};

static const unsigned char export_flags[] = {
#define SIM_CALL(symbol, base, since, flags, params, args) flags,
#define SIM_BOTH(symbol, twin, base, since, twin_since, flags, params, args) \
	flags, (flags) | SIM_PER_THREAD,
#include "sim/exports.def"
#undef SIM_CALL
#undef SIM_BOTH
};

struct rule {
	enum sim_symbol symbol;
	unsigned nth;
	CUresult result;
};

static struct {
	unsigned count[SIM_SYMBOLS];
	size_t need[SIM_SYMBOLS];
	GM_ARRAY(struct rule) rules;
} calls;

static void (*_Atomic before[ENTRIES])(void); /* gm_sim_before */

static bool export_find(const char *symbol, enum sim_symbol *out)
{
	for (size_t i = 0; symbol && i < ENTRIES; i++)
		if (strcmp(exports[i].symbol, symbol) == 0)
			return *out = (enum sim_symbol)i, true;
	return false;
}

/* --- entry and exit of a call --- */

/* libcuda.so.1 exports gm_lock_none_held. A preloaded debug build exports it, too, and so
 * interposes its own: its locks are then checked. */
__attribute__((unused)) static bool locks_allow(unsigned flags)
{
	bool waits = flags & SIM_WAITS || (flags & SIM_CTX_SYNC && sim.settings.version >= 12050);
	return gm_lock_none_held(waits ? GM_LOCK_RANK_CAPTURE : GM_LOCK_RANK_SHIM,
				 GM_LOCK_RANK_SIM);
}

/* The result of a rule of SIM_FAIL or gm_sim_fail, or success. */
static CUresult export_rule(enum sim_symbol symbol)
{
	for (size_t i = 0; i < calls.rules.n; i++) {
		struct rule rule = calls.rules.at[i];
		if (rule.symbol != symbol)
			continue;
		if (!rule.nth) /* SIM_FAIL: every call */
			return rule.result;
		if (--calls.rules.at[i].nth)
			continue;
		calls.rules.at[i] = calls.rules.at[--calls.rules.n];
		return rule.result;
	}
	return CUDA_SUCCESS;
}

/* SIM_YIELD: other threads run first, so that the caller loses every race. */
static void thread_yield(void)
{
	static atomic_int wanted = -1;
	int now = atomic_load_explicit(&wanted, memory_order_relaxed);
	if (now < 0) {
		now = getenv("SIM_YIELD") != NULL;
		atomic_store_explicit(&wanted, now, memory_order_relaxed);
	}
	if (now)
		sched_yield();
}

static void export_visit(enum sim_symbol symbol)
{
	if (!atomic_load_explicit(&before[symbol], memory_order_relaxed))
		return;
	void (*call)(void) = atomic_exchange(&before[symbol], NULL);
	if (call)
		call();
}

/* gm_sim_need, before the call. If the call succeeds, the context that is current afterwards keeps
 * the charge. */
static CUresult call_charge(enum sim_symbol symbol)
{
	const struct sim_context *ctx = sim_current();
	sim_me.charged_device = ctx ? ctx->device : 0;
	CUresult result = sim_charge(sim_me.charged_device, calls.need[symbol]);
	sim_me.charged = result == CUDA_SUCCESS ? calls.need[symbol] : 0;
	return result;
}

static void call_charge_done(CUresult result)
{
	struct sim_context *ctx = sim_current();
	if (result != CUDA_SUCCESS)
		sim_uncharge(sim_me.charged_device, sim_me.charged);
	else if (ctx && ctx->device == sim_me.charged_device)
		ctx->taken += sim_me.charged;
	sim_me.charged = 0;
}

/* The driver writes 0 to some outputs before any check (measured on driver 580). */
static void export_clear(int symbol, ...)
{
	const uint64_t zero = 0;
	unsigned flags = export_flags[symbol];
	va_list args;
	va_start(args, symbol);
	for (unsigned n = flags & SIM_CLEARS_BOTH ? 2 : !!(flags & SIM_CLEARS); n; n--) {
		void *out = va_arg(args, void *);
		if (out)
			memcpy(out, &zero, sizeof zero);
	}
	va_end(args);
}

static CUresult export_enter(enum sim_symbol symbol)
{
	unsigned flags = export_flags[symbol];
	thread_yield();
	export_visit(symbol);
	sim_lock_driver();
	sim_set_up();
	GM_ASSERT(locks_allow(flags) && "no lock is held across a driver call");
	sim_me.per_thread = flags & SIM_PER_THREAD;
	__atomic_fetch_add(&calls.count[symbol], 1, __ATOMIC_RELAXED);
	CUresult result = export_rule(symbol);
	if (result != CUDA_SUCCESS)
		return result;
	if (exports[symbol].since > sim.settings.version) {
		gm_msg(GM_MSG_WARN, "sim: %s is newer than SIM_DRIVER", exports[symbol].symbol);
		return CUDA_ERROR_NOT_FOUND;
	}
	if (!(flags & SIM_EARLY) && !sim.ready)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim_me.hosting && !(flags & (SIM_EARLY | SIM_HOSTED)))
		return CUDA_ERROR_NOT_PERMITTED;
	result = flags & SIM_CTX && !sim_me.hosting ? sim_check_current() : CUDA_SUCCESS;
	return result == CUDA_SUCCESS && calls.need[symbol] ? call_charge(symbol) : result;
}

static CUresult export_leave(enum sim_symbol symbol, CUresult result)
{
	if (sim_me.charged)
		call_charge_done(result);
	if (sim.settings.trace >= 0) {
		char line[96];
		int n = snprintf(line, sizeof line, "%s %d\n", exports[symbol].symbol, (int)result);
		ssize_t ignored = write(sim.settings.trace, line, (size_t)n);
		(void)ignored;
	}
	sim_unlock_driver();
	return result;
}

/* --- functions for tests and loaders --- */

void *gm_sim_symbol(void *arg, const char *symbol)
{
	enum sim_symbol found;
	(void)arg;
	sim_lock_driver();
	sim_set_up();
	int version = sim.settings.version;
	sim_unlock_driver();
	return export_find(symbol, &found) && exports[found].since <= version ? exports[found].entry
									      : NULL;
}

const struct gm_sim_export *gm_sim_exports(size_t *count)
{
	*count = ENTRIES;
	return exports;
}

void gm_sim_fail(const char *symbol, unsigned nth, CUresult result)
{
	enum sim_symbol found;
	if (!export_find(symbol, &found)) {
		gm_msg(GM_MSG_WARN, "sim: no symbol '%s' to fail", symbol);
		return;
	}
	sim_lock_driver();
	for (size_t i = calls.rules.n; i-- > 0;)
		if (calls.rules.at[i].symbol == found && !nth)
			calls.rules.at[i] = calls.rules.at[--calls.rules.n];
	if (nth)
		(void)gm_array_push(&calls.rules, (struct rule){found, nth, result});
	sim_unlock_driver();
}

unsigned gm_sim_calls(const char *symbol)
{
	enum sim_symbol found;
	return export_find(symbol, &found) ? __atomic_load_n(&calls.count[found], __ATOMIC_RELAXED)
					   : 0;
}

void gm_sim_before(const char *symbol, void (*call)(void))
{
	enum sim_symbol found;
	if (export_find(symbol, &found))
		atomic_store(&before[found], call);
	else
		gm_msg(GM_MSG_WARN, "sim: no symbol '%s' to visit", symbol);
}

void gm_sim_need(const char *symbol, size_t bytes)
{
	enum sim_symbol found;
	if (!export_find(symbol, &found)) {
		gm_msg(GM_MSG_WARN, "sim: no symbol '%s' to need memory", symbol);
		return;
	}
	sim_lock_driver();
	calls.need[found] = bytes;
	sim_unlock_driver();
}

void sim_calls_reset(void)
{
	memset(calls.count, 0, sizeof calls.count);
	memset(calls.need, 0, sizeof calls.need);
	calls.rules.n = 0;
	for (unsigned i = 0; i < ENTRIES; i++)
		atomic_store(&before[i], NULL);
}

void sim_fail_locked(const char *symbol, unsigned nth, CUresult result)
{
	enum sim_symbol found;
	if (export_find(symbol, &found))
		(void)gm_array_push(&calls.rules, (struct rule){found, nth, result});
	else
		gm_msg(GM_MSG_WARN, "sim: SIM_FAIL names no symbol of the driver: '%s'", symbol);
}

/* --- cuGetProcAddress --- */

/* Find the newest ABI of `name` that is not newer than `version`. */
static CUdriverProcAddressQueryResult export_query(const char *name, int version, bool per_thread,
						   const struct gm_sim_export **best)
{
	bool known = false;
	*best = NULL;
	for (size_t i = 0; i < ENTRIES; i++) {
		const struct gm_sim_export *e = &exports[i];
		if (strcmp(e->base, name) != 0 || (e->per_thread_stream && !per_thread) ||
		    e->since > sim.settings.version)
			continue;
		known = true;
		if (e->since > version)
			continue;
		/* a variant follows its plain row, so it wins at equal age */
		if (!*best || e->since >= (*best)->since)
			*best = e;
	}
	return *best   ? CU_GET_PROC_ADDRESS_SUCCESS
	       : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
		       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

/* --- functions that no list has, as a later driver's --- */

static CUresult CUDAAPI sim_hidden(void)
{
	return CUDA_SUCCESS;
}

#ifdef SIM_EXPORT_SYMBOLS
CUresult CUDAAPI cuSimBeyond(void);
CUresult CUDAAPI cuSimBeyond(void)
{
	return CUDA_SUCCESS;
}
#endif

/* cuSimHidden: of the driver, but no export. */
static void *unlisted_find(const char *symbol)
{
#ifdef SIM_EXPORT_SYMBOLS
	if (strcmp(symbol, "cuSimBeyond") == 0)
		return (void *)cuSimBeyond;
#endif
	return strcmp(symbol, "cuSimHidden") == 0 ? (void *)sim_hidden : NULL;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
				 CUdriverProcAddressQueryResult *status)
{
	const struct gm_sim_export *best;
	if (!symbol || !out || version > sim.settings.version || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	CUdriverProcAddressQueryResult found = export_query(symbol, version, per_thread, &best);
	*out = best ? best->entry : unlisted_find(symbol);
	if (status)
		*status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : found;
	return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
	CUresult result = sim_cuGetProcAddress_v2(symbol, out, version, flags, NULL);
	return result == CUDA_SUCCESS && !*out ? CUDA_ERROR_NOT_FOUND : result;
}
