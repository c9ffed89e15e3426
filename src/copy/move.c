/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/move.h"

#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <emmintrin.h>

#define LINE ((size_t)64)

/* pre: `to` is a multiple of LINE. */
static void lines_move(char *to, const char *from, size_t lines)
{
	for (; lines; lines--, to += LINE, from += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)from);
		__m128i b = _mm_loadu_si128((const __m128i *)from + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)from + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)from + 3);
		_mm_stream_si128((__m128i *)to, a);
		_mm_stream_si128((__m128i *)to + 1, b);
		_mm_stream_si128((__m128i *)to + 2, c);
		_mm_stream_si128((__m128i *)to + 3, d);
	}
}

void gm_move_past_caches(void *to, const void *from, size_t size)
{
	size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
	char *out = to;
	const char *in = from;
	if (size < head + LINE) {
		memcpy(to, from, size);
		return;
	}
	memcpy(out, in, head);
	size_t lines = (size - head) / LINE, end = head + lines * LINE;
	lines_move(out + head, in + head, lines);
	memcpy(out + end, in + end, size - end);
	_mm_sfence();
}
#else
void gm_move_past_caches(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
}
#endif
