/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/entry/object.h"

#include <string.h>

#define VERSION_HIDDEN 0x8000 /* not the default version of this name */

struct search {
	const void *address;
	const char *symbol;
	bool passed; /* true: the walk is behind the object of `address` */
	struct gm_object *out;
};

/* glibc has relocated the pointers of a dynamic section if the section is writable. */
static const void *dynamic_pointer(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static bool object_read(const struct dl_phdr_info *info, struct gm_object *out)
{
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Dyn) *soname = NULL;
	*out = (struct gm_object){.path = info->dlpi_name, .base = info->dlpi_addr};
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		const void *value = dynamic_pointer(info, dynamic->d_un.d_ptr);
		switch (dynamic->d_tag) {
		case DT_SYMTAB:
			out->symbols = value;
			break;
		case DT_STRTAB:
			out->strings = value;
			break;
		case DT_VERSYM:
			out->versions = value;
			break;
		case DT_HASH:
			out->hash = value;
			break;
		case DT_GNU_HASH:
			out->gnu_hash = value;
			break;
		case DT_SONAME:
			soname = dynamic;
			break;
		}
	}
	if (soname && out->strings)
		out->soname = out->strings + soname->d_un.d_val;
	return out->symbols && out->strings && (out->hash || out->gnu_hash);
}

/* The segment of an object with `address`, or NULL. */
static const ElfW(Phdr) * object_segment(const struct dl_phdr_info *info, const void *address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD &&
		    (uintptr_t)address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
			return segment;
	}
	return NULL;
}

static int object_visit_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	(void)size;
	if (!object_segment(info, search->address))
		return 0;
	return object_read(info, search->out) ? 1 : -1;
}

static int object_visit_holds(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Phdr) *segment = object_segment(info, arg);
	(void)size;
	return !segment ? 0 : segment->p_flags & PF_W ? -1 : 1;
}

static int object_visit_driver(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	(void)size;
	return object_read(info, search->out) && gm_object_is_driver(search->out);
}

static int object_visit_behind(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	(void)size;
	if (!search->passed) {
		search->passed = object_segment(info, search->address);
		return 0;
	}
	return object_read(info, search->out) && gm_object_symbol(search->out, search->symbol);
}

bool gm_object_at(const void *address, struct gm_object *out)
{
	return dl_iterate_phdr(object_visit_at, &(struct search){.address = address, .out = out}) ==
	       1;
}

bool gm_object_holds(const void *address)
{
	return dl_iterate_phdr(object_visit_holds, (void *)(uintptr_t)address) == 1;
}

bool gm_object_driver(struct gm_object *out)
{
	return dl_iterate_phdr(object_visit_driver, &(struct search){.out = out}) == 1;
}

bool gm_object_behind(const void *address, const char *symbol, struct gm_object *out)
{
	struct search search = {.address = address, .symbol = symbol, .out = out};
	return dl_iterate_phdr(object_visit_behind, &search) == 1;
}

static bool name_is_driver(const char *name)
{
	static const char driver[] = "libcuda.so";
	return name && strncmp(name, driver, sizeof driver - 1) == 0;
}

bool gm_object_is_driver(const struct gm_object *object)
{
	const char *slash = object->path ? strrchr(object->path, '/') : NULL;
	return name_is_driver(object->soname) || name_is_driver(slash ? slash + 1 : object->path);
}

/* Can dlsym find the symbol without a version? Not imports, thread-local variables, and functions
 * chosen at load time (IFUNC). */
static bool symbol_is_export(const struct gm_object *object, uint32_t index)
{
	const ElfW(Sym) *symbol = &object->symbols[index];
	unsigned type = symbol->st_info & 15, binding = symbol->st_info >> 4;
	return symbol->st_shndx != SHN_UNDEF && symbol->st_value && type <= STT_FUNC &&
	       (binding == STB_GLOBAL || binding == STB_WEAK) &&
	       !(object->versions && object->versions[index] & VERSION_HIDDEN);
}

static void *symbol_address(const struct gm_object *object, uint32_t index)
{
	return (void *)(object->base + object->symbols[index].st_value);
}

static const char *symbol_name(const struct gm_object *object, uint32_t index)
{
	return object->strings + object->symbols[index].st_name;
}

/* DT_GNU_HASH: four words, a Bloom filter, buckets, then a chain of hashes for each bucket. */
struct gnu_hash {
	uint32_t n_buckets, first;
	const uint32_t *buckets, *chains;
};

static struct gnu_hash gnu_hash_read(const uint32_t *words)
{
	const ElfW(Addr) *filter = (const void *)(words + 4);
	const uint32_t *buckets = (const void *)(filter + words[2]);
	return (struct gnu_hash){words[0], words[1], buckets, buckets + words[0]};
}

static void *gnu_hash_find(const struct gm_object *object, const char *symbol)
{
	struct gnu_hash table = gnu_hash_read(object->gnu_hash);
	uint32_t hash = 5381;
	for (const char *c = symbol; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	uint32_t i = table.n_buckets ? table.buckets[hash % table.n_buckets] : 0;
	if (i < table.first)
		return NULL;
	for (;; i++) {
		uint32_t link = table.chains[i - table.first];
		if ((link | 1) == (hash | 1) && symbol_is_export(object, i) &&
		    strcmp(symbol_name(object, i), symbol) == 0)
			return symbol_address(object, i);
		if (link & 1) /* last of the chain */
			return NULL;
	}
}

void *gm_object_symbol(const struct gm_object *object, const char *symbol)
{
	if (object->gnu_hash)
		return gnu_hash_find(object, symbol);
	for (uint32_t i = 1; i < object->hash[1]; i++)
		if (symbol_is_export(object, i) && strcmp(symbol_name(object, i), symbol) == 0)
			return symbol_address(object, i);
	return NULL;
}

void gm_object_each(const struct gm_object *object,
		    void (*visit)(void *arg, const char *symbol, void *address), void *arg)
{
	if (!object->gnu_hash) {
		for (uint32_t i = 1; i < object->hash[1]; i++)
			if (symbol_is_export(object, i))
				visit(arg, symbol_name(object, i), symbol_address(object, i));
		return;
	}
	struct gnu_hash table = gnu_hash_read(object->gnu_hash);
	for (uint32_t b = 0; b < table.n_buckets; b++) {
		uint32_t i = table.buckets[b];
		if (i < table.first)
			continue;
		do {
			if (symbol_is_export(object, i))
				visit(arg, symbol_name(object, i), symbol_address(object, i));
		} while (!(table.chains[i++ - table.first] & 1));
	}
}
