/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output/pack.h"

#include <stdlib.h>

#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

void gm_pack_number(struct gm_pack *pack, uint64_t n)
{
	for (;; n >>= 7) {
		if (!gm_array_push(&pack->bytes, (uint8_t)((n & 127) | (n > 127 ? 128 : 0))))
			memory_exhausted();
		if (n <= 127)
			return;
	}
}

void gm_pack_difference(struct gm_pack *pack, int64_t n)
{
	gm_pack_number(pack, (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0));
}

static char *base64_make(const uint8_t *at, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;
	if (!text)
		memory_exhausted();
	for (size_t i = 0; i < n; i += 3) {
		const size_t rest = n - i;
		const uint32_t three = (uint32_t)at[i] << 16 |
				       (rest > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
				       (rest > 2 ? at[i + 2] : 0);
		*to++ = digits[three >> 18];
		*to++ = digits[three >> 12 & 63];
		*to++ = rest > 1 ? digits[three >> 6 & 63] : '=';
		*to++ = rest > 2 ? digits[three & 63] : '=';
	}
	*to = '\0';
	return text;
}

char *gm_pack_end(struct gm_pack *pack)
{
	char *text = base64_make(pack->bytes.at, pack->bytes.n);
	gm_array_free(&pack->bytes);
	return text;
}
