/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/moment.h"

#include <string.h>

#include "base/size.h"
#include "log/read.h"
#include "tools/log/blocks.h"

/* "FROM..TO", with the dots at `dots`. */
static bool range_parse(const char *text, const char *dots, struct gm_moment_wish *wish)
{
	char from[32];
	const size_t n = (size_t)(dots - text);
	if (n >= sizeof from)
		return false;
	memcpy(from, text, n);
	from[n] = '\0';
	wish->range = true;
	return gm_time_parse(from, &wish->from) && gm_time_parse(dots + 2, &wish->time) &&
	       wish->from <= wish->time;
}

bool gm_moment_parse(const char *text, struct gm_moment_wish *out)
{
	static const char *const names[] = {"peak", "oom", "exit"};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (struct gm_moment_wish){.kind = (enum gm_moment_kind)i};
			return true;
		}
	struct gm_moment_wish wish = {.kind = GM_MOMENT_TIME};
	const char *dots = strstr(text, "..");
	if (dots ? !range_parse(text, dots, &wish) : !gm_time_parse(text, &wish.time))
		return false;
	*out = wish;
	return true;
}

static bool peak_find(struct gm_log_file *file, unsigned device, bool driver, enum gm_level level,
		      struct gm_moment *out)
{
	struct gm_blocks blocks = {0};
	struct gm_blocks_one block;
	struct gm_log_entry entry;
	uint64_t alive = 0, most = 0, n = 0;
	while (gm_log_read_next(file, &entry)) {
		n++;
		const struct gm_record r = gm_level_view(level, &entry.record);
		const enum gm_blocks_change change =
			gm_blocks_follow(&blocks, &r, (int)device, &block);
		if ((change != GM_BLOCKS_BORN && change != GM_BLOCKS_GONE) ||
		    (block.driver && !driver))
			continue;
		alive += change == GM_BLOCKS_BORN ? block.size : -block.size;
		if (alive > most) {
			most = alive;
			*out = (struct gm_moment){n, entry.record.time};
		}
	}
	gm_blocks_free(&blocks);
	return most > 0;
}

/* Of tensors, the first time that the cache gave up: refusals before it had no effect. */
static bool refusal_find(struct gm_log_file *file, unsigned device, enum gm_level level,
			 struct gm_moment *out)
{
	struct gm_log_entry entry;
	bool found = false;
	for (uint64_t n = 1; gm_log_read_next(file, &entry); n++) {
		const struct gm_record *r = &entry.record;
		const bool last = level == GM_LEVEL_TENSORS ? r->kind == GM_RECORD_TENSOR_REFUSED
							    : r->kind == GM_RECORD_OUT_OF_MEMORY;
		if (r->device != device || (!last && (found || r->kind != GM_RECORD_OUT_OF_MEMORY)))
			continue;
		*out = (struct gm_moment){n, r->time};
		found = true;
		if (last)
			break;
	}
	return found;
}

/* Count the records up to `until`; UINT64_MAX: all records. */
static bool time_find(struct gm_log_file *file, uint64_t until, struct gm_moment *out)
{
	struct gm_log_entry entry;
	*out = (struct gm_moment){0, gm_log_read_about(file)->end};
	if (until < out->time)
		out->time = until;
	while (gm_log_read_next(file, &entry) && entry.record.time <= until)
		out->records++;
	return true;
}

bool gm_moment_find(struct gm_log_file *file, unsigned device, bool driver,
		    const struct gm_moment_wish *wish, struct gm_moment *out)
{
	const uint64_t start = gm_log_read_about(file)->start;
	gm_log_read_rewind(file);
	if (wish->kind == GM_MOMENT_PEAK)
		return peak_find(file, device, driver, wish->level, out);
	if (wish->kind == GM_MOMENT_OOM)
		return refusal_find(file, device, wish->level, out);
	const bool exit = wish->kind == GM_MOMENT_EXIT || wish->time > UINT64_MAX - start;
	return time_find(file, exit ? UINT64_MAX : start + wish->time, out);
}
