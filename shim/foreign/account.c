/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/foreign/account.h"

#include "log/count.h"
#include "shim/memory/limit.h"

/* The first of each kind's six counters: calls, bytes, frees, freed, live bytes, peak. */
static const struct {
	enum gm_counter calls;
	bool counted;
	bool on_device; /* for its whole life: part of the counter `foreign` */
} kinds[GM_FOREIGN_KINDS] = {
	[GM_FOREIGN_DRIVER] = {GM_C_foreign_driver_calls, true, true},
	[GM_FOREIGN_ASYNC] = {GM_C_foreign_async_calls, true, true},
	[GM_FOREIGN_CREATED] = {GM_C_foreign_created_calls, true, true},
	[GM_FOREIGN_ARRAY] = {GM_C_foreign_array_calls, true, true},
	[GM_FOREIGN_MANAGED] = {GM_C_foreign_managed_calls, true, false},
	[GM_FOREIGN_GRAPH] = {GM_C_foreign_graph_calls, true, false},
	[GM_FOREIGN_EXTERNAL] = {GM_C_foreign_external_calls, true, false},
	[GM_FOREIGN_HOST] = {GM_C_foreign_host_calls, true, false},
	[GM_FOREIGN_REGISTERED] = {GM_C_foreign_registered_calls, true, false},
	[GM_FOREIGN_CREATED_HOST] = {GM_C_foreign_created_host_calls, true, false},
};
enum { CALLS, BYTES, FREES, FREED, ALIVE, HIGHEST };
_Static_assert(GM_C_foreign_async_calls + BYTES == GM_C_foreign_async_bytes &&
		       GM_C_foreign_async_calls + FREES == GM_C_foreign_async_frees &&
		       GM_C_foreign_async_calls + FREED == GM_C_foreign_async_freed &&
		       GM_C_foreign_async_calls + ALIVE == GM_C_foreign_async &&
		       GM_C_foreign_async_calls + HIGHEST == GM_C_foreign_async_peak,
	       "rows of counters.def");

static void account_add(enum gm_foreign_kind kind, unsigned ordinal, unsigned counter, uint64_t n)
{
	if (kinds[kind].counted)
		gm_counter_add(ordinal, kinds[kind].calls + counter, n);
}

/* The peak is exact: gm_counter_change returns the gauge as this change left it. */
static void account_rise(unsigned ordinal, enum gm_counter gauge, enum gm_counter peak, size_t size)
{
	gm_counter_raise(ordinal, peak, gm_counter_change(ordinal, gauge, size));
}

void gm_account_back(enum gm_foreign_kind kind, unsigned ordinal, size_t size)
{
	enum gm_counter first = kinds[kind].calls;
	if (kinds[kind].counted)
		account_rise(ordinal, first + ALIVE, first + HIGHEST, size);
	if (kinds[kind].on_device)
		account_rise(ordinal, GM_C_foreign, GM_C_foreign_peak, size);
}

void gm_account_given(enum gm_foreign_kind kind, unsigned ordinal, size_t size)
{
	account_add(kind, ordinal, CALLS, 1);
	account_add(kind, ordinal, BYTES, size);
	gm_limit_taken(kind, ordinal, size);
	gm_account_back(kind, ordinal, size);
}

void gm_account_out(enum gm_foreign_kind kind, unsigned ordinal, size_t size)
{
	account_add(kind, ordinal, ALIVE, -(uint64_t)size);
	if (kinds[kind].on_device)
		gm_counter_add(ordinal, GM_C_foreign, -(uint64_t)size);
}

void gm_account_freed(enum gm_foreign_kind kind, unsigned ordinal, size_t size)
{
	account_add(kind, ordinal, FREES, 1);
	account_add(kind, ordinal, FREED, size);
	gm_limit_given(kind, ordinal, size);
}
