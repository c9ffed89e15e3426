/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/lock.h"

struct string {
	uint32_t number;
	bool claimed; /* gm_strings_claim */
	size_t length;
	UT_hash_handle hh;
	char text[];
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_STRING);
static struct string *table;		    /* by text */
static GM_ARRAY(struct string *) by_number; /* from 0 */
static size_t most, kept, claimed;

void gm_strings_limit(size_t bytes)
{
	gm_lock_take(&lock);
	most = bytes;
	gm_lock_release(&lock);
}

static struct string *string_add(const char *text, size_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_STRING);
	if (kept > most || length > most - kept || !gm_array_reserve(&by_number, by_number.n + 1))
		return NULL;
	struct string *string = calloc(1, sizeof *string + length + 1);
	if (!string)
		return NULL;
	memcpy(string->text, text, length);
	string->length = length;
	string->number = (uint32_t)by_number.n + 1;
	HASH_ADD_KEYPTR(hh, table, string->text, length, string);
	if (gm_hash_failed(string)) {
		free(string);
		return NULL;
	}
	by_number.at[by_number.n++] = string;
	kept += length;
	return string;
}

uint32_t gm_strings_number(const char *text, size_t length, bool *fresh)
{
	struct string *string;
	*fresh = false;
	gm_lock_take(&lock);
	HASH_FIND(hh, table, text, length, string);
	if (!string) {
		string = string_add(text, length);
		*fresh = string != NULL;
	}
	gm_lock_release(&lock);
	return string ? string->number : 0;
}

bool gm_strings_claim(uint32_t number, size_t bytes)
{
	bool first = false;
	gm_lock_take(&lock);
	if (number && number <= by_number.n) {
		struct string *string = by_number.at[number - 1];
		first = !string->claimed && claimed + string->length <= bytes;
		claimed += first ? string->length : 0;
		string->claimed = string->claimed || first;
	}
	gm_lock_release(&lock);
	return first;
}

const char *gm_strings_text(uint32_t number, size_t *length)
{
	const struct string *string = NULL;
	gm_lock_take(&lock);
	if (number && number <= by_number.n)
		string = by_number.at[number - 1];
	gm_lock_release(&lock);
	if (!string)
		return NULL;
	*length = string->length;
	return string->text;
}

void gm_strings_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_STRING);
	table = NULL;
	memset(&by_number, 0, sizeof by_number);
	most = kept = claimed = 0;
}
