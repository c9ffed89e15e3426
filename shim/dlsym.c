/* SPDX-License-Identifier: BSD-3-Clause */
/* What the dlsym stub of entry-*.S does with names like cu[A-Z]*. */
#include <dlfcn.h>
#include <stddef.h>

#include "base/debug.h"
#include "late.h"
#include "object.h"
#include "resolve.h"

typedef void *dlsym_fn(void *handle, const char *name);

struct answer {
	void *address;
	unsigned long decided; /* 0: the caller's request goes on to the real dlsym as it came */
};

dlsym_fn *gm_dlsym_find(void);
struct answer gm_dlsym(void *handle, const char *name, const void *caller);
extern _Atomic(dlsym_fn *) gm_dlsym_real;

_Atomic(dlsym_fn *) gm_dlsym_real;

static void *none(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

GM_EARLY static bool has_dlvsym(void)
{
#ifdef GM_GLIBC_LATE
	return gm_late_dlvsym;
#else
	return true;
#endif
}

/* Where there was no libdl when we were loaded. */
static dlsym_fn *find_behind_us(void)
{
	struct gm_object object;
	bool found = gm_object_behind(&gm_dlsym_real, "dlsym", &object);
	return found ? (dlsym_fn *)gm_object_symbol(&object, "dlsym") : NULL;
}

/* By version, which libc always has (the oldest first: every glibc still has it, and no failure
 * leaves an error behind); then whichever is next, another preload's or libc's. */
GM_EARLY static dlsym_fn *find_next(void)
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

/* The next dlsym behind ours. A sanitizer's runtime gets here before it has set itself up. */
GM_EARLY dlsym_fn *gm_dlsym_find(void)
{
	dlsym_fn *next = has_dlvsym() ? find_next() : find_behind_us();
	if (next)
		atomic_store_explicit(&gm_dlsym_real, next, memory_order_release);
	return next ? next : none; /* for now: libdl may still come */
}

static dlsym_fn *real_dlsym(void)
{
	dlsym_fn *found = atomic_load_explicit(&gm_dlsym_real, memory_order_acquire);
	return found ? found : gm_dlsym_find();
}

static struct answer decided(void *address)
{
	return (struct answer){address, true};
}

static const struct answer undecided = {NULL, false};

static bool is_ours(const struct gm_object *object)
{
	extern const char __ehdr_start[] __attribute__((visibility("hidden")));
	return object->base == (uintptr_t)__ehdr_start;
}

/*
 * Our own export came out. The program asked for the driver's, so while no libcuda is mapped there
 * is none (programs probe for CUDA that way): the answer is that of the objects behind us, which
 * also leaves the right dlerror.
 */
static struct answer answer_for_own(const char *name)
{
	struct gm_object driver;
	void *address = NULL;
	if (gm_object_driver(&driver))
		address = gm_object_symbol(&driver, name);
	return decided(address ? gm_resolve_replace(address) : real_dlsym()(RTLD_NEXT, name));
}

/*
 * A library behind the driver in the link map still finds it in its own dependencies, where dlopen
 * put them; nothing but the native call knows that order, so only an answer of the driver is taken.
 */
static struct answer next_in_dependencies(const char *name, const void *caller)
{
	struct gm_object provider;
	struct answer answer = undecided;
	Dl_info info;
	void *group = NULL;
	if (gm_late_missing())
		return undecided;
	if (dladdr(caller, &info))
		group = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (group) {
		void *address = real_dlsym()(group, name);
		if (address && gm_object_at(address, &provider) && gm_object_is_driver(&provider))
			answer = decided(gm_resolve_replace(address));
		dlclose(group);
	}
	dlerror();
	return answer;
}

/* RTLD_NEXT: the first definition behind the caller in the link map. */
static struct answer next(const char *name, const void *caller)
{
	struct gm_object provider;
	if (!gm_object_behind(caller, name, &provider))
		return next_in_dependencies(name, caller);
	if (is_ours(&provider))
		return answer_for_own(name);
	if (gm_object_is_driver(&provider))
		return decided(gm_resolve_replace(gm_object_symbol(&provider, name)));
	return undecided;
}

struct answer gm_dlsym(void *handle, const char *name, const void *caller)
{
	struct gm_object object;
	if (!gm_resolve_hook(name))
		return undecided;
	/* What the driver looks up is its own affair. */
	if (gm_object_at(caller, &object) && gm_object_is_driver(&object))
		return undecided;
	if (handle == RTLD_NEXT)
		return next(name, caller);
	void *address = real_dlsym()(handle, name);
	if (address && gm_object_at(address, &object)) {
		if (is_ours(&object))
			return answer_for_own(name);
		if (gm_object_is_driver(&object))
			address = gm_resolve_replace(address);
	}
	return decided(address);
}
