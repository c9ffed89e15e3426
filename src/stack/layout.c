/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/layout.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = GM_LAYOUT_NONE };

static const struct gm_layout layouts[] = {
	/* version, current, within, code, back, at, unit, owner, owner_none, ascii, wide */
	{0x0309, 24, NONE, 32, 24, 104, 1, NONE, 0, 48, 72, GM_LINES_LNOTAB},
	{0x030a, 24, NONE, 32, 24, 96, 2, NONE, 0, 48, 72, GM_LINES_RANGES},
	{0x030b, 56, 8, 32, 48, 56, 0, 69, 9, 48, 72, GM_LINES_LOCATIONS},
	{0x030c, 56, 0, 0, 8, 56, 0, 70, 3, 40, 56, GM_LINES_LOCATIONS},
	{0x030d, 72, NONE, 0, 8, 56, 0, 70, 3, 40, 56, GM_LINES_LOCATIONS},
	{0x030e, 72, NONE, 0, 8, 56, 0, 74, 3, 40, 56, GM_LINES_LOCATIONS},
};

/* Offsets in all releases: in a type, and in a row of its members. */
enum { SIZE = 32, MEMBERS = 240, MEMBER_OFFSET = 16, MEMBER = 40 };

/* The member before the instructions; the same distance since 3.11. */
enum { FIRST_REAL_BEFORE_BEGIN = 16 };

/* "3.12.1 ..." as 0x030c; 0: another form. */
static unsigned version_parse(const char *text)
{
	char *end;
	const unsigned long major = strtoul(text, &end, 10);
	return *end == '.' ? (unsigned)(major << 8 | strtoul(end + 1, NULL, 10)) : 0;
}

const struct gm_layout *gm_layout_find(const char *version)
{
	const unsigned wished = sizeof(void *) == 8 ? version_parse(version) : 0;
	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
		if (layouts[i].version == wished)
			return &layouts[i];
	return NULL;
}

static int member_find(const void *type, const char *wished)
{
	const char *members, *name;
	memcpy(&members, (const char *)type + MEMBERS, sizeof members);
	for (; members; members += MEMBER) {
		int64_t offset;
		memcpy(&name, members, sizeof name);
		if (!name)
			break;
		memcpy(&offset, members + MEMBER_OFFSET, sizeof offset);
		if (!strcmp(name, wished))
			return (int)offset;
	}
	return NONE;
}

static int member_find_either(const void *type, const char *wished, const char *else_wished)
{
	const int found = member_find(type, wished);
	return found == NONE ? member_find(type, else_wished) : found;
}

bool gm_layout_find_code(const struct gm_layout *layout, const void *code_type,
			 struct gm_layout_code *out)
{
	*out = (struct gm_layout_code){
		.file = member_find(code_type, "co_filename"),
		.name = member_find_either(code_type, "co_qualname", "co_name"),
		.lines = member_find_either(code_type, "co_linetable", "co_lnotab"),
		.first = member_find(code_type, "co_firstlineno"),
		.first_real = NONE,
	};
	memcpy(&out->begin, (const char *)code_type + SIZE, sizeof out->begin);
	if (!layout->unit)
		out->first_real = (int)out->begin - FIRST_REAL_BEFORE_BEGIN;
	return out->file != NONE && out->name != NONE && out->lines != NONE && out->first != NONE;
}
