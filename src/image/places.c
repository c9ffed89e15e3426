/* SPDX-License-Identifier: BSD-3-Clause */
#include "places.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "image/lines.h"

#define KEEP_MOST (512 * GM_MIB)

enum {
	INSN = 16,  /* bytes of an instruction */
	NEEDED = 6, /* instructions that must be compared */
	SHARE = 4,  /* at most 1 / this of the equal ones may differ */
};

/* A list that only grows, at its head. */
struct kept {
	struct kept *next;
	uint64_t size;
	unsigned char code[];
};

static _Atomic(struct kept *) all;
static _Atomic uint64_t kept_bytes;

/* Where functions were loaded, as calls in them have told. A list that only grows, too. */
struct base {
	struct base *next;
	const struct kept *in;
	uint64_t index, address; /* the section, and where it begins on the device */
};

static _Atomic(struct base *) bases;

static bool base_is_known(const struct kept *in, uint64_t index, uint64_t address)
{
	for (const struct base *b = atomic_load(&bases); b; b = b->next)
		if (b->in == in && b->index == index && b->address == address)
			return true;
	return false;
}

static void base_keep(const struct kept *in, uint64_t index, uint64_t address)
{
	struct base *base = base_is_known(in, index, address) ? NULL : malloc(sizeof *base);
	if (!base)
		return;
	*base = (struct base){atomic_load(&bases), in, index, address};
	while (!atomic_compare_exchange_weak(&bases, &base->next, base))
		;
}

/* The end of an ELF file, as far as its headers tell. */
static uint64_t elf_size(struct gm_view *view)
{
	struct gm_sections sections;
	Elf64_Shdr section;
	uint64_t end, size;
	if (!gm_sections_open(&sections, view))
		return 0;
	size = sections.head.e_shoff + sections.n * sizeof section;
	end = sections.head.e_phoff + sections.head.e_phnum * (uint64_t)sizeof(Elf64_Phdr);
	size = end > size ? end : size;
	for (uint64_t i = 0; gm_sections_get(&sections, i, &section); i++) {
		end = section.sh_offset + section.sh_size;
		if (section.sh_type != SHT_NOBITS && end > size)
			size = end;
	}
	return size;
}

static void code_keep(void *arg, struct gm_view *code)
{
	uint64_t size = code->open ? elf_size(code) : code->size;
	const void *bytes = size && size <= KEEP_MOST ? gm_view_get(code, 0, size) : NULL;
	(void)arg;
	for (const struct kept *k = atomic_load(&all); bytes && k; k = k->next)
		if (k->size == size && memcmp(k->code, bytes, size) == 0)
			return;
	struct kept *kept = NULL;
	if (bytes && atomic_fetch_add(&kept_bytes, size) <= KEEP_MOST - size)
		kept = malloc(sizeof *kept + size);
	if (bytes && !kept)
		atomic_fetch_sub(&kept_bytes, size);
	if (!kept)
		return;
	kept->size = size;
	memcpy(kept->code, bytes, size);
	kept->next = atomic_load(&all);
	while (!atomic_compare_exchange_weak(&all, &kept->next, kept))
		;
}

void gm_places_keep(const void *image, const char *path, unsigned arch)
{
	gm_image_cubins(image, path, arch, code_keep, NULL);
}

/* --- search --- */

struct search {
	uint64_t address;
	const uint64_t *words;
	unsigned n; /* instructions */
	const struct gm_sections *sections;
	struct gm_view text;
	uint64_t text_index, alignment;
	const struct kept *now;
	struct gm_view patches; /* relocations of the text */
	size_t patch_size;	/* 0: there are none */
	bool patches_known;
	unsigned same, differ; /* of the best place */
	bool known;	       /* it fits a call that was found before */
	uint64_t index, at;    /* that place: the section, and the offset in it */
	bool found;	       /* in the section that is searched */
	bool several;	       /* others are as good */
	const struct kept *in;
};

static uint64_t word_at(const struct search *s, uint64_t offset)
{
	uint64_t word;
	memcpy(&word, s->text.at + offset, sizeof word);
	return word;
}

/* Find the relocations of the text: only where much is equal, as it takes all sections. */
static void patches_find(struct search *s)
{
	Elf64_Shdr table;
	s->patches_known = true;
	for (uint64_t i = 0; gm_sections_get(s->sections, i, &table); i++)
		if ((table.sh_type == SHT_RELA || table.sh_type == SHT_REL) &&
		    table.sh_info == s->text_index &&
		    gm_sections_view(s->sections, &table, &s->patches))
			s->patch_size =
				table.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
}

/* Will the loader change the instruction at `offset`? */
static bool insn_is_patched(struct search *s, uint64_t offset)
{
	if (!s->patches_known)
		patches_find(s);
	for (uint64_t i = 0; s->patch_size && i + s->patch_size <= s->patches.size;
	     i += s->patch_size) {
		Elf64_Rel entry;
		memcpy(&entry, s->patches.at + i, sizeof entry);
		if (entry.r_offset - offset < INSN)
			return true;
	}
	return false;
}

/* The low byte of the operation is the same in all forms of a call. */
static bool insn_is_call(uint64_t low)
{
	return (low & 0xff) == 0x43 || (low & 0xff) == 0x44;
}

/* Compare instruction `i` with the code around `at`: 1 equal, 0 different, -1 not known. */
static int insn_compare(const struct search *s, uint64_t at, unsigned i)
{
	const uint64_t *insn = &s->words[2 * i];
	uint64_t offset = at + (uint64_t)i * INSN - (uint64_t)(s->n / 2) * INSN;
	if (offset >= s->text.size || s->text.size - offset < INSN || (!insn[0] && !insn[1]))
		return -1;
	return word_at(s, offset) == insn[0] && word_at(s, offset + 8) == insn[1];
}

/* Is a place with these figures better than the best one? */
static bool place_is_better(const struct search *s, unsigned same, unsigned differ, bool known)
{
	if (!s->in || differ != s->differ)
		return !s->in || differ < s->differ;
	return same != s->same ? same > s->same : known && !s->known;
}

/* Compare with the code around `at`, which is behind a call. Relocations are searched only where
 * much is equal. */
static void place_try(struct search *s, uint64_t index, uint64_t at)
{
	unsigned same = 0, differ = 0;
	if (s->address % s->alignment != at % s->alignment)
		return;
	for (unsigned i = 0; i < s->n; i++)
		same += insn_compare(s, at, i) == 1;
	for (unsigned i = 0; i < s->n && same >= NEEDED; i++)
		differ +=
			insn_compare(s, at, i) == 0 &&
			!insn_is_patched(s, at + (uint64_t)i * INSN - (uint64_t)(s->n / 2) * INSN);
	if (same < NEEDED || differ > same / SHARE)
		return;
	const bool known = base_is_known(s->now, index, s->address - at);
	if (!place_is_better(s, same, differ, known)) {
		s->several = s->several || (differ == s->differ && same == s->same);
		return;
	}
	s->several = false;
	s->in = s->now;
	s->same = same;
	s->differ = differ;
	s->known = known;
	s->found = true;
	s->index = index;
	s->at = at;
}

/* True: the best place is now in this section. */
static bool text_search(struct search *s, uint64_t index, const Elf64_Shdr *section)
{
	const uint64_t *call = &s->words[2 * (s->n / 2 - 1)];
	s->patch_size = 0;
	s->patches_known = false;
	s->text_index = index;
	s->alignment = section->sh_addralign ? section->sh_addralign : 1;
	if (!gm_sections_view(s->sections, section, &s->text))
		return false;
	s->found = false;
	for (uint64_t at = INSN; at <= s->text.size; at += INSN)
		if (insn_is_call(word_at(s, at - INSN)) &&
		    (word_at(s, at - INSN) & 0xfff) == (call[0] & 0xfff))
			place_try(s, index, at);
	return s->found;
}

/* "_Z4workPi" of the section ".text._Z4workPi". */
static bool text_name(const struct gm_sections *sections, const Elf64_Shdr *section, char *name,
		      size_t n)
{
	static const char prefix[] = ".text.";
	size_t length, begin = sizeof prefix - 1;
	const char *text =
		gm_sections_string(&sections->names, section->sh_name, n + begin, &length);
	if (section->sh_type != SHT_PROGBITS || !text || length <= begin || length >= n + begin ||
	    memcmp(text, prefix, begin) != 0)
		return false;
	snprintf(name, n, "%.*s", (int)(length - begin), text + begin);
	return true;
}

/* Search one cubin; the place is better than any before: fill it in. */
static void kept_search(struct search *s, const struct kept *kept, struct gm_image_place *out)
{
	struct gm_view view = {.at = kept->code, .size = kept->size};
	struct gm_sections sections;
	Elf64_Shdr section;
	char name[sizeof out->function];
	if (!gm_sections_open(&sections, &view))
		return;
	s->sections = &sections;
	s->now = kept;
	for (uint64_t i = 0; gm_sections_get(&sections, i, &section); i++) {
		if (!text_name(&sections, &section, name, sizeof name) ||
		    !text_search(s, i, &section))
			continue;
		memcpy(out->function, name, sizeof name);
		out->offset = s->at;
		*out->file = '\0';
		if (!gm_image_line(&sections, i, s->at - INSN, &out->line, out->file,
				   sizeof out->file))
			*out->file = '\0';
	}
}

bool gm_places_find(uint64_t address, const uint64_t *words, unsigned n, struct gm_image_place *out)
{
	struct search s = {.address = address, .words = words, .n = n};
	memset(out, 0, sizeof *out);
	if (n < 2 || !insn_is_call(words[2 * (n / 2 - 1)]))
		return false;
	for (const struct kept *k = atomic_load(&all); k; k = k->next)
		kept_search(&s, k, out);
	if (s.in && !s.several)
		base_keep(s.in, s.index, address - s.at);
	return s.in;
}

void gm_places_forget(void)
{
	atomic_store(&bases, NULL);
	atomic_store(&all, NULL);
	atomic_store(&kept_bytes, 0);
}
