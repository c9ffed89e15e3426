/* SPDX-License-Identifier: BSD-3-Clause */
/* dlsym for names like cu[A-Z]*, which the stub of entry-*.S passes to gm_dlsym. */
#include <dlfcn.h>
#include <stddef.h>

#include "base/debug.h"
#include "shim/entry/glibc_late.h"
#include "shim/entry/object.h"
#include "shim/entry/resolve.h"
#include "shim/entry/unknown.h"

typedef void *dlsym_fn(void *handle, const char *name);

struct answer {
	void *address;
	unsigned long decided; /* 0: the stub passes the request on to the real dlsym */
};

dlsym_fn *gm_dlsym_find(void);
struct answer gm_dlsym(void *handle, const char *name, const void *caller);
extern _Atomic(dlsym_fn *) gm_dlsym_real;

_Atomic(dlsym_fn *) gm_dlsym_real;

static void *dlsym_none(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

GM_EARLY static bool has_dlvsym(void)
{
#ifdef GM_GLIBC_LATE
	return gm_glibc_late_dlvsym;
#else
	return true;
#endif
}

/* For a process that had no libdl when we were loaded. */
static dlsym_fn *dlsym_find_behind_us(void)
{
	struct gm_object object;
	bool found = gm_object_behind(&gm_dlsym_real, "dlsym", &object);
	return found ? (dlsym_fn *)gm_object_symbol(&object, "dlsym") : NULL;
}

/* First libc's dlsym, by version: the oldest first, which every glibc has, so that no failed
 * look-up sets dlerror. Then, by this dlsym, the next one: another preload's or libc's. */
GM_EARLY static dlsym_fn *dlsym_find_next(void)
{
#ifdef __aarch64__
	static const char *const versions[] = {"GLIBC_2.17", "GLIBC_2.34"};
#else
	static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.34"};
#endif
	dlsym_fn *libc = NULL, *next = NULL;
	for (size_t i = 0; i < sizeof versions / sizeof *versions && !libc; i++)
		libc = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (libc)
		next = (dlsym_fn *)libc(RTLD_NEXT, "dlsym");
	return next ? next : libc;
}

/* The next dlsym behind ours. A sanitizer's runtime calls this before its own set-up. */
GM_EARLY dlsym_fn *gm_dlsym_find(void)
{
	dlsym_fn *next = has_dlvsym() ? dlsym_find_next() : dlsym_find_behind_us();
	if (next)
		atomic_store_explicit(&gm_dlsym_real, next, memory_order_release);
	return next ? next : dlsym_none; /* for now: libdl may be loaded later */
}

static dlsym_fn *real_dlsym(void)
{
	dlsym_fn *found = atomic_load_explicit(&gm_dlsym_real, memory_order_acquire);
	return found ? found : gm_dlsym_find();
}

static struct answer answer_decided(void *address)
{
	return (struct answer){address, true};
}

static const struct answer answer_undecided = {NULL, false};

static bool object_is_ours(const struct gm_object *object)
{
	extern const char __ehdr_start[] __attribute__((visibility("hidden")));
	return object->base == (uintptr_t)__ehdr_start;
}

/*
 * The look-up found our own export, but the program wants the driver's. Programs probe for CUDA
 * this way, so while no libcuda is mapped the answer is from the objects behind us, which also sets
 * the right dlerror.
 */
static struct answer answer_for_own(const char *name)
{
	struct gm_object driver;
	void *address = NULL;
	if (gm_object_driver(&driver))
		address = gm_object_symbol(&driver, name);
	return answer_decided(address ? gm_resolve_replace(name, address)
				      : real_dlsym()(RTLD_NEXT, name));
}

/*
 * RTLD_NEXT from a library behind the driver in the link map finds the driver among the library's
 * own dependencies, placed there by dlopen. Only the native call knows their order, so its answer
 * counts only if it is the driver's.
 */
static struct answer answer_next_in_dependencies(const char *name, const void *caller)
{
	struct gm_object provider;
	struct answer answer = answer_undecided;
	Dl_info info;
	void *group = NULL;
	if (gm_glibc_late_missing())
		return answer_undecided;
	if (dladdr(caller, &info))
		group = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (group) {
		void *address = real_dlsym()(group, name);
		if (address && gm_object_at(address, &provider) && gm_object_is_driver(&provider))
			answer = answer_decided(gm_resolve_replace(name, address));
		dlclose(group);
	}
	dlerror();
	return answer;
}

/* RTLD_NEXT: the first definition behind the caller in the link map. */
static struct answer answer_next(const char *name, const void *caller)
{
	struct gm_object provider;
	if (!gm_object_behind(caller, name, &provider))
		return answer_next_in_dependencies(name, caller);
	if (object_is_ours(&provider))
		return answer_for_own(name);
	if (gm_object_is_driver(&provider))
		return answer_decided(gm_resolve_replace(name, gm_object_symbol(&provider, name)));
	return answer_undecided;
}

struct answer gm_dlsym(void *handle, const char *name, const void *caller)
{
	struct gm_object object;
	if (!gm_resolve_hook(name)) {
		gm_unknown_add(name, false);
		return answer_undecided;
	}
	/* Look-ups by the driver itself are passed on. */
	if (gm_object_at(caller, &object) && gm_object_is_driver(&object))
		return answer_undecided;
	if (handle == RTLD_NEXT)
		return answer_next(name, caller);
	void *address = real_dlsym()(handle, name);
	if (address && gm_object_at(address, &object)) {
		if (object_is_ours(&object))
			return answer_for_own(name);
		if (gm_object_is_driver(&object))
			address = gm_resolve_replace(name, address);
	}
	return answer_decided(address);
}
