/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places in machine code: the function, and the line by .debug_line. The images are made here: two
 * functions, of which one is at the address of a symbol in its section. Then each byte of an image
 * is cut or changed. With arguments: CUBIN SECTION OFFSET prints the place of that code, for
 * image_lines_nvcc.sh.
 */
#include <elf.h>
#include <stdio.h>

#include "image/image.h"
#include "image/lines.h"
#include "image/places.h"

#include "../tap.h"

enum { TEXT = 0x400, INSNS = TEXT / 16, ROOM = 16384 };

struct made {
	unsigned char at[ROOM];
	size_t n;
};

static size_t add(struct made *m, const void *bytes, size_t n)
{
	size_t at = m->n;
	memcpy(m->at + at, bytes, n);
	m->n = (at + n + 7) / 8 * 8;
	return at;
}

/* Instructions that all differ; calls behind each 8th. `other`: of another function. */
static void text_make(uint64_t text[2 * INSNS], uint64_t other)
{
	for (unsigned i = 0; i < INSNS; i++) {
		text[2 * i] = (uint64_t)i << 32 | other << 16 | (i % 8 == 7 ? 0x7943 : 0x7810);
		text[2 * i + 1] = 0x000fea0003c00000 + i;
	}
}

/* The line program: rows of section 4 from `symbol` on. */
static const unsigned char program[] = {
	/* length, version 2, length of the header */
	66,
	0,
	0,
	0,
	2,
	0,
	34,
	0,
	0,
	0,
	/* least, is_stmt, line base -5, range 14, opcode base 10, lengths */
	1,
	1,
	0xfb,
	14,
	10,
	0,
	1,
	1,
	1,
	1,
	0,
	0,
	0,
	1,
	/* folder, file */
	's',
	'r',
	'c',
	0,
	0,
	'w',
	'o',
	'r',
	'k',
	'.',
	'c',
	'u',
	0,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	/* address, which a relocation sets */
	0,
	9,
	2,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* line 10, a row; an operation of NVIDIA's; address + 0x100, line 12, a row; + 0x80, line
	   20 */
	3,
	9,
	1,
	0,
	3,
	0x90,
	1,
	2,
	9,
	0,
	1,
};
/* behind these */
static const unsigned char program_end[] = {3, 2, 1, 9, 0x80, 0, 3, 8, 1, 9, 0, 1, 0, 1, 1};

static void image_make(struct made *m)
{
	static const char names[] =
		"\0.text._Z4workPi\0.text.other\0.debug_line\0.rela.debug_line\0"
		".symtab\0.shstrtab";
	unsigned char lines[sizeof program + sizeof program_end];
	uint64_t text[2 * INSNS];
	const Elf64_Sym symbols[] = {{0}, {.st_shndx = 1}, {.st_shndx = 2, .st_value = 0x40}};
	const Elf64_Rela rela[] = {{42 + 2 + 3, ELF64_R_INFO(2, 2), -0x40}};
	Elf64_Shdr s[7] = {{0}};
	Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
			   .e_type = ET_EXEC,
			   .e_machine = EM_CUDA,
			   .e_shentsize = sizeof *s,
			   .e_shnum = 7,
			   .e_shstrndx = 6};
	memset(m, 0, sizeof *m);
	memcpy(lines, program, sizeof program);
	memcpy(lines + sizeof program, program_end, sizeof program_end);
	lines[0] = (unsigned char)(sizeof lines - 4);
	add(m, &head, sizeof head);
	for (unsigned i = 1; i <= 2; i++) {
		text_make(text, i);
		s[i] = (Elf64_Shdr){
			.sh_type = SHT_PROGBITS, .sh_size = TEXT, .sh_name = i == 1 ? 1 : 17};
		s[i].sh_offset = add(m, text, sizeof text);
	}
	s[3] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_size = sizeof lines, .sh_name = 29};
	s[3].sh_offset = add(m, lines, sizeof lines);
	s[4] = (Elf64_Shdr){.sh_type = SHT_RELA,
			    .sh_size = sizeof rela,
			    .sh_name = 41,
			    .sh_link = 5,
			    .sh_info = 3};
	s[4].sh_offset = add(m, rela, sizeof rela);
	s[5] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
			    .sh_size = sizeof symbols,
			    .sh_name = 58,
			    .sh_entsize = sizeof *symbols};
	s[5].sh_offset = add(m, symbols, sizeof symbols);
	s[6] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_size = sizeof names, .sh_name = 66};
	s[6].sh_offset = add(m, names, sizeof names);
	head.e_shoff = add(m, s, sizeof s);
	memcpy(m->at, &head, sizeof head);
}

/* --- lines --- */

static uint32_t line_at(const struct made *m, uint64_t text, uint64_t at, char *file, size_t n)
{
	struct gm_view view = {.at = m->at, .size = m->n};
	struct gm_sections sections;
	uint32_t line = 0;
	bool found = gm_sections_open(&sections, &view) &&
		     gm_image_line(&sections, text, at, &line, file, n);
	return found ? line : 0;
}

static void test_lines(void)
{
	static const struct {
		uint64_t text, at;
		uint32_t line;
	} rows[] = {{2, 0, 10},	    {2, 0xf0, 10},  {2, 0x100, 12}, {2, 0x170, 12},
		    {2, 0x180, 20}, {2, 0x270, 20}, {2, 0x280, 0},  {1, 0x100, 0}};
	struct made m;
	char file[64] = "";
	image_make(&m);
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
		TAP_IS(line_at(&m, rows[i].text, rows[i].at, file, sizeof file), rows[i].line,
		       "the line at 0x%x of function %u", (unsigned)rows[i].at,
		       (unsigned)rows[i].text);
	TAP_STR(file, "src/work.cu", "the file, in its folder: %s", file);
	TAP_OK(line_at(&m, 2, 0, file, 8) == 10 && strcmp(file, "work.cu") == 0,
	       "the file's name has no folder where there is no room");
	TAP_OK(line_at(&m, 2, 0, file, 7) == 10 && strcmp(file, "?") == 0,
	       "the file's name is ? where there is no room");
}

/* --- places --- */

static void code_take(uint64_t words[64], uint64_t function, unsigned insn)
{
	uint64_t text[2 * INSNS];
	text_make(text, function);
	memset(words, 0, 64 * sizeof *words);
	for (unsigned i = 0; i < 64; i++)
		if (2 * insn + i >= 32 && 2 * insn + i - 32 < 2 * INSNS)
			words[i] = text[2 * insn + i - 32];
}

/* The function of that code begins at an address that fits any alignment. */
static bool places_find(uint64_t offset, const uint64_t words[64], struct gm_image_place *out)
{
	return gm_places_find(UINT64_C(0x7f0000100000) + offset, words, 32, out);
}

static void test_places(void)
{
	struct made m;
	struct gm_image_place place;
	uint64_t words[64];
	image_make(&m);
	code_take(words, 2, 24);
	TAP_OK(!places_find(0x180, words, &place), "no code is kept yet");
	gm_places_keep(m.at, NULL, GM_IMAGE_ANY);
	gm_places_keep(m.at, NULL, GM_IMAGE_ANY);
	TAP_OK(places_find(0x180, words, &place) && strcmp(place.function, "other") == 0 &&
		       place.offset == 0x180,
	       "a place has its function and the offset");
	TAP_OK(strcmp(place.file, "src/work.cu") == 0 && place.line == 12,
	       "a place has the line of the call");
	code_take(words, 1, 8);
	TAP_OK(places_find(0x80, words, &place) && strcmp(place.function, "_Z4workPi") == 0 &&
		       place.offset == 0x80 && !*place.file,
	       "a function without lines is found");
	words[0] ^= 1;
	words[63] ^= 1;
	TAP_OK(places_find(0x80, words, &place) && place.offset == 0x80,
	       "code with some patched words is found");
	for (unsigned i = 0; i < 24; i++)
		words[i] ^= 2;
	TAP_OK(!places_find(0x80, words, &place), "code with most words patched is not found");
	code_take(words, 1, 9);
	TAP_OK(!places_find(0x90, words, &place), "code without a call before it is not found");
}

/*
 * An unrolled loop: PERIOD instructions, again and again, with a call as the 8th, and a last part
 * of its own. The four instructions on each side of the place behind a call are the same in each
 * turn.
 */
enum { PERIOD = 9, TURNS = 3, OWN = 30 };

static void repeats_make(struct made *m, uint64_t alignment, uint64_t seed)
{
	Elf64_Ehdr head;
	Elf64_Shdr section;
	uint64_t text[2 * INSNS];
	image_make(m);
	text_make(text, seed);
	for (unsigned i = PERIOD; i < PERIOD * TURNS; i++)
		memcpy(&text[2 * i], &text[2 * (i % PERIOD)], 16);
	memcpy(&head, m->at, sizeof head);
	memcpy(&section, m->at + head.e_shoff + sizeof section, sizeof section);
	section.sh_addralign = alignment;
	memcpy(m->at + head.e_shoff + sizeof section, &section, sizeof section);
	memcpy(m->at + section.sh_offset, text, sizeof text);
}

/* Find the place behind the call before instruction `insn`; true: that is it. */
static bool repeat_is_found(const struct made *m, unsigned insn)
{
	Elf64_Ehdr head;
	Elf64_Shdr section;
	uint64_t words[64] = {0};
	struct gm_image_place place;
	memcpy(&head, m->at, sizeof head);
	memcpy(&section, m->at + head.e_shoff + sizeof section, sizeof section);
	memcpy(&words[24], m->at + section.sh_offset + 16 * (insn - 4), 8 * 16);
	return places_find(16 * insn, words, &place) && place.offset == 16 * insn;
}

static void test_repeats(void)
{
	struct made m;
	repeats_make(&m, 128, 3);
	gm_places_keep(m.at, NULL, GM_IMAGE_ANY);
	for (unsigned turn = 0; turn < TURNS; turn++)
		TAP_OK(repeat_is_found(&m, PERIOD * turn + 8),
		       "turn %u of an unrolled loop is known by the alignment", turn);
	repeats_make(&m, 16, 4);
	gm_places_keep(m.at, NULL, GM_IMAGE_ANY);
	TAP_OK(!repeat_is_found(&m, PERIOD + 8), "a turn without an alignment may be any of them");
	TAP_OK(repeat_is_found(&m, OWN + 2), "code that is there once is found");
	for (unsigned turn = 0; turn < TURNS; turn++)
		TAP_OK(repeat_is_found(&m, PERIOD * turn + 8),
		       "turn %u is known by its distance to code that is there once", turn);
}

/* --- damage --- */

static void test_damage(void)
{
	struct made m;
	char file[64];
	unsigned found = 0;
	image_make(&m);
	for (size_t n = 0; n < m.n; n++) {
		struct made *cut = malloc(sizeof *cut);
		memcpy(cut->at, m.at, n);
		cut->n = n;
		found += line_at(cut, 2, 0x180, file, sizeof file) != 0;
		free(cut);
	}
	for (size_t i = 0; i < m.n; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			m.at[i] ^= (unsigned char)(1 << bit);
			found += line_at(&m, 2, 0x180, file, sizeof file) != 0;
			m.at[i] ^= (unsigned char)(1 << bit);
		}
	TAP_OK(found > 0, "damaged images are survived (%u still have the line)", found);
	TAP_IS(line_at(&m, 2, 0x180, file, sizeof file), 20,
	       "the image without damage has the line");
}

/* Print "SECTION+OFFSET FILE:LINE" of the code behind each call in a cubin. */
static int print_calls(const char *path)
{
	static unsigned char bytes[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
	struct gm_view view = {.at = bytes, .size = n}, text;
	struct gm_sections sections;
	Elf64_Shdr section;
	if (f)
		fclose(f);
	if (!gm_sections_open(&sections, &view))
		return 1;
	gm_places_keep(NULL, path, GM_IMAGE_ANY);
	for (uint64_t i = 0; gm_sections_get(&sections, i, &section); i++) {
		if (!(section.sh_flags & SHF_EXECINSTR) ||
		    !gm_sections_view(&sections, &section, &text))
			continue;
		for (uint64_t at = 16; at < text.size; at += 16) {
			uint64_t words[64] = {0};
			struct gm_image_place place;
			for (unsigned k = 0; k < 64; k++)
				if (at + 8 * k >= 256 && at + 8 * k - 256 < text.size)
					memcpy(&words[k], text.at + at + 8 * k - 256, 8);
			if (places_find(at, words, &place))
				printf("%s+0x%x %s:%u\n", place.function, (unsigned)place.offset,
				       place.file, place.line);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return print_calls(argv[1]);
	test_lines();
	test_places();
	test_repeats();
	test_damage();
	return tap_done();
}
