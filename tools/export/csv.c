/* SPDX-License-Identifier: BSD-3-Clause */
/* The events of a log, one a row: gpumemstat(1), FORMATS. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "log/format.h"
#include "tools/export/export.h"
#include "tools/log/level.h"

static const char *const names[256] = {
#define GM_KIND(value, name, help) [value] = #name,
	GM_RECORD_KINDS(GM_KIND)
#undef GM_KIND
};

static const struct {
	unsigned flag;
	const char *word;
} flags[] = {
	{GM_RECORD_DRIVER, "driver"}, {GM_RECORD_H2D, "h2d"},
	{GM_RECORD_D2H, "d2h"},	      {GM_RECORD_D2D, "d2d"},
	{GM_RECORD_H2H, "h2h"},	      {GM_RECORD_PEER, "peer"},
	{GM_RECORD_ASYNC, "async"},   {GM_RECORD_MEMSET, "memset"},
	{GM_RECORD_OWN, "own"},	      {GM_RECORD_CONTEXT_GONE, "context_gone"},
	{GM_RECORD_LAST, "last"},     {GM_RECORD_REST, "rest"},
	{GM_RECORD_LENT, "lent"},     {GM_RECORD_RETURNED, "returned"},
};

static void name_write(FILE *out, unsigned kind)
{
	for (const char *c = names[kind] ? names[kind] : "?"; *c; c++)
		putc(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c, out);
}

/* A text of the log: escaped as for a terminal, in quotes. */
static void text_write(FILE *out, const char *text)
{
	static char escaped[4 * GM_STRING_MAX + 1];
	if (!text || !*text)
		return;
	gm_escape(text, escaped, sizeof escaped);
	putc('"', out);
	for (const char *c = escaped; *c; c++) {
		if (*c == '"')
			putc('"', out);
		putc(*c, out);
	}
	putc('"', out);
}

static void flags_write(FILE *out, unsigned set)
{
	const char *between = "";
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (set & flags[i].flag) {
			fprintf(out, "%s%s", between, flags[i].word);
			between = " ";
		}
}

/* Kinds whose last member is a stack, and whose rows have a level. */
enum { STACK = 1, BLOCK = 2, TENSOR = 4, REPEATED = 8 };
static const unsigned char traits[256] = {
	[GM_RECORD_ALLOCATE] = STACK | BLOCK,
	[GM_RECORD_ALLOCATE_FAILED] = STACK | BLOCK,
	[GM_RECORD_FREE] = BLOCK,
	[GM_RECORD_OUT_OF_MEMORY] = STACK,
	[GM_RECORD_LIVE] = STACK | BLOCK | REPEATED,
	[GM_RECORD_HELD] = STACK | BLOCK,
	[GM_RECORD_TENSOR] = STACK | TENSOR,
	[GM_RECORD_TENSOR_FREE] = TENSOR,
	[GM_RECORD_TENSOR_LIVE] = STACK | TENSOR | REPEATED,
	[GM_RECORD_TENSOR_REFUSED] = STACK | TENSOR,
};

static bool record_has_stack(const struct gm_record *r)
{
	return traits[r->kind] & STACK;
}

static void level_write(FILE *out, const struct gm_record *r)
{
	if (traits[r->kind] & (BLOCK | TENSOR))
		fprintf(out, ",%s",
			gm_level_name(traits[r->kind] & TENSOR ? GM_LEVEL_TENSORS
							       : GM_LEVEL_BLOCKS));
	else
		putc(',', out);
}

static void sample_write(FILE *out, const struct gm_sample *s)
{
	if (s)
		fprintf(out,
			"%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
			",%" PRIu64 ",%" PRIu64,
			s->requested, s->handed_out, s->mapped, s->idle, s->retired, s->lent,
			s->largest_idle, s->unreclaimable);
	else
		fputs(",,,,,,,", out);
}

static void row_write(FILE *out, const struct gm_figures *f, const struct gm_log_entry *entry,
		      enum gm_level level)
{
	const struct gm_record *r = &entry->record;
	const struct gm_log_about *about = f->about;
	fprintf(out, "%" PRIu64 ",", gm_figures_at(f, r->time));
	name_write(out, r->kind);
	putc(',', out);
	if (r->device != 255)
		fprintf(out, "%u", r->device);
	fprintf(out, ",%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",",
		r->id, r->address, r->size, r->held, r->context, r->thread);
	if (r->hook && r->hook <= about->n_hooks)
		text_write(out, about->hooks[r->hook - 1]);
	fprintf(out, ",%" PRIu32 ",%u,", r->duration, r->status);
	flags_write(out, r->flags);
	putc(',', out);
	if (record_has_stack(r) && r->stack)
		fprintf(out, "%" PRIu32, r->stack);
	putc(',', out);
	sample_write(out, entry->sample);
	putc(',', out);
	if (!record_has_stack(r) && r->string)
		text_write(out, gm_log_read_string(f->file, r->string));
	if (level == GM_LEVEL_TENSORS)
		level_write(out, r);
	putc('\n', out);
}

void gm_export_csv(FILE *out, const struct gm_options *options, struct gm_figures *figures)
{
	struct gm_log_entry entry;
	const struct gm_log_about *about = figures->about;
	const bool complete = about->since <= about->start && !about->recording;
	const enum gm_level level = gm_level_of(figures->file);
	(void)options;
	fputs("time_ns,event,device,id,address,size,held,context,thread,call,duration_ns,status,"
	      "flags,stack,requested,handed_out,mapped,idle,retired,lent,largest_idle,"
	      "unreclaimable,text",
	      out);
	fputs(level == GM_LEVEL_TENSORS ? ",level\n" : "\n", out);
	gm_log_read_rewind(figures->file);
	while (gm_log_read_next(figures->file, &entry))
		/* Each segment repeats what is alive; only those of the first add information. */
		if (!(traits[entry.record.kind] & REPEATED) || (!complete && entry.segment == 0))
			row_write(out, figures, &entry, level);
}
