/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat diff: a verdict, and changes of call sites, findings and counters from one run to
 * another. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/diff/diff.h"
#include "tools/finding/findings.h"

/* --- findings --- */

/* The first finding of each rule in a run. */
struct found {
	bool has[GM_FINDINGS_MOST];
	struct gm_finding of[GM_FINDINGS_MOST]; /* in the order of findings.def */
};

static void found_add(struct found *found, const struct gm_finding *findings, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const unsigned rule = gm_finding_index(&findings[i]);
		if (!found->has[rule])
			found->of[rule] = findings[i];
		found->has[rule] = true;
	}
}

static void found_make(struct found *found, const struct gm_diff_run *run)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	*found = (struct found){0};
	found_add(found, findings, gm_findings_of_logs(run->logs, run->n, findings));
	for (size_t i = 0; i < run->n; i++)
		found_add(found, findings, gm_findings_of_log(&run->logs[i].figures, findings));
}

/* Show the findings of `a` that `b` lacks. Returns their number. */
static unsigned found_show(struct gm_emit *emit, const char *label, const struct found *a,
			   const struct found *b)
{
	char text[512];
	unsigned n = 0;
	gm_emit_list(emit, label);
	for (unsigned i = 0; i < GM_FINDINGS_MOST; i++) {
		if (!a->has[i] || b->has[i])
			continue;
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "rule", GM_TEXT(a->of[i].rule->name));
		gm_emit_value(emit, "text", GM_TEXT(gm_finding_text(&a->of[i], text, sizeof text)));
		gm_emit_end(emit);
		gm_emit_line(emit, n++ ? "" : label, "%s", text);
	}
	gm_emit_end(emit);
	return n;
}

static void findings_show(struct gm_emit *emit, const struct gm_diff_run *old,
			  const struct gm_diff_run *new)
{
	struct found before, after;
	found_make(&before, old);
	found_make(&after, new);
	gm_emit_break(emit);
	gm_emit_object(emit, "findings");
	unsigned n = found_show(emit, "new", &after, &before);
	n += found_show(emit, "gone", &before, &after);
	gm_emit_end(emit);
	if (n == 0)
		gm_emit_line(emit, "findings", "the same");
}

/* --- the verdict --- */

static uint64_t run_peak(const struct gm_diff_run *run)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < run->n; i++)
		sum += gm_figures_requested_peak(&run->logs[i].figures);
	return sum;
}

/* Blocks that leaked, as the finding never_freed counts them. False: not known, because a process
 * did not end, or kept PyTorch's cache. */
static bool run_leaks(const struct gm_diff_run *run, uint64_t *blocks)
{
	bool known = true;
	*blocks = 0;
	for (size_t i = 0; i < run->n; i++) {
		const struct gm_figures *f = &run->logs[i].figures;
		known &= f->about->closed && !gm_figures_process(f, GM_C_torch_cache);
		for (unsigned d = 0; d < f->n_devices; d++)
			*blocks += gm_figures_alive(f, d);
	}
	return known;
}

static void verdict_json(struct gm_emit *emit, const char *key, struct gm_value old,
			 struct gm_value new)
{
	gm_emit_object(emit, key);
	gm_emit_value(emit, "old", old);
	gm_emit_value(emit, "new", new);
	gm_emit_end(emit);
}

/* "+24.0% (1.20 GiB -> 1.50 GiB)", "as before (1.20 GiB)" */
static char *peak_text(const struct gm_emit *emit, const struct gm_diff_row *peak, char *buf,
		       size_t n)
{
	char old[32], new[32], ratio[32];
	gm_value_format(GM_BYTES(peak->old), emit->options->unit, old, sizeof old);
	gm_value_format(GM_BYTES(peak->new), emit->options->unit, new, sizeof new);
	if (peak->old == peak->new)
		snprintf(buf, n, "as before (%s)", new);
	else if (peak->old && peak->new)
		snprintf(buf, n, "%s (%s -> %s)", gm_diff_ratio(peak, ratio, sizeof ratio), old,
			 new);
	else
		snprintf(buf, n, "%s (%s before)", new, old);
	return buf;
}

/* "3 more blocks never freed (5 before)", "all blocks freed, as before" */
static char *leaks_text(const struct gm_diff_row *leaks, bool known, bool known_old, char *buf,
			size_t n)
{
	char count[32], before[32];
	const bool more = leaks->new > leaks->old;
	const uint64_t change = more ? leaks->new - leaks->old : leaks->old - leaks->new;
	gm_tool_count(leaks->old, before, sizeof before);
	if (!known)
		snprintf(buf, n, "not known which blocks were never freed");
	else if (!leaks->new && (!leaks->old || !known_old))
		snprintf(buf, n, "all blocks freed%s", known_old ? ", as before" : "");
	else if (!leaks->new)
		snprintf(buf, n, "all blocks freed (%s never freed before)", before);
	else if (!known_old)
		snprintf(buf, n, "%s block%s never freed (not known before)",
			 gm_tool_count(leaks->new, count, sizeof count),
			 leaks->new == 1 ? "" : "s");
	else if (!change)
		snprintf(buf, n, "%s block%s never freed, as before", before,
			 leaks->new == 1 ? "" : "s");
	else
		snprintf(buf, n, "%s %s block%s never freed%s%s%s",
			 gm_tool_count(change, count, sizeof count), more ? "more" : "fewer",
			 change == 1 ? "" : "s", leaks->old ? " (" : "", leaks->old ? before : "",
			 leaks->old ? " before)" : "");
	return buf;
}

/* Calls of any kind. */
static uint64_t run_refused(const struct gm_diff_run *run)
{
	return gm_diff_counter(run, GM_C_allocate_failed) +
	       gm_diff_counter(run, GM_C_refused_calls);
}

/* "; 2 allocations failed (1 before)"; "": none in both. */
static char *refused_text(const struct gm_diff_row *refused, char *buf, size_t n)
{
	char count[32], before[32];
	*buf = '\0';
	if (refused->new || refused->old)
		snprintf(buf, n, "; %s allocation%s failed (%s before)",
			 gm_tool_count(refused->new, count, sizeof count),
			 refused->new == 1 ? "" : "s",
			 gm_tool_count(refused->old, before, sizeof before));
	return buf;
}

/* "peak +24.0% (1.20 GiB -> 1.50 GiB); 3 more blocks never freed (1 before)" */
static void verdict_show(struct gm_emit *emit, const struct gm_diff_run *old,
			 const struct gm_diff_run *new)
{
	const struct gm_diff_row peak = {.old = run_peak(old), .new = run_peak(new)};
	const struct gm_diff_row refused = {.old = run_refused(old), .new = run_refused(new)};
	struct gm_diff_row leaks = {0};
	const bool known = run_leaks(new, &leaks.new), known_old = run_leaks(old, &leaks.old);
	char text[3][128];
	gm_emit_object(emit, "verdict");
	verdict_json(emit, "requested_peak", GM_BYTES(peak.old), GM_BYTES(peak.new));
	verdict_json(emit, "leaked_blocks", known_old ? GM_COUNT(leaks.old) : GM_NONE,
		     known ? GM_COUNT(leaks.new) : GM_NONE);
	verdict_json(emit, "allocate_failed", GM_COUNT(refused.old), GM_COUNT(refused.new));
	gm_emit_end(emit);
	gm_emit_line(emit, "verdict", "peak %s; %s%s",
		     peak_text(emit, &peak, text[0], sizeof *text),
		     leaks_text(&leaks, known, known_old, text[1], sizeof *text),
		     refused_text(&refused, text[2], sizeof *text));
	gm_emit_break(emit);
}

/* --- the runs --- */

static void run_show(struct gm_emit *emit, const char *label, const struct gm_diff_run *run)
{
	const struct gm_figures *first = &run->logs[0].figures;
	char more[32] = "", length[32];
	if (run->n > 1)
		snprintf(more, sizeof more, " and %zu more", run->n - 1);
	gm_value_format(GM_NS(gm_diff_length(run)), 0, length, sizeof length);
	gm_emit_object(emit, label);
	gm_emit_list(emit, "paths");
	for (size_t i = 0; i < run->n; i++)
		gm_emit_value(emit, NULL, GM_TEXT(run->logs[i].figures.about->path));
	gm_emit_end(emit);
	gm_emit_value(emit, "program", GM_TEXT(first->about->program));
	gm_emit_value(emit, "length_ns", GM_NS(gm_diff_length(run)));
	gm_emit_end(emit);
	gm_emit_line(emit, label, "%s%s: %s, %s, %s", first->about->path, more,
		     first->about->program, length, gm_figures_end(first));
}

static void runs_show(struct gm_emit *emit, const struct gm_diff_run *old,
		      const struct gm_diff_run *new)
{
	verdict_show(emit, old, new);
	run_show(emit, "old", old);
	run_show(emit, "new", new);
	gm_diff_show_sites(emit, old, new);
	findings_show(emit, old, new);
	gm_diff_show_counters(emit, old, new);
}

int gm_diff_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct gm_emit emit;
	struct gm_logs runs[2];
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (argc - first > 2)
		return gm_tool_extra(self, argv[first + 2]);
	if (argc - first < 2)
		return gm_tool_usage(self->name, "%s: expected OLD and NEW", self->name);
	int status = gm_logs_open(&runs[0], &options, argv + first, 1) |
		     gm_logs_open(&runs[1], &options, argv + first + 1, 1);
	if (runs[0].n > 0 && runs[1].n > 0) {
		gm_emit_open(&emit, stdout, &options);
		runs_show(&emit, &(struct gm_diff_run){runs[0].at, runs[0].n},
			  &(struct gm_diff_run){runs[1].at, runs[1].n});
		status |= gm_emit_close(&emit);
	}
	status |= gm_logs_close(&runs[0]);
	return status | gm_logs_close(&runs[1]);
}
