/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The length of a valid UTF-8 sequence and its code point; 0 if there is none. */
static size_t utf8_decode(const unsigned char *at, uint32_t *point)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc0 ? 2 : 0;
	if (!n || at[0] >= 0xf8)
		return 0;
	*point = at[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (at[i] & 0x3fu);
	}
	bool surrogate = *point >= 0xd800 && *point <= 0xdfff;
	return *point >= least[n] && *point <= 0x10ffff && !surrogate ? n : 0;
}

/* Control characters, and characters that hide or reverse the text beside them. */
static bool point_is_harmful(uint32_t point)
{
	return point < 0xa0 || point == 0xad || point == 0x61c ||
	       (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
	       (point >= 0x2060 && point <= 0x206f) || point == 0xfeff ||
	       (point >= 0xfff0 && point <= 0xfffb) || point >= 0xe0000;
}

size_t gm_escape(const char *text, char *buf, size_t n)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t length = 0, used = 0;
	while (*at) {
		char piece[8];
		uint32_t point;
		size_t taken = 1, sequence = utf8_decode(at, &point);
		if (sequence && !point_is_harmful(point)) {
			taken = sequence;
			memcpy(piece, at, sequence);
			piece[sequence] = 0;
		} else if (*at == '\n' || *at == '\t' || *at == '\\') {
			snprintf(piece, sizeof piece, "\\%c",
				 *at == '\n'   ? 'n'
				 : *at == '\t' ? 't'
					       : '\\');
		} else if (*at >= 0x20 && *at < 0x7f) {
			snprintf(piece, sizeof piece, "%c", *at);
		} else {
			snprintf(piece, sizeof piece, "\\x%02x", *at);
		}
		size_t m = strlen(piece);
		if (length + m < n && used == length) { /* never part of an escape */
			memcpy(buf + used, piece, m);
			used += m;
		}
		length += m;
		at += taken;
	}
	if (n)
		buf[used] = 0;
	return length;
}
