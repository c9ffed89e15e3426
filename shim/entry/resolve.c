/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look-up of the program returned an address of the driver; the answer to the program is our
 * entry, or that address. Names, versions and flags of a request are never interpreted: the address
 * decides, by the table of the driver's own exports. So a new ABI of a hooked call is not mistaken
 * for the known one.
 */
#include "shim/entry/resolve.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/lock.h"
#include "base/msg.h"
#include "knob/knob.h"
#include "shim/call.h"
#include "shim/entry/glibc_late.h"
#include "shim/entry/object.h"
#include "shim/entry/unknown.h"

/* This driver is too old for the symbol. Only a program linked with the symbol can call it. */
static CUresult not_in_driver(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* Exports of the driver, by address. */
struct export
{
	void *address;
	const char *symbol;
	enum gm_hook_id hook;
	atomic_bool asked, said; /* for the report of calls that are not hooked */
};

static struct export exports[2048]; /* driver 580 has some 700 */
static size_t n_exports;
static struct gm_object driver;
atomic_bool gm_resolve_done;
static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_SHIM);

bool gm_resolve_on(void)
{
	static atomic_int known; /* 1: on, 2: off */
	int state = atomic_load_explicit(&known, memory_order_relaxed);
	if (!state) {
		union gm_knob_value enable = {.flag = true};
		char why[64];
		const char *text = secure_getenv("GPUMEM_ENABLE");
		if (text) /* a bad value is reported by cuInit */
			gm_knob_parse(GM_KNOB_ID_enable, text, &enable, why, sizeof why);
		state = enable.flag && !getauxval(AT_SECURE) ? 1 : 2;
		atomic_store_explicit(&known, state, memory_order_relaxed);
	}
	return state == 1;
}

enum gm_hook_id gm_resolve_hook(const char *symbol)
{
	size_t low = GM_HOOK_NONE + 1, high = GM_HOOK_END;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(symbol, gm_hooks[middle].symbol);
		if (order == 0)
			return (enum gm_hook_id)middle;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return GM_HOOK_NONE;
}

static void export_add(void *unused, const char *symbol, void *address)
{
	(void)unused;
	if (strncmp(symbol, "cu", 2) != 0 || n_exports == sizeof exports / sizeof *exports)
		return;
	exports[n_exports++] = (struct export){
		.address = address,
		.symbol = symbol,
		.hook = gm_resolve_hook(symbol),
	};
}

/* Shell sort: qsort may allocate. */
static void exports_sort(void)
{
	for (size_t gap = n_exports / 2; gap; gap /= 2)
		for (size_t i = gap; i < n_exports; i++) {
			struct export moving = exports[i];
			size_t at = i;
			for (; at >= gap && exports[at - gap].address > moving.address; at -= gap)
				exports[at] = exports[at - gap];
			exports[at] = moving;
		}
}

/* Calls with the same address cannot be told apart: they are hooked only if all are hooked. */
static void exports_unhook_shared(void)
{
	for (size_t first = 0, end; first < n_exports; first = end) {
		bool all = true;
		for (end = first; end < n_exports && exports[end].address == exports[first].address;
		     end++)
			all = all && exports[end].hook;
		for (size_t i = first; i < end && !all; i++)
			exports[i].hook = GM_HOOK_NONE;
	}
}

static void driver_read(const struct gm_object *found)
{
	gm_lock_take(&lock);
	bool first = !atomic_load_explicit(&gm_resolve_done, memory_order_relaxed);
	if (first) {
		driver = *found;
		gm_object_each(&driver, export_add, NULL);
		exports_sort();
		for (size_t i = GM_HOOK_NONE + 1; i < GM_HOOK_END; i++) {
			void *own = gm_object_symbol(&driver, gm_hooks[i].symbol);
			*gm_hooks[i].original = own ? own : (void *)not_in_driver;
		}
		exports_unhook_shared();
		atomic_store_explicit(&gm_resolve_done, true, memory_order_release);
	}
	gm_lock_release(&lock);
	/* Keep the driver loaded when the program closes it, for we keep its addresses. Outside of
	 * the lock: a constructor that looks up a symbol here holds the dynamic linker's lock. */
	if (first && !gm_glibc_late_missing() &&
	    !dlopen(driver.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		dlerror();
}

bool gm_resolve_ready(void)
{
	struct gm_object found;
	if (atomic_load_explicit(&gm_resolve_done, memory_order_acquire))
		return true;
	if (!gm_object_driver(&found))
		return false;
	driver_read(&found);
	return true;
}

void *gm_resolve_symbol(void *unused, const char *symbol)
{
	(void)unused;
	return gm_resolve_ready() ? gm_object_symbol(&driver, symbol) : NULL;
}

static struct export *export_find(const void *address)
{
	size_t low = 0, high = n_exports;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (exports[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n_exports && exports[low].address == address ? &exports[low] : NULL;
}

/* False: no driver was found yet, and `address` is not in the first libcuda. Only the first becomes
 * the driver: a libcuda that loads another one (WSL) is first, and must not find us between the
 * two. */
static bool driver_find_of(const void *address)
{
	struct gm_object asked, found;
	if (atomic_load_explicit(&gm_resolve_done, memory_order_acquire))
		return true;
	if (!gm_object_at(address, &asked) || !gm_object_is_driver(&asked) ||
	    !gm_object_driver(&found) || found.base != asked.base)
		return false;
	driver_read(&found);
	return true;
}

static bool is_of_driver(const void *address)
{
	struct gm_object found;
	return gm_object_at(address, &found) && found.base == driver.base;
}

static void export_report(struct export *export)
{
	if (!atomic_exchange(&export->said, true))
		gm_msg(GM_MSG_DEBUG, "not hooked: %s%s", export->symbol,
		       gm_resolve_hook(export->symbol)
			       ? ", which shares its address with another call"
			       : "");
}

void *gm_resolve_replace(const char *symbol, void *address)
{
	if (!gm_resolve_on() || !driver_find_of(address))
		return address;
	struct export *export = export_find(address);
	if (!export) {
		if (is_of_driver(address)) /* a form of the call that is no export */
			gm_unknown_add(symbol, true);
		return address;
	}
	if (export->hook)
		return gm_hooks[export->hook].handler;
	atomic_store_explicit(&export->asked, true, memory_order_relaxed);
	if (gm_shim_active())
		export_report(export);
	return address;
}

bool gm_resolve_exports(const char *symbol)
{
	return atomic_load_explicit(&gm_resolve_done, memory_order_acquire) &&
	       gm_object_symbol(&driver, symbol);
}

static bool export_is_known(const struct export *export, bool (*known)(const char *symbol))
{
	const struct export *e = export;
	while (e > exports && e[-1].address == export->address)
		e--;
	for (; e < exports + n_exports && e->address == export->address; e++)
		if (known(e->symbol))
			return true;
	return false;
}

const char *gm_resolve_find_asked(bool (*known)(const char *symbol))
{
	for (size_t i = 0; i < n_exports; i++)
		if (atomic_load_explicit(&exports[i].asked, memory_order_relaxed) &&
		    !export_is_known(&exports[i], known))
			return exports[i].symbol;
	return NULL;
}

void gm_resolve_report(void)
{
	for (size_t i = 0; i < n_exports; i++)
		if (atomic_load_explicit(&exports[i].asked, memory_order_relaxed))
			export_report(&exports[i]);
}

CUresult on_cuGetProcAddress(const char *symbol, void **entry, int version, cuuint64_t flags)
{
	CUresult result = real.cuGetProcAddress(symbol, entry, version, flags);
	if (result == CUDA_SUCCESS && entry && *entry)
		*entry = gm_resolve_replace(symbol, *entry);
	return result;
}

CUresult on_cuGetProcAddress_v2(const char *symbol, void **entry, int version, cuuint64_t flags,
				CUdriverProcAddressQueryResult *status)
{
	CUresult result = real.cuGetProcAddress_v2(symbol, entry, version, flags, status);
	if (result == CUDA_SUCCESS && entry && *entry &&
	    (!status || *status == CU_GET_PROC_ADDRESS_SUCCESS))
		*entry = gm_resolve_replace(symbol, *entry);
	return result;
}
