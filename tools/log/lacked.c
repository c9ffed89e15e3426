/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/lacked.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

/* Own memory by owner, at a refusal. */
static const struct {
	const char *key, *text;
	size_t at;
} owners[] = {
#define GM_OWNER_ROW(member, key, text) {#key, text, offsetof(struct gm_sample, member)},
#include "log/owner.def"
#undef GM_OWNER_ROW
};
enum { OWNERS = sizeof owners / sizeof *owners };

static uint64_t owner_bytes(const struct gm_sample *s, unsigned owner)
{
	return *(const uint64_t *)((const char *)s + owners[owner].at);
}

static size_t text_add(char *text, size_t room, size_t n, const char *between, uint64_t bytes,
		       const char *after)
{
	char size[32];
	if (n < room)
		n += (size_t)snprintf(text + n, room - n, "%s%s%s", between,
				      gm_size_format(bytes, size, sizeof size), after);
	return n;
}

/* "; 6.00 GiB live, 1.00 GiB cuMemCreate": owners that have some. */
static void owners_text(const struct gm_sample *s, char *text, size_t room)
{
	size_t n = 0;
	char after[64];
	for (unsigned i = 0; i < OWNERS; i++) {
		if (!owner_bytes(s, i))
			continue;
		snprintf(after, sizeof after, " %s", owners[i].text);
		n = text_add(text, room, n, n ? ", " : "; ", owner_bytes(s, i), after);
		if (strcmp(owners[i].key, "idle") == 0)
			n = text_add(text, room, n, " (largest ", s->largest_idle, ")");
	}
}

static uint64_t refusal_rest(const struct gm_sample *s)
{
	uint64_t known = s->device_free;
	for (unsigned i = 0; i < OWNERS; i++)
		known += owner_bytes(s, i);
	return s->device_total > known ? s->device_total - known : 0;
}

const char *gm_lacked_text(const struct gm_figures_refusal *r, char *text, size_t room)
{
	const struct gm_sample *s = &r->sample;
	char asked[48] = "size not known", own[512] = "", rest[128] = "";
	if (r->asked)
		text_add(asked, sizeof asked, 0, "", r->asked, " asked");
	owners_text(s, own, sizeof own);
	if (s->known & GM_SAMPLE_FREE || s->device_free) {
		const size_t n =
			text_add(rest, sizeof rest, 0, "; ", refusal_rest(s), " of others");
		text_add(rest, sizeof rest, n, ", ", s->device_free, " free");
	}
	snprintf(text, room, "%s%s%s%s%s", r->call, *r->call ? ", " : "", asked, own, rest);
	return text;
}

void gm_lacked_show(struct gm_emit *emit, const struct gm_figures_refusal *r)
{
	const struct gm_sample *s = &r->sample;
	const bool known = s->device_free || s->known & GM_SAMPLE_FREE;
	gm_emit_value(emit, "call", *r->call ? GM_TEXT(r->call) : GM_NONE);
	gm_emit_value(emit, "asked", r->asked ? GM_BYTES(r->asked) : GM_NONE);
	gm_emit_value(emit, "device_free", known ? GM_BYTES(s->device_free) : GM_NONE);
	gm_emit_value(emit, "managed", GM_BYTES(s->managed));
	gm_emit_object(emit, "owners");
	for (unsigned o = 0; o < OWNERS; o++)
		gm_emit_value(emit, owners[o].key, GM_BYTES(owner_bytes(s, o)));
	gm_emit_value(emit, known ? "others" : "not_known", GM_BYTES(refusal_rest(s)));
	gm_emit_end(emit);
	gm_emit_value(emit, "limit", GM_BYTES(s->limit));
}
