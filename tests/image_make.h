/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small images of device code, made in memory from words, so that tests need no compiler:
 *
 *   KIND:ARCH[:PACKING[:NAME,NAME...[:SIZE]]]
 *                    code that calls these functions; KIND is cubin, old (of CUDA 11), object, ptx,
 *                    lto, or a number; ARCH is 90, 90a, 100f; PACKING is raw, lz4, zstd or odd
 *   fatbin WORD...   a container of such code
 *   host WORD...     a file of the host with the containers in it
 *
 * make_image(&m, "fatbin cubin:90:zstd:malloc,free ptx:90 fatbin cubin:75"). The caller frees m.at.
 * A wrong word ends the program. The libraries that compress are found as in src/image/unpack.c.
 */
#ifndef GM_TESTS_IMAGE_MAKE_H
#define GM_TESTS_IMAGE_MAKE_H

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/fatbin.h"

struct make {
	unsigned char *at;
	size_t n, room;
};

struct make_word {
	char kind[16], packing[8], names[256];
	unsigned arch, size;
	char suffix;
};

static inline void *make_put(struct make *m, const void *from, size_t n)
{
	if (m->n + n >= m->room) {
		m->room = 2 * (m->n + n) + 64;
		m->at = realloc(m->at, m->room);
	}
	if (!m->at)
		exit(99);
	if (from)
		memcpy(m->at + m->n, from, n);
	else
		memset(m->at + m->n, 0, n);
	m->n += n;
	return m->at + m->n - n;
}

static inline void make_align(struct make *m, size_t step)
{
	make_put(m, NULL, (step - m->n % step) % step);
}

static inline struct make_word make_parse(const char *text)
{
	struct make_word word = {.packing = "raw", .size = 128};
	char arch[16];
	int n = sscanf(text, "%15[^:]:%15[^:]:%7[^:]:%255[^:]:%u", word.kind, arch, word.packing,
		       word.names, &word.size);
	if (n < 2 || sscanf(arch, "%u%c", &word.arch, &word.suffix) < 1) {
		fprintf(stderr, "image_make: %s?\n", text);
		exit(99);
	}
	return word;
}

static const char make_begin[] = "\0.shstrtab\0.strtab\0.symtab\0.text.kernel\0kernel";

/* A table of symbols: for each name of ours an undefined function; for any other name a symbol of
 * its own. */
static inline void make_symbol(struct make *symbols, struct make *strings, const char *name)
{
	bool own = *name == '=';
	Elf64_Sym symbol = {.st_name = (Elf64_Word)strings->n,
			    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			    .st_shndx = own ? 4 : SHN_UNDEF};
	name += own;
	make_put(strings, name, strlen(name) + 1);
	make_put(symbols, &symbol, sizeof symbol);
}

static inline void make_symbols(struct make *symbols, struct make *strings, const char *names)
{
	char copy[256], *rest = copy, *name;
	Elf64_Sym own = {.st_name = sizeof make_begin - sizeof "kernel",
			 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			 .st_other = 0x10, /* a kernel */
			 .st_shndx = 4};
	snprintf(copy, sizeof copy, "%s", names);
	make_put(symbols, NULL, sizeof own);
	make_put(strings, make_begin, sizeof make_begin); /* as nvcc writes it */
	make_put(symbols, &own, sizeof own);
	while ((name = strsep(&rest, ","))) {
		char numbered[32];
		for (int i = *name == '#' ? atoi(name + 1) : 0; i > 0; i--) {
			snprintf(numbered, sizeof numbered, "_Z6kernel%d", i);
			make_symbol(symbols, strings, numbered);
		}
		if (*name && *name != '#')
			make_symbol(symbols, strings, name);
	}
}

/* Sections 1 to n of an ELF file, contents first, then their table, in nvcc's order. */
struct make_section {
	const char *name;
	uint32_t type, link;
	uint64_t entry;
	const struct make *content; /* NULL: the table of names */
};

static inline void make_elf(struct make *m, const Elf64_Ehdr *head,
			    const struct make_section *sections, unsigned n)
{
	Elf64_Shdr table[8] = {0};
	struct make names = {0};
	size_t base = m->n;
	make_put(&names, NULL, 1);
	for (unsigned i = 1; i <= n; i++) {
		table[i].sh_name = (Elf64_Word)names.n;
		make_put(&names, sections[i - 1].name, strlen(sections[i - 1].name) + 1);
	}
	make_put(m, head, sizeof *head);
	for (unsigned i = 1; i <= n; i++) {
		const struct make_section *s = &sections[i - 1];
		const struct make *content = s->content ? s->content : &names;
		make_align(m, 8);
		table[i].sh_type = s->type;
		table[i].sh_link = s->link;
		table[i].sh_entsize = s->entry;
		table[i].sh_offset = m->n - base;
		table[i].sh_size = content->n;
		make_put(m, content->at, content->n);
		if (i == 1)
			make_put(m, NULL, 64); /* -G leaves such a hole */
	}
	make_align(m, 8);
	Elf64_Ehdr *written = (Elf64_Ehdr *)(void *)(m->at + base);
	written->e_shoff = m->n - base;
	written->e_shnum = (Elf64_Half)(n + 1);
	make_put(m, table, (n + 1) * sizeof *table);
	free(names.at);
}

static inline Elf64_Ehdr make_head(unsigned type, unsigned machine)
{
	return (Elf64_Ehdr){.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
					EV_CURRENT, 0},
			    .e_type = (Elf64_Half)type,
			    .e_machine = (Elf64_Half)machine,
			    .e_version = EV_CURRENT,
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shstrndx = 1};
}

/* At least as hard to compress as instructions. */
static inline void make_noise(struct make *m, size_t n)
{
	unsigned char *to = make_put(m, NULL, n);
	for (uint32_t state = 4711, i = 0; i < n; i++) {
		state = state * 1664525 + 1013904223;
		to[i] = (unsigned char)(state >> 24);
	}
}

static inline void make_cubin(struct make *m, const struct make_word *word)
{
	struct make symbols = {0}, strings = {0}, text = {0};
	bool old = strcmp(word->kind, "old") == 0, rel = strcmp(word->kind, "object") == 0;
	Elf64_Ehdr head = make_head(rel ? ET_REL : ET_EXEC, EM_CUDA);
	head.e_ident[EI_OSABI] = old ? 0x33 : 0x41;
	head.e_ident[EI_ABIVERSION] = old ? 7 : 8;
	head.e_flags = old ? word->arch << 16 | 0x500 | word->arch : 0x6000004 | word->arch << 8;
	make_symbols(&symbols, &strings, word->names);
	make_noise(&text, word->size);
	struct make_section sections[] = {
		{".shstrtab", SHT_STRTAB, 0, 0, NULL},
		{".strtab", SHT_STRTAB, 0, 0, &strings},
		{".symtab", SHT_SYMTAB, 2, sizeof(Elf64_Sym), &symbols},
		{".text.kernel", SHT_PROGBITS, 3, 0, &text},
	};
	make_elf(m, &head, sections, 4);
	free(symbols.at);
	free(strings.at);
	free(text.at);
}

static inline void make_ptx(struct make *m, const struct make_word *word)
{
	char copy[256], line[512], *rest = copy, *name;
	snprintf(copy, sizeof copy, "%s", word->names);
	int n = snprintf(line, sizeof line,
			 "\n\n//\n// \"a comment\n//\n.version 8.5\n.target sm_%u", word->arch);
	if (word->suffix)
		line[n++] = word->suffix;
	make_put(m, line, (size_t)n);
	make_put(m, "\n.address_size 64\n", 18);
	while ((name = strsep(&rest, ",")))
		if (*name) {
			n = snprintf(line, sizeof line,
				     ".extern .func  (.param .b64 func_retval0) %s\n(\n"
				     "\t.param .b64 %s_param_0\n)\n;\n",
				     name, name);
			make_put(m, line, (size_t)n);
		}
	make_put(m, ".visible .entry kernel()\n{\n\tret;\n}\n", 35);
}

static inline void make_code(struct make *m, const struct make_word *word)
{
	if (strcmp(word->kind, "ptx") == 0)
		make_ptx(m, word);
	else if (strchr("co", word->kind[0]))
		make_cubin(m, word);
	else
		make_put(m, "\x72\x5a\xa4\xb2\x64\xe4\x8b\xd2", 8);
}

typedef int make_lz4_fn(const char *from, char *to, int n, int room);
typedef size_t make_zstd_fn(void *to, size_t room, const void *from, size_t n, int level);

static inline void *make_find(const char *library, const char *function)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	return handle ? dlsym(handle, function) : NULL;
}

static inline bool make_can_pack(void)
{
	return make_find("liblz4.so.1", "LZ4_compress_default") &&
	       make_find("libzstd.so.1", "ZSTD_compress");
}

/* Add `plain` to `m` in compressed form, and return its size there. */
static inline size_t make_pack(struct make *m, const struct make *plain, bool lz4)
{
	size_t room = plain->n + plain->n / 16 + 512, n;
	void *to = make_put(m, NULL, room);
	if (lz4) {
		make_lz4_fn *pack = (make_lz4_fn *)make_find("liblz4.so.1", "LZ4_compress_default");
		n = (size_t)pack((const char *)plain->at, to, (int)plain->n, (int)room);
	} else {
		make_zstd_fn *pack = (make_zstd_fn *)make_find("libzstd.so.1", "ZSTD_compress");
		n = pack(to, room, plain->at, plain->n, 3);
	}
	m->n -= room - n;
	return n;
}

static inline unsigned make_kind(const char *kind)
{
	if (strcmp(kind, "ptx") == 0)
		return GM_FATBIN_PTX;
	if (strcmp(kind, "lto") == 0)
		return GM_FATBIN_LTO;
	return strchr("co", *kind) ? GM_FATBIN_ELF : (unsigned)atoi(kind);
}

static inline void make_entry(struct make *m, const struct make_word *word)
{
	struct make plain = {0};
	bool lz4 = strcmp(word->packing, "lz4") == 0, zstd = strcmp(word->packing, "zstd") == 0;
	make_code(&plain, word);
	struct gm_fatbin_entry entry = {.kind = (uint16_t)make_kind(word->kind),
					.version = 0x101,
					.header_size = *word->kind == 'p' ? 80 : 64,
					.major = 1,
					.minor = 8,
					.arch = word->arch,
					.flags = 0x11};
	entry.options_offset = entry.header_size > 64 ? 64 : 0;
	entry.flags |= word->suffix == 'a' ? GM_FATBIN_EXACT : 0;
	entry.flags |= word->suffix == 'f' ? GM_FATBIN_FAMILY : 0;
	entry.flags |= lz4 ? GM_FATBIN_LZ4 : (zstd ? GM_FATBIN_ZSTD : 0);
	size_t head = m->n;
	make_put(m, &entry, sizeof entry);
	make_put(m, NULL, entry.header_size - sizeof entry);
	size_t from = m->n;
	if (lz4 || zstd)
		entry.packed_size = (uint32_t)make_pack(m, &plain, lz4);
	else
		make_put(m, plain.at, plain.n);
	if (strcmp(word->packing, "odd") == 0)
		entry.packed_size = (uint32_t)plain.n;
	entry.size = entry.packed_size ? plain.n : 0;
	make_align(m, 8);
	entry.payload_size = m->n - from;
	memcpy(m->at + head, &entry, sizeof entry);
	free(plain.at);
}

/* The container that began at `from` ends here. */
static inline void make_end(struct make *m, size_t from)
{
	struct gm_fatbin_head head = {GM_FATBIN_MAGIC, GM_FATBIN_VERSION, sizeof head,
				      m->n - from - sizeof head};
	memcpy(m->at + from, &head, sizeof head);
}

static inline void make_image(struct make *m, const char *words)
{
	char *copy = strdup(words), *rest = copy, *text;
	size_t container = SIZE_MAX;
	*m = (struct make){0};
	if (strncmp(words, "host ", 5) == 0) {
		struct make inner;
		struct make_section sections[] = {{".shstrtab", SHT_STRTAB, 0, 0, NULL},
						  {".nv_fatbin", SHT_PROGBITS, 0, 0, &inner}};
		Elf64_Ehdr head = make_head(ET_DYN, EM_X86_64);
		make_image(&inner, words + 5);
		make_elf(m, &head, sections, 2);
		free(inner.at);
		free(copy);
		return;
	}
	while ((text = strsep(&rest, " "))) {
		bool begins = strcmp(text, "fatbin") == 0;
		if (begins && container != SIZE_MAX)
			make_end(m, container);
		if (begins) {
			container = m->n;
			make_put(m, NULL, sizeof(struct gm_fatbin_head));
			continue;
		}
		struct make_word word = make_parse(text);
		if (container != SIZE_MAX)
			make_entry(m, &word);
		else
			make_code(m, &word);
	}
	if (container != SIZE_MAX)
		make_end(m, container);
	free(copy);
}

#endif
