/* SPDX-License-Identifier: BSD-3-Clause */
#include "advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "log/frag.h"
#include "tool.h"

/* Past this share of the memory mapped, idle memory that cannot be given back is worth a line. */
#define UNRECLAIMABLE_PERCENT 25
/* An idle pool with this much external fragmentation (ppm) has it in pieces. */
#define PIECES_PPM 300000

struct text {
	char size[32], other[32], count[32];
};

/* One rule: fill `out` and return true if it applies. */
typedef bool rule(const struct gm_figures *figures, char *out, struct text *text);

static bool say(char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool say(char *out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(out, GM_ADVICE_LENGTH, format, args);
	va_end(args);
	return true;
}

static const char *size(uint64_t bytes, char buf[32])
{
	return gm_size_format(bytes, buf, 32);
}

static bool records_lost(const struct gm_figures *figures, char *out, struct text *text)
{
	if (figures->about->dropped == 0)
		return false;
	return say(out,
		   "%s records are missing from this log (its limit, or a full disk): calls are "
		   "counted in full, their times are not. GPUMEM_LOG_LIMIT raises the limit.",
		   gm_tool_count(figures->about->dropped, text->count, sizeof text->count));
}

/* Was there enough, in pieces? Did somebody else have it? Or is the device simply full? */
static bool out_of_memory(const struct gm_figures *figures, char *out, struct text *text)
{
	if (figures->refusals.n == 0)
		return false;
	const struct gm_figures_refusal *first = &figures->refusals.at[0];
	const struct gm_sample *s = &first->sample;
	size(first->asked, text->size);
	if (s->device_total && first->asked > s->device_total)
		return say(out, "Out of memory: %s was asked for, more than the device's %s.",
			   text->size, size(s->device_total, text->other));
	if (s->idle >= first->asked)
		return say(out,
			   "Out of memory: %s was asked for while %s was idle, the largest piece "
			   "too small: the pool is fragmented.",
			   text->size, size(s->idle, text->other));
	if (s->limit && s->device_total > s->limit && s->mapped + first->asked > s->limit)
		return say(out,
			   "Out of memory: %s was asked for, and GPUMEM_LIMIT keeps this process "
			   "at %s.",
			   text->size, size(s->limit, text->other));
	uint64_t known = s->mapped + s->lent + s->device_free;
	if (s->device_total > known && s->device_total - known > s->mapped)
		return say(out,
			   "Out of memory: %s was asked for, and %s of the device is neither the "
			   "pool's nor free: look for other processes with nvidia-smi.",
			   text->size, size(s->device_total - known, text->other));
	return say(out, "Out of memory: %s was asked for while %s was in use.", text->size,
		   size(s->handed_out, text->other));
}

static bool bounds(const struct gm_figures *figures, char *out, struct text *text)
{
	uint64_t refused = gm_figures_process(figures, GM_C_bounds_refused);
	if (refused == 0)
		return false;
	return say(out,
		   "%s copies or memsets were refused, for they left their block or touched a free "
		   "one: the program has a bug there.",
		   gm_tool_count(refused, text->count, sizeof text->count));
}

static bool ended_badly(const struct gm_figures *figures, char *out, struct text *text)
{
	(void)text;
	if (figures->about->closed || figures->about->running)
		return false;
	return say(out, "The program was killed or crashed: the figures are those of its last "
			"sign of life.");
}

static bool to_the_driver(const struct gm_figures *figures, char *out, struct text *text)
{
	uint64_t driver = gm_figures_sum(figures, GM_C_allocate_driver);
	if (driver == 0 || strcmp(figures->about->mode, "pool") != 0)
		return false;
	return say(out,
		   "%s of %s allocations went to the driver, because the pool could not serve "
		   "them; GPUMEM_VERBOSE=3 says more.",
		   gm_tool_count(driver, text->count, sizeof text->count),
		   gm_tool_count(gm_figures_sum(figures, GM_C_allocate_calls), text->size,
				 sizeof text->size));
}

static bool only_watched(const struct gm_figures *figures, char *out, struct text *text)
{
	(void)text;
	if (strcmp(figures->about->mode, "trace") != 0)
		return false;
	return say(out, "This run was only watched; all memory was the driver's. "
			"'gpumemstat record' without --trace runs it on the pool.");
}

static bool stuck(const struct gm_figures *figures, char *out, struct text *text)
{
	for (unsigned i = 0; i < figures->n_devices; i++) {
		const struct gm_sample *s = &figures->devices[i].last;
		if (!figures->devices[i].sampled || s->mapped == 0 ||
		    s->unreclaimable / UNRECLAIMABLE_PERCENT < s->mapped / 100)
			continue;
		return say(
			out,
			"Device %u: %s of %s mapped is idle in chunks that also hold live blocks "
			"and cannot be given back: blocks of long and short life are mixed.",
			i, size(s->unreclaimable, text->size), size(s->mapped, text->other));
	}
	return false;
}

static bool in_pieces(const struct gm_figures *figures, char *out, struct text *text)
{
	for (unsigned i = 0; i < figures->n_devices; i++) {
		const struct gm_sample *s = &figures->devices[i].last;
		if (!figures->devices[i].sampled ||
		    gm_frag_external_ppm(s->idle, s->largest_after_remap) < PIECES_PPM ||
		    s->idle / 10 < s->mapped / 100)
			continue;
		return say(out,
			   "Device %u: %s is idle, the largest piece of it %s even after "
			   "remapping: larger blocks need new memory.",
			   i, size(s->idle, text->size), size(s->largest_after_remap, text->other));
	}
	return false;
}

static bool never_freed(const struct gm_figures *figures, char *out, struct text *text)
{
	uint64_t blocks = gm_figures_sum(figures, GM_C_live_blocks);
	if (blocks == 0 || !figures->about->closed)
		return false;
	return say(out, "%s block%s, %s, %s never freed.",
		   gm_tool_count(blocks, text->count, sizeof text->count), blocks == 1 ? "" : "s",
		   size(gm_figures_sum(figures, GM_C_requested), text->size),
		   blocks == 1 ? "was" : "were");
}

static bool no_events(const struct gm_figures *figures, char *out, struct text *text)
{
	(void)text;
	if (strcmp(figures->about->level, "events") == 0)
		return false;
	return say(out, "No events in this log: 'gpumemstat record COMMAND' also keeps every call, "
			"with its size and time.");
}

static bool no_memory_used(const struct gm_figures *figures, char *out, struct text *text)
{
	(void)text;
	if (gm_figures_sum(figures, GM_C_allocate_calls) > 0)
		return false;
	return say(out, "The program started CUDA and allocated no device memory.");
}

static rule *const rules[] = {
	out_of_memory, bounds,	  ended_badly, records_lost,   to_the_driver, only_watched,
	stuck,	       in_pieces, never_freed, no_memory_used, no_events,
};
_Static_assert(sizeof rules / sizeof *rules <= GM_ADVICE_MOST, "callers have room for all");

unsigned gm_advice(const struct gm_figures *figures, char text[][GM_ADVICE_LENGTH])
{
	struct text scratch;
	unsigned n = 0;
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		n += rules[i](figures, text[n], &scratch);
	if (n == 0)
		say(text[n++], "Nothing stands out. 'gpumemstat --json %s' has every counter.",
		    figures->about->path);
	return n;
}
