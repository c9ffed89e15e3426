/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An address in a line program of a cubin is relative to a section: a relocation of its 8 bytes
 * names the symbol. The compiler writes further operations, of inlined calls, which are skipped by
 * their length: then a row has the line in the inlined function.
 */
#include "lines.h"

#include <stdio.h>
#include <string.h>

enum {
	OP_COPY = 1,
	OP_ADVANCE_PC,
	OP_ADVANCE_LINE,
	OP_SET_FILE,
	OP_CONST_ADD_PC = 8,
	OP_FIXED_ADVANCE_PC,
	OP_END_SEQUENCE = 1, /* of the extended ones */
	OP_SET_ADDRESS,
};

/* A reader that stops at its end, and then reads zeros. */
struct reader {
	const unsigned char *at, *end;
	bool failed;
};

static uint64_t read_bytes(struct reader *r, unsigned n)
{
	uint64_t value = 0;
	if ((size_t)(r->end - r->at) < n) {
		r->failed = true;
		r->at = r->end;
		return 0;
	}
	memcpy(&value, r->at, n); /* little-endian, as the machines that CUDA runs on */
	r->at += n;
	return value;
}

static uint64_t read_uleb(struct reader *r)
{
	uint64_t value = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint64_t byte = read_bytes(r, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static int64_t read_sleb(struct reader *r)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;
	do {
		byte = read_bytes(r, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && byte & 0x40)
		value |= ~UINT64_C(0) << shift;
	return (int64_t)value;
}

/* The string here; NULL: it does not end. */
static const char *read_text(struct reader *r)
{
	const char *text = (const char *)r->at;
	const unsigned char *end = memchr(r->at, 0, (size_t)(r->end - r->at));
	if (!end) {
		r->failed = true;
		r->at = r->end;
		return NULL;
	}
	r->at = end + 1;
	return text;
}

/* A part of `n` bytes, or all that remains. */
static struct reader read_part(struct reader *r, uint64_t n)
{
	struct reader part = {r->at, r->end, false};
	if ((uint64_t)(r->end - r->at) < n)
		r->failed = true;
	else
		part.end = r->at + n;
	r->at = part.end;
	return part;
}

/* --- relocations --- */

struct lines {
	const struct gm_sections *sections;
	struct gm_view content, symbols;
	Elf64_Shdr relocations; /* of the content */
	bool with_addend;
	uint64_t text, at; /* that is searched for */
};

/* The relocation section of section `index`; false: none. */
static bool relocations_find(const struct gm_sections *sections, uint64_t index, Elf64_Shdr *out)
{
	for (uint64_t i = 0; gm_sections_get(sections, i, out); i++)
		if ((out->sh_type == SHT_RELA || out->sh_type == SHT_REL) && out->sh_info == index)
			return true;
	return false;
}

/* The address that a relocation puts at `offset` of the section: *text is its section. */
static bool address_find(const struct lines *l, uint64_t offset, uint64_t addend, uint64_t *text,
			 uint64_t *address)
{
	const size_t size = l->with_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	struct gm_view entries;
	if (!l->relocations.sh_size || !gm_sections_view(l->sections, &l->relocations, &entries))
		return false;
	for (uint64_t i = 0; i + size <= entries.size; i += size) {
		Elf64_Rela rela = {0};
		Elf64_Sym symbol;
		memcpy(&rela, entries.at + i, size);
		if (rela.r_offset != offset)
			continue;
		uint64_t at = ELF64_R_SYM(rela.r_info) * sizeof symbol;
		if (at + sizeof symbol > l->symbols.size)
			return false;
		memcpy(&symbol, l->symbols.at + at, sizeof symbol);
		*text = symbol.st_shndx;
		*address = symbol.st_value + (l->with_addend ? (uint64_t)rela.r_addend : addend);
		return true;
	}
	return false;
}

/* --- a line program --- */

struct row {
	uint64_t text, address, file, line;
	bool valid;
};

struct program {
	struct reader ops, names; /* names: of folders, then files */
	unsigned version, least, line_range, opcode_base;
	int line_base;
	unsigned char lengths[256];
};

/* Open the program at the reader's position, and move behind it. False: of a form not known. */
static bool program_open(struct program *p, struct reader *all)
{
	uint64_t length = read_bytes(all, 4), wide = length == UINT32_MAX ? 8 : 4;
	if (wide == 8)
		length = read_bytes(all, 8);
	struct reader unit = read_part(all, length);
	p->version = (unsigned)read_bytes(&unit, 2);
	uint64_t header = read_bytes(&unit, (unsigned)wide);
	p->names = read_part(&unit, header);
	p->ops = unit;
	p->least = (unsigned)read_bytes(&p->names, 1);
	if (p->version >= 4)
		read_bytes(&p->names, 1);
	read_bytes(&p->names, 1);
	p->line_base = (int8_t)read_bytes(&p->names, 1);
	p->line_range = (unsigned)read_bytes(&p->names, 1);
	p->opcode_base = (unsigned)read_bytes(&p->names, 1);
	memset(p->lengths, 0, sizeof p->lengths);
	for (unsigned i = 1; i < p->opcode_base; i++)
		p->lengths[i] = (unsigned char)read_bytes(&p->names, 1);
	return p->version >= 2 && p->version <= 4 && p->line_range && p->opcode_base &&
	       !p->names.failed;
}

/* Does the instruction lie between the last row and the next address? */
static bool row_covers(const struct lines *l, const struct row *last, uint64_t next)
{
	return last->valid && last->text == l->text && last->address <= l->at && l->at < next;
}

static bool extended_run(const struct lines *l, struct program *p, struct row *now,
			 const struct row *last)
{
	struct reader op = read_part(&p->ops, read_uleb(&p->ops));
	uint64_t code = read_bytes(&op, 1), offset = (uint64_t)(op.at - l->content.at);
	if (code == OP_END_SEQUENCE) {
		bool found = row_covers(l, last, now->address);
		*now = (struct row){.text = SHN_UNDEF, .file = 1, .line = 1};
		return found;
	}
	if (code == OP_SET_ADDRESS) {
		uint64_t addend = read_bytes(&op, 8);
		now->text = SHN_UNDEF;
		now->address = addend;
		address_find(l, offset, addend, &now->text, &now->address);
	}
	return false;
}

static void standard_run(struct program *p, uint64_t code, struct row *now)
{
	switch (code) {
	case OP_ADVANCE_PC:
		now->address += read_uleb(&p->ops) * p->least;
		break;
	case OP_ADVANCE_LINE:
		now->line += (uint64_t)read_sleb(&p->ops);
		break;
	case OP_SET_FILE:
		now->file = read_uleb(&p->ops);
		break;
	case OP_CONST_ADD_PC:
		now->address += (uint64_t)((255 - p->opcode_base) / p->line_range) * p->least;
		break;
	case OP_FIXED_ADVANCE_PC:
		now->address += read_bytes(&p->ops, 2);
		break;
	default:
		for (unsigned i = 0; i < p->lengths[code]; i++)
			read_uleb(&p->ops);
	}
}

/* True: *out is the row of the instruction. */
static bool program_run(const struct lines *l, struct program *p, struct row *out)
{
	struct row now = {.text = SHN_UNDEF, .file = 1, .line = 1}, *last = out;
	*last = (struct row){0};
	while (p->ops.at < p->ops.end) {
		uint64_t code = read_bytes(&p->ops, 1);
		bool emits = code >= p->opcode_base || code == OP_COPY;
		if (code == 0) {
			if (extended_run(l, p, &now, last))
				return true;
			last->valid = last->valid && now.text == last->text;
		} else if (code >= p->opcode_base) {
			unsigned step = (unsigned)code - p->opcode_base;
			now.address += (uint64_t)(step / p->line_range) * p->least;
			now.line += (uint64_t)(int64_t)(p->line_base + (int)(step % p->line_range));
		} else if (code != OP_COPY) {
			standard_run(p, code, &now);
		}
		if (!emits)
			continue;
		if (row_covers(l, last, now.address))
			return true;
		*last = now;
		last->valid = true;
	}
	return false;
}

/* The name of file `number`, behind that of its folder. */
static bool program_file(struct program *p, uint64_t number, char *file, size_t n)
{
	struct reader folders = p->names, files;
	const char *name, *folder = NULL;
	uint64_t in = 0;
	while ((name = read_text(&p->names)) && *name)
		;
	files = p->names;
	for (uint64_t i = 1; i <= number; i++) {
		name = read_text(&files);
		if (!name || !*name)
			return false;
		in = read_uleb(&files);
		read_uleb(&files);
		read_uleb(&files);
	}
	for (uint64_t i = 1; number && i <= in && !folders.failed; i++)
		folder = read_text(&folders);
	if (!number || files.failed || folders.failed)
		return false;
	bool both = folder && *folder && *name != '/';
	int length = snprintf(NULL, 0, "%s%s%s", both ? folder : "", both ? "/" : "", name);
	if (length < 0 || (size_t)length >= n)
		snprintf(file, n, "%s", strlen(name) < n ? name : "?");
	else
		snprintf(file, n, "%s%s%s", both ? folder : "", both ? "/" : "", name);
	return true;
}

bool gm_image_line(const struct gm_sections *sections, uint64_t text, uint64_t at, uint32_t *line,
		   char *file, size_t n)
{
	struct lines l = {.sections = sections, .text = text, .at = at};
	Elf64_Shdr section, table;
	uint64_t index = 0;
	while (gm_sections_get(sections, index, &section) &&
	       !gm_sections_named(sections, &section, ".debug_line"))
		index++;
	if (!gm_sections_get(sections, index, &section) ||
	    !gm_sections_view(sections, &section, &l.content) ||
	    !relocations_find(sections, index, &l.relocations) ||
	    !gm_sections_get(sections, l.relocations.sh_link, &table) ||
	    !gm_sections_view(sections, &table, &l.symbols))
		return false;
	l.with_addend = l.relocations.sh_type == SHT_RELA;
	struct reader all = {l.content.at, l.content.at + l.content.size, false};
	while (all.at < all.end && !all.failed) {
		struct program program;
		struct row row;
		if (!program_open(&program, &all) || !program_run(&l, &program, &row))
			continue;
		*line = (uint32_t)row.line;
		return program_file(&program, row.file, file, n);
	}
	return false;
}
