/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows malloc in kernels: contexts, heaps, images. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/stack/child.h"
#include "tools/summary/summary.h"

#define N(array) (sizeof(array) / sizeof *(array))
enum { CONTEXTS_SHOWN = 3, KERNELS_SHOWN = 10 };

#define C(name) gm_figures_device(f, d, GM_C_##name)

static void context_show(struct gm_emit *emit, const struct gm_figures *f,
			 const struct gm_figures_context *c, bool first)
{
	char time[32];
	/* The times of a takeover's steps are in JSON alone. */
	const char *steps = c->taken ? strstr(c->text, "; us: ") : NULL;
	gm_emit_line(emit, first ? "in kernels" : "", "context %llu: %s%.*s, in %s",
		     (unsigned long long)c->key, c->taken ? "" : "malloc is the driver's: ",
		     steps ? (int)(steps - c->text) : INT_MAX, c->text,
		     gm_time_format(c->ns, time, sizeof time));
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "context", GM_COUNT(c->key));
	gm_emit_value(emit, "ns", GM_NS(gm_figures_at(f, c->time)));
	gm_emit_value(emit, "taken_over", GM_BOOL(c->taken));
	gm_emit_value(emit, "text", GM_TEXT(c->text));
	gm_emit_value(emit, "status", GM_COUNT(c->status));
	gm_emit_value(emit, "heap", c->taken ? GM_COUNT(c->heap) : GM_NONE);
	gm_emit_value(emit, "limit", c->taken ? GM_BYTES(c->limit) : GM_NONE);
	gm_emit_value(emit, "took_ns", GM_NS(c->ns));
	gm_emit_end(emit);
}

static void contexts_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	unsigned shown = 0;
	bool json = emit->options->json;
	gm_emit_list(emit, "contexts");
	for (size_t i = 0; i < f->contexts.n; i++) {
		if (f->contexts.at[i].device != d)
			continue;
		if (json || shown < CONTEXTS_SHOWN)
			context_show(emit, f, &f->contexts.at[i], shown == 0);
		shown++;
	}
	gm_emit_end(emit);
	uint64_t all = C(takeovers) + C(takeovers_native);
	if (all > shown || shown > CONTEXTS_SHOWN)
		gm_emit_line(
			emit, shown ? "" : "in kernels", "%llu takeovers, %llu stayed the driver's",
			(unsigned long long)C(takeovers), (unsigned long long)C(takeovers_native));
}

/* One heap. */
static void heap_json(struct gm_emit *emit, const struct gm_figures_heap *h)
{
	static const char *const times[] = {"64us", "256us", "1ms", "4ms", "16ms", "longer"};
	const struct gm_heap_sample *more = &h->more;
	const struct {
		const char *key;
		struct gm_value value;
	} members[] = {
		{"heap", GM_COUNT(more->heap)},
		{"context", GM_COUNT(h->context)},
		{"policy", GM_TEXT(h->policy)},
		{"own", GM_BOOL(h->own)},
		{"ended", GM_BOOL(h->ended)},
		{"limit", GM_BYTES(more->limit)},
		{"live", GM_BYTES(h->live)},
		{"live_peak", GM_BYTES(more->live_peak)},
		{"used", GM_BYTES(more->used)},
		{"mapped", GM_BYTES(h->mapped)},
		{"mapped_peak", GM_BYTES(more->mapped_peak)},
		{"slack", GM_BYTES(more->slack)},
		{"books", GM_BYTES(more->own)},
		{"chunks", GM_COUNT(more->chunks)},
		{"grown", GM_COUNT(more->grown)},
		{"shrunk", GM_COUNT(more->shrunk)},
		{"refused", GM_COUNT(more->refused)},
		{"refused_limit", GM_COUNT(more->refused_limit)},
		{"wait_ns", GM_NS(more->wait_ns)},
		{"growth_ns", GM_NS(more->growth_ns)},
		{"growth_longest", GM_NS(more->growth_longest)},
		{"nulls", GM_COUNT(h->nulls)},
		{"foreign_frees", GM_COUNT(h->foreign_frees)},
	};
	gm_emit_object(emit, NULL);
	for (size_t i = 0; i < N(members); i++)
		gm_emit_value(emit, members[i].key, members[i].value);
	gm_emit_object(emit, "growths");
	for (unsigned bin = 0; bin < GM_HEAP_GROWTH_BINS; bin++)
		gm_emit_value(emit, times[bin], GM_COUNT(more->growths[bin]));
	gm_emit_end(emit);
	gm_emit_object(emit, "sizes");
	for (unsigned bin = 0; bin < GM_HEAP_BINS; bin++) {
		char size[32] = "larger";
		if (bin < GM_HEAP_BINS - 1)
			snprintf(size, sizeof size, "%llu",
				 (unsigned long long)gm_figures_size(bin));
		if (more->live[bin])
			gm_emit_value(emit, size, GM_COUNT(more->live[bin]));
	}
	gm_emit_end(emit);
	gm_emit_end(emit);
}

static void memory_table(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const struct gm_column columns[] = {
		{"name", "device heaps", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"current", f->about->running ? "now" : "at end", 0},
		{"peak", "peak", 0},
		{"total", "grown", 0},
		{"calls", "times", 0},
	};
	gm_emit_break(emit);
	gm_emit_table(emit, "heap_memory", true, columns, N(columns));
	gm_emit_row(emit, "live",
		    (struct gm_value[]){GM_TEXT("live"), GM_BYTES(C(heap_live)),
					GM_BYTES(C(heap_live_peak)), GM_NONE, GM_NONE});
	gm_emit_row(emit, "mapped",
		    (struct gm_value[]){GM_TEXT("mapped"), GM_BYTES(C(heap_mapped)),
					GM_BYTES(C(heap_mapped_peak)),
					GM_BYTES(C(heap_growth_bytes)), GM_COUNT(C(heap_growths))});
	if (C(heap_slack_peak) || emit->options->json)
		gm_emit_row(emit, "slack",
			    (struct gm_value[]){GM_TEXT("slack"), GM_BYTES(C(heap_slack)),
						GM_BYTES(C(heap_slack_peak)), GM_NONE,
						GM_COUNT(C(heap_slack_growths))});
	gm_emit_table_end(emit);
}

/* Allocations by size, of all heaps of the device as last sampled. */
static void sizes_table(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	static const struct gm_column columns[] = {
		{"size", "allocations of", GM_COLUMN_LEFT},
		{"live", "when last read", 0},
		{"bytes", "bytes", 0},
	};
	uint64_t live[GM_HEAP_BINS] = {0}, any = 0;
	bool json = emit->options->json;
	for (size_t i = 0; i < f->heaps.n; i++)
		for (unsigned bin = 0; f->heaps.at[i].device == d && bin < GM_HEAP_BINS; bin++) {
			live[bin] += f->heaps.at[i].more.live[bin];
			any |= live[bin];
		}
	if (!any && !json)
		return;
	gm_emit_break(emit);
	gm_emit_table(emit, "heap_sizes", false, columns, N(columns));
	for (unsigned bin = 0; bin < GM_HEAP_BINS; bin++) {
		bool last = bin == GM_HEAP_BINS - 1;
		uint64_t size = gm_figures_size(bin);
		if (live[bin])
			gm_emit_row(
				emit, NULL,
				(struct gm_value[]){!last  ? GM_BYTES(size)
						    : json ? GM_NONE
							   : GM_TEXT("larger"),
						    GM_COUNT(live[bin]),
						    last ? GM_NONE : GM_BYTES(live[bin] * size)});
	}
	gm_emit_table_end(emit);
}

/* Only growths with events in the log. */
void gm_summary_heap_kernels(struct gm_emit *emit, struct gm_figures *f, unsigned d, bool demangled)
{
	static const struct gm_column columns[] = {
		{"bytes", "heaps grew", 0},
		{"growths", "times", 0},
		{"kernel", "for kernel", GM_COLUMN_LEFT | GM_COLUMN_WRAP},
	};
	const struct gm_figures_device *device = &f->devices[d];
	const bool json = emit->options->json;
	size_t n = device->kernels.n;
	gm_figures_sort_kernels(f, d);
	if (!json && (!n || (n == 1 && !*device->kernels.at[0].name)))
		return; /* no kernel's name is known */
	gm_emit_break(emit);
	const size_t shown = !json && n > KERNELS_SHOWN ? KERNELS_SHOWN : n;
	const char **names = calloc(shown + 1, sizeof *names);
	char *text = NULL;
	if (!names) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	for (size_t i = 0; i < shown; i++)
		names[i] = device->kernels.at[i].name;
	if (shown && demangled)
		gm_child_demangle(names, shown, &text);
	gm_emit_table(emit, "heap_kernels", false, columns, N(columns));
	for (size_t i = 0; i < shown; i++) {
		const struct gm_figures_kernel *kernel = &device->kernels.at[i];
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){GM_BYTES(kernel->bytes), GM_COUNT(kernel->growths),
						*names[i] ? GM_TEXT(names[i])
						: json	  ? GM_NONE
							  : GM_TEXT("not known")});
	}
	gm_emit_table_end(emit);
	free(text);
	free(names);
	if (!json && n > KERNELS_SHOWN)
		gm_emit_plain(emit, "%zu more kernels: --json", n - KERNELS_SHOWN);
}

static void growth_line(struct gm_emit *emit, struct gm_figures *f, unsigned d)
{
	const struct gm_figures_median median = gm_figures_growth(f, d);
	char all[32], middle[32], longest[32], refused[32], limit[32], times[128] = "none";
	if (C(heap_growths))
		snprintf(times, sizeof times, "total %s, median %s%s, longest %s",
			 gm_time_format(C(heap_growth_ns), all, sizeof all),
			 median.least == median.most ? "" : "within ",
			 gm_time_format(median.most, middle, sizeof middle),
			 gm_time_format(C(heap_growth_longest), longest, sizeof longest));
	gm_emit_line(emit, "heap growth", "%s; %s refused, %s of them for the heap's limit", times,
		     gm_tool_count(C(heap_refused), refused, sizeof refused),
		     gm_tool_count(C(heap_refused_limit), limit, sizeof limit));
	gm_emit_object(emit, "heap_growth");
	gm_emit_value(emit, "median_least_ns", GM_NS(median.least));
	gm_emit_value(emit, "median_most_ns", GM_NS(median.most));
	gm_emit_end(emit);
}

/* Waits of kernels, and the fill of the heaps. */
static void use_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char waited[32], used[32], shed[32];
	uint64_t peak = C(heap_mapped_peak), full = 0;
	if (peak)
		full = (uint64_t)(1e6 * (double)C(heap_used_peak) / (double)peak);
	gm_emit_line(emit, "heap use",
		     "kernels waited %s for growth; at most %s in use, %.1f%% of the most mapped; "
		     "%s returned in use",
		     gm_time_format(C(heap_wait_ns), waited, sizeof waited),
		     gm_size_format(C(heap_used_peak), used, sizeof used), (double)full / 1e4,
		     gm_size_format(C(heap_shed), shed, sizeof shed));
	gm_emit_object(emit, "heap_use");
	gm_emit_value(emit, "wait_ns", GM_NS(C(heap_wait_ns)));
	gm_emit_value(emit, "used_peak", GM_BYTES(C(heap_used_peak)));
	gm_emit_value(emit, "full", GM_PPM(full));
	gm_emit_value(emit, "shed", GM_BYTES(C(heap_shed)));
	gm_emit_end(emit);
}

static void calls_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char nulls[32], frees[32], read[32];
	gm_emit_line(emit, "heap calls",
		     "%s mallocs got NULL, %s frees of addresses not allocated; read %s times",
		     gm_tool_count(C(heap_nulls), nulls, sizeof nulls),
		     gm_tool_count(C(heap_foreign_frees), frees, sizeof frees),
		     gm_tool_count(C(heap_samples), read, sizeof read));
}

void gm_summary_heaps(struct gm_emit *emit, struct gm_figures *f, unsigned d)
{
	bool any = C(heaps) > 0, json = emit->options->json;
	if (C(takeovers) || C(takeovers_native))
		gm_emit_break(emit);
	contexts_show(emit, f, d);
	gm_emit_list(emit, "heaps");
	for (size_t i = 0; json && i < f->heaps.n; i++)
		if (f->heaps.at[i].device == d)
			heap_json(emit, &f->heaps.at[i]);
	gm_emit_end(emit);
	if (!any && !json)
		return;
	memory_table(emit, f, d);
	growth_line(emit, f, d);
	use_line(emit, f, d);
	calls_line(emit, f, d);
	gm_summary_heap_kernels(emit, f, d, !emit->options->json);
	sizes_table(emit, f, d);
}
#undef C

void gm_summary_images(struct gm_emit *emit, const struct gm_figures *f)
{
	static const struct gm_column columns[] = {
		{"address", "", GM_COLUMN_JSON_ONLY},
		{"device", "", GM_COLUMN_JSON_ONLY},
		{"malloc", "malloc", GM_COLUMN_LEFT},
		{"text", "images that may call it", GM_COLUMN_LEFT | GM_COLUMN_WRAP},
	};
	uint64_t all = gm_figures_process(f, GM_C_images);
	uint64_t may = gm_figures_process(f, GM_C_images_malloc);
	uint64_t unknown = gm_figures_process(f, GM_C_images_unknown);
	bool json = emit->options->json, listed = json;
	char count[32], other[32], more[32];
	for (size_t i = 0; i < f->images.n; i++)
		listed |= f->images.at[i].may;
	if (all)
		gm_emit_line(emit, "images",
			     "%s loaded, %s may call malloc in kernels, %s of them unknown",
			     gm_tool_count(all, count, sizeof count),
			     gm_tool_count(may, other, sizeof other),
			     gm_tool_count(unknown, more, sizeof more));
	if (!listed)
		return;
	gm_emit_break(emit);
	gm_emit_table(emit, "images", false, columns, N(columns));
	for (size_t i = 0; i < f->images.n; i++) {
		const struct gm_figures_image *image = &f->images.at[i];
		const char *answer = image->unknown ? "unknown" : image->may ? "yes" : "no";
		if (json || image->may)
			gm_emit_row(emit, NULL,
				    (struct gm_value[]){GM_COUNT(image->address),
							image->device == 255
								? GM_NONE
								: GM_COUNT(image->device),
							GM_TEXT(answer), GM_TEXT(image->text)});
	}
	gm_emit_table_end(emit);
}
