/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/export/pickle.h"

#include <string.h>

#include "base/escape.h"

/* Opcodes; Python's pickletools documents each. */
enum {
	PROTO = 0x80,
	STOP = '.',
	MARK = '(',
	BININT1 = 'K',
	BININT2 = 'M',
	BININT = 'J',
	LONG1 = 0x8a,
	NEWTRUE = 0x88,
	NEWFALSE = 0x89,
	SHORT_BINUNICODE = 0x8c,
	BINUNICODE = 'X',
	EMPTY_LIST = ']',
	APPENDS = 'e',
	EMPTY_DICT = '}',
	SETITEMS = 'u',
	TUPLE2 = 0x86,
	MEMOIZE = 0x94,
	BINGET = 'h',
	LONG_BINGET = 'j',
	PROTOCOL = 4,
	TEXT_MOST = 65536,
};

/* Little-endian. */
static void bytes_write(FILE *out, uint64_t value, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		putc((int)(value >> 8 * i & 0xff), out);
}

void gm_pickle_open(struct gm_pickle *pickle, FILE *out)
{
	*pickle = (struct gm_pickle){.out = out};
	putc(PROTO, out);
	putc(PROTOCOL, out);
}

void gm_pickle_close(struct gm_pickle *pickle)
{
	putc(STOP, pickle->out);
}

void gm_pickle_number(struct gm_pickle *pickle, uint64_t number)
{
	FILE *out = pickle->out;
	unsigned n = 1;
	if (number < 1u << 8) {
		putc(BININT1, out);
		bytes_write(out, number, 1);
	} else if (number < 1u << 16) {
		putc(BININT2, out);
		bytes_write(out, number, 2);
	} else if (number < 1u << 31) {
		putc(BININT, out);
		bytes_write(out, number, 4);
	} else {
		/* Signed: the highest bit of the last byte must be 0. */
		while (n < 9 && (n == 8 ? number >> 63 : number >> (8 * n - 1)))
			n++;
		putc(LONG1, out);
		putc((int)n, out);
		bytes_write(out, number, n < 8 ? n : 8);
		if (n == 9)
			putc(0, out);
	}
}

void gm_pickle_bool(struct gm_pickle *pickle, int value)
{
	putc(value ? NEWTRUE : NEWFALSE, pickle->out);
}

void gm_pickle_text(struct gm_pickle *pickle, const char *text)
{
	static char escaped[TEXT_MOST];
	gm_escape(text, escaped, sizeof escaped);
	const size_t n = strlen(escaped);
	putc(n < 256 ? SHORT_BINUNICODE : BINUNICODE, pickle->out);
	bytes_write(pickle->out, n, n < 256 ? 1 : 4);
	fwrite(escaped, 1, n, pickle->out);
}

void gm_pickle_list(struct gm_pickle *pickle)
{
	putc(EMPTY_LIST, pickle->out);
}

void gm_pickle_dict(struct gm_pickle *pickle)
{
	putc(EMPTY_DICT, pickle->out);
}

void gm_pickle_begin(struct gm_pickle *pickle)
{
	putc(MARK, pickle->out);
}

void gm_pickle_list_end(struct gm_pickle *pickle)
{
	putc(APPENDS, pickle->out);
}

void gm_pickle_dict_end(struct gm_pickle *pickle)
{
	putc(SETITEMS, pickle->out);
}

void gm_pickle_pair(struct gm_pickle *pickle)
{
	putc(TUPLE2, pickle->out);
}

uint32_t gm_pickle_keep(struct gm_pickle *pickle)
{
	putc(MEMOIZE, pickle->out);
	return ++pickle->kept;
}

void gm_pickle_again(struct gm_pickle *pickle, uint32_t number)
{
	const uint32_t index = number - 1;
	putc(index < 256 ? BINGET : LONG_BINGET, pickle->out);
	bytes_write(pickle->out, index, index < 256 ? 1 : 4);
}

void gm_pickle_word(struct gm_pickle *pickle, const char *word, uint32_t *number)
{
	if (*number) {
		gm_pickle_again(pickle, *number);
		return;
	}
	gm_pickle_text(pickle, word);
	*number = gm_pickle_keep(pickle);
}
