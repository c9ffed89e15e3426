/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program and its shared libraries, read from memory by their ELF tables. Unlike dlsym, dladdr
 * and dlopen this allocates nothing, does not change dlerror, and takes no lock that a thread in a
 * library's constructor may hold. Objects of other namespaces (dlmopen) are not found. Any thread.
 */
#ifndef GM_SHIM_ENTRY_OBJECT_H
#define GM_SHIM_ENTRY_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct gm_object {
	const char *path; /* as loaded; valid while the object is */
	const char *soname;
	const char *strings;
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const ElfW(Half) * versions; /* NULL: none */
	const uint32_t *gnu_hash, *hash;
};

/* The object with `address` in its segments; false: none. */
bool gm_object_at(const void *address, struct gm_object *out);

/* Is `address` in an object, in a segment that is not writable? */
bool gm_object_holds(const void *address);

/* The first libcuda in the order of loading; false: none is mapped. */
bool gm_object_driver(struct gm_object *out);

/* The first object that exports `symbol`, behind the object with `address`. */
bool gm_object_behind(const void *address, const char *symbol, struct gm_object *out);

/* Is the object a libcuda, by its soname or file name? */
bool gm_object_is_driver(const struct gm_object *object);

/* The address of an exported symbol in its default version; NULL: this object has none. */
void *gm_object_symbol(const struct gm_object *object, const char *symbol);

/* Call `visit` for each exported symbol, in no order. */
void gm_object_each(const struct gm_object *object,
		    void (*visit)(void *arg, const char *symbol, void *address), void *arg);

#endif
