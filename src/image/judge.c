/* SPDX-License-Identifier: BSD-3-Clause */
#include "judge.h"

#include <stdio.h>
#include <string.h>

static const struct {
	enum gm_image_answer answer;
	const char *text;
} whys[GM_IMAGE_WHYS] = {
#define GM_IMAGE_WHY(name, answer, text) {GM_IMAGE_##answer, text},
#include "image/why.def"
#undef GM_IMAGE_WHY
};

enum role { ALLOCATES, FREES, RUNTIME, RUNTIME_PREFIX };

static const struct {
	const char *name;
	enum role role;
} symbols[GM_IMAGE_SYMBOLS] = {
#define GM_IMAGE_SYMBOL(id, name, role) {name, role},
#include "image/symbols.def"
#undef GM_IMAGE_SYMBOL
};
_Static_assert(GM_IMAGE_SYMBOLS <= 32, "gm_image_verdict.symbols has a bit each");

const char *gm_image_answer_name(enum gm_image_answer answer)
{
	static const char *const names[] = {"no", "unknown", "yes"};
	return names[answer];
}

const char *gm_image_why_text(enum gm_image_why why)
{
	return whys[why].text;
}

const char *gm_image_symbol_name(enum gm_image_symbol symbol)
{
	return symbols[symbol].name;
}

bool gm_image_symbol_is_prefix(enum gm_image_symbol symbol)
{
	return symbols[symbol].role == RUNTIME_PREFIX;
}

bool gm_image_uses_runtime(const struct gm_image_verdict *verdict)
{
	bool uses = verdict->answer == GM_IMAGE_UNKNOWN;
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++)
		uses = uses || (symbols[i].role >= RUNTIME && (verdict->symbols >> i & 1));
	return uses;
}

const char *gm_image_arch_name(uint32_t arch, char buf[GM_IMAGE_ARCH_ROOM])
{
	snprintf(buf, GM_IMAGE_ARCH_ROOM, "%s_%u%s", arch & GM_IMAGE_VIRTUAL ? "compute" : "sm",
		 arch & GM_IMAGE_NUMBER,
		 arch & GM_IMAGE_EXACT ? "a" : (arch & GM_IMAGE_FAMILY ? "f" : ""));
	return buf;
}

void gm_verdict_begin(struct gm_image_verdict *verdict)
{
	*verdict = (struct gm_image_verdict){.answer = GM_IMAGE_NO, .why = GM_IMAGE_WHY_NONE};
}

void gm_verdict_add(struct gm_image_verdict *verdict, enum gm_image_why why)
{
	if (whys[why].answer <= verdict->answer)
		return;
	verdict->answer = whys[why].answer;
	verdict->why = why;
}

static bool symbol_is(enum gm_image_symbol symbol, const char *name, size_t n)
{
	size_t length = strlen(symbols[symbol].name);
	return (n == length || (n > length && gm_image_symbol_is_prefix(symbol))) &&
	       memcmp(symbols[symbol].name, name, length) == 0;
}

void gm_verdict_symbol(struct gm_image_verdict *verdict, const char *name, size_t n)
{
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++) {
		if (!symbol_is((enum gm_image_symbol)i, name, n))
			continue;
		verdict->symbols |= UINT32_C(1) << i;
		if (symbols[i].role == ALLOCATES)
			gm_verdict_add(verdict, GM_IMAGE_WHY_SYMBOL);
		return;
	}
}

void gm_verdict_arch(struct gm_image_verdict *verdict, uint32_t arch)
{
	for (unsigned i = 0; i < verdict->n_archs; i++)
		if (verdict->archs[i] == arch)
			return;
	if (verdict->n_archs < GM_IMAGE_ARCHS)
		verdict->archs[verdict->n_archs++] = arch;
}

void gm_verdict_merge(struct gm_image_verdict *verdict, const struct gm_image_verdict *part)
{
	gm_verdict_add(verdict, part->why);
	verdict->symbols |= part->symbols;
	for (unsigned i = 0; i < part->n_archs; i++)
		gm_verdict_arch(verdict, part->archs[i]);
}

enum gm_image_why gm_verdict_lack(const struct gm_view *view)
{
	return view->open ? GM_IMAGE_WHY_UNREADABLE : GM_IMAGE_WHY_DAMAGED;
}
