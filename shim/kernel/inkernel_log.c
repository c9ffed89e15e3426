/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/kernel/inkernel_log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "image/image.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/context/capture.h"
#include "shim/kernel/inkernel.h"

/* Describe the end of a takeover; of a failed one with the step and the driver's error. */
static void report_describe(const struct gm_takeover_report *r, char *text, size_t n)
{
	size_t at = (size_t)snprintf(text, n, "%s", gm_takeover_text(r->end));
	if (r->step && at < n)
		at += (size_t)snprintf(text + at, n - at, ", while %s", r->step);
	if (r->result != CUDA_SUCCESS && at < n)
		snprintf(text + at, n - at, " (%s)", gm_driver_error(&gm_shim_driver, r->result));
}

/* Append the time of each part of a takeover, in us. Of the first one: a log keeps few texts, and
 * these differ from one takeover to the next. */
static void times_describe(const struct gm_inkernel *h, char *text, size_t n)
{
	static atomic_bool done;
	size_t at = strlen(text);
	if (atomic_exchange(&done, true))
		return;
	at += (size_t)snprintf(text + at, n - at, "; us: making the heap %llu",
			       (unsigned long long)h->made / 1000);
	for (unsigned i = 0; i < GM_TAKEOVER_STEPS && at < n; i++)
		at += (size_t)snprintf(text + at, n - at, ", %s %llu", gm_takeover_step(i),
				       (unsigned long long)h->report.ns[i] / 1000);
}

static void report_record(const struct gm_inkernel *h, const struct gm_takeover_report *r,
			  uint64_t took, const char *text)
{
	struct gm_heap_figures figures = {0};
	bool ours = r->end == GM_TAKEOVER_TAKEN;
	if (ours)
		gm_heap_figures_of_host(h->heap, &figures);
	const struct gm_record record = {
		.address = ours ? gm_heap_device(h->heap) : 0,
		.size = r->end,
		.held = figures.limit,
		.id = h->key,
		.context = (uint32_t)h->key,
		.duration = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX,
		.string = gm_log_string(text),
		.status = (uint16_t)r->result,
		.device = (uint8_t)h->context->ordinal,
		.kind = GM_RECORD_TAKEOVER,
	};
	gm_log_put(&record);
}

void gm_inkernel_log(const struct gm_inkernel *h)
{
	unsigned ordinal = h->context->ordinal;
	char text[256];
	bool ours = h->report.end == GM_TAKEOVER_TAKEN;
	gm_counter_add(ordinal, ours ? GM_C_takeovers : GM_C_takeovers_native, 1);
	gm_counter_add(ordinal, GM_C_takeover_ns, h->took);
	if (!gm_log_wants(GM_RECORD_TAKEOVER))
		return;
	report_describe(&h->report, text, sizeof text);
	if (ours)
		times_describe(h, text, sizeof text);
	report_record(h, &h->report, h->took, text);
}

void gm_inkernel_log_second(const struct gm_inkernel *h, uint64_t took)
{
	char text[256] = "in code that launches graphs or kernels: ";
	if (h->second_report.end == GM_TAKEOVER_TAKEN)
		return;
	gm_counter_add(h->context->ordinal, GM_C_takeovers_native, 1);
	gm_counter_add(h->context->ordinal, GM_C_takeover_ns, took);
	if (!gm_log_wants(GM_RECORD_TAKEOVER))
		return;
	report_describe(&h->second_report, text + strlen(text), sizeof text - strlen(text));
	report_record(h, &h->second_report, took, text);
}

/* "calls an allocator: malloc, free", after the name of the file, if any. */
static void verdict_describe(const char *path, const struct gm_image_verdict *v, char *text,
			     size_t n)
{
	const char *before = ": ";
	size_t at = (size_t)snprintf(text, n, "%s%s%s", path ? path : "", path ? ": " : "",
				     gm_image_why_text(v->why));
	for (unsigned s = 0; s < GM_IMAGE_SYMBOLS && v->answer == GM_IMAGE_YES && at < n; s++) {
		if (!(v->symbols >> s & 1))
			continue;
		at += (size_t)snprintf(text + at, n - at, "%s%s", before,
				       gm_image_symbol_name((enum gm_image_symbol)s));
		before = ", ";
	}
}

void gm_inkernel_log_image(const struct gm_context *context, const void *image, const char *path,
			   const struct gm_image_verdict *verdict)
{
	char text[1024];
	gm_counter_add(0, GM_C_images, 1);
	gm_counter_add(0, GM_C_images_malloc, verdict->answer != GM_IMAGE_NO);
	gm_counter_add(0, GM_C_images_unknown, verdict->answer == GM_IMAGE_UNKNOWN);
	if (!gm_log_wants(GM_RECORD_MODULE))
		return;
	verdict_describe(path, verdict, text, sizeof text);
	const struct gm_record record = {
		.address = (uint64_t)(uintptr_t)image,
		.held = verdict->answer == GM_IMAGE_UNKNOWN,
		.id = verdict->answer != GM_IMAGE_NO,
		.context = context ? (uint32_t)context->key : 0,
		.string = gm_log_string(text),
		.device = context ? (uint8_t)context->ordinal : 255,
		.kind = GM_RECORD_MODULE,
	};
	gm_log_put(&record);
}

/* --- heaps --- */

static void heaps_sample(void)
{
	CUresult ignored;
	int saved = errno;
	struct gm_context *context =
		gm_capture_any() ? NULL : gm_context_current(&gm_shim_driver, &ignored);
	if (context)
		gm_heap_sample_context(context);
	errno = saved;
}

void gm_inkernel_leave(uint64_t now)
{
	(void)now;
	if (gm_inkernel_has_news() && gm_clock_ns() >= atomic_load(&gm_heap_sample_at))
		heaps_sample();
}

void gm_inkernel_sample_now(void)
{
	if (!gm_shim_enter())
		return;
	heaps_sample();
	gm_shim_leave();
}

/* A kernel of ours reads the heaps. If a kernel of the program has the GPU to itself until this
 * thread continues, ours would never run. So if the context may stay, it is read only if idle. */
void gm_inkernel_sample_last(const struct gm_context *context, bool surely)
{
	if (!context || gm_capture_any() || !gm_heap_any_unread(context))
		return;
	if (surely || gm_fence_is_idle(&gm_shim_driver, context->key))
		gm_heap_sample_last(context);
}
