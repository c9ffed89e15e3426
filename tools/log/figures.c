/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/log/course.h"
#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* Durations that are kept of a hook: enough for a quantile of one in 10,000 calls. */
enum { DURATIONS_MOST = 1 << 20 };

/* Keep every second one, in the order of the calls. */
static void durations_thin(struct gm_figures_hook *hook)
{
	size_t to = 0;
	for (size_t i = 1; i < hook->durations.n; i += 2)
		hook->durations.at[to++] = hook->durations.at[i];
	hook->durations.n = to;
	hook->halved++;
}

static void call_add(struct gm_figures *figures, const struct gm_record *record)
{
	if (record->hook == 0 || record->hook > figures->about->n_hooks)
		return;
	struct gm_figures_hook *hook = &figures->hooks[record->hook - 1];
	hook->calls++;
	hook->errors += record->status != 0;
	hook->driver += (record->flags & GM_RECORD_DRIVER) != 0;
	hook->total += record->duration;
	hook->longest = record->duration > hook->longest ? record->duration : hook->longest;
	if (hook->calls % (UINT64_C(1) << hook->halved))
		return;
	if (!gm_array_push(&hook->durations, record->duration))
		memory_exhausted();
	if (hook->durations.n >= DURATIONS_MOST)
		durations_thin(hook);
}

static void refusal_add(struct gm_figures *figures, const struct gm_log_entry *entry)
{
	const struct gm_record *r = &entry->record;
	const bool named = r->hook && r->hook <= figures->about->n_hooks;
	struct gm_figures_refusal refusal = {
		.time = r->time,
		.asked = r->size,
		.call = named ? figures->about->hooks[r->hook - 1] : "",
		.device = r->device,
	};
	if (r->device >= GM_COUNTER_DEVICES) {
		figures->refused_host++;
		return;
	}
	if (entry->sample)
		refusal.sample = *entry->sample;
	if (!gm_array_push(&figures->refusals, refusal))
		memory_exhausted();
}

/* The cache gives up behind the last refusal of a call, or without any at a limit of its own. */
static void giveup_add(struct gm_figures *figures, const struct gm_record *r)
{
	struct gm_figures_giveup giveup = {.time = r->time,
					   .asked = r->size,
					   .segments = r->held,
					   .tensors = r->id,
					   .stack = r->stack,
					   .device = r->device};
	if (r->device < GM_COUNTER_DEVICES) {
		struct gm_figures_device *device = &figures->devices[r->device];
		giveup.refused = device->refused;
		giveup.sample = device->refusal;
		device->refused = false;
		device->refusal = (struct gm_sample){0};
	}
	if (!gm_array_push(&figures->giveups, giveup))
		memory_exhausted();
}

static void failure_add(struct gm_figures *figures, const struct gm_log_entry *entry)
{
	const unsigned d = entry->record.device;
	if (d >= GM_COUNTER_DEVICES)
		return;
	figures->devices[d].refused = true;
	if (entry->sample)
		figures->devices[d].refusal = *entry->sample;
}

const struct gm_figures_giveup *gm_figures_giveup(const struct gm_figures *figures, int device)
{
	for (size_t i = 0; i < figures->giveups.n; i++)
		if (device < 0 || figures->giveups.at[i].device == (unsigned)device)
			return &figures->giveups.at[i];
	return NULL;
}

static void entry_add(struct gm_figures *figures, const struct gm_log_entry *entry)
{
	const struct gm_record *record = &entry->record;
	switch (record->kind) {
	case GM_RECORD_FREE:
		/* The end of the context freed the block: no call to count. */
		if (record->flags & GM_RECORD_CONTEXT_GONE)
			break;
		/* fall through */
	case GM_RECORD_ALLOCATE:
	case GM_RECORD_COPY:
	case GM_RECORD_RETIRE:
		call_add(figures, record);
		break;
	case GM_RECORD_ALLOCATE_FAILED:
		call_add(figures, record);
		failure_add(figures, entry);
		break;
	case GM_RECORD_OUT_OF_MEMORY:
		refusal_add(figures, entry);
		failure_add(figures, entry);
		break;
	case GM_RECORD_TENSOR_REFUSED:
		giveup_add(figures, record);
		break;
	case GM_RECORD_TABLE:
		if (!gm_figures_add_table(figures, record))
			memory_exhausted();
		break;
	default:
		if (!gm_figures_add_heap(figures, entry))
			memory_exhausted();
	}
}

static int duration_compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static bool device_is_used(const struct gm_figures *figures, unsigned device)
{
	static const enum gm_counter signs[] = {
		GM_C_allocate_calls,	  GM_C_free_calls,
		GM_C_free_driver,	  GM_C_map_calls,
		GM_C_foreign_peak,	  GM_C_foreign_managed_calls,
		GM_C_foreign_graph_calls, GM_C_foreign_external_calls,
		GM_C_takeovers_native,	  GM_C_heaps};
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (gm_figures_device(figures, device, signs[i]))
			return true;
	return false;
}

bool gm_figures_open(struct gm_figures *figures, const char *path, char *why, size_t n)
{
	struct gm_log_entry entry;
	*figures = (struct gm_figures){0};
	if (!gm_log_read_open(path, &figures->file, why, n))
		return false;
	figures->about = gm_log_read_about(figures->file);
	figures->n_devices = figures->about->n_devices < GM_COUNTER_DEVICES
				     ? figures->about->n_devices
				     : GM_COUNTER_DEVICES;
	figures->hooks = calloc(figures->about->n_hooks + 1, sizeof *figures->hooks);
	figures->courses = calloc(GM_COUNTER_DEVICES, sizeof *figures->courses);
	if (!figures->hooks || !figures->courses)
		memory_exhausted();
	while (gm_log_read_next(figures->file, &entry))
		entry_add(figures, &entry);
	gm_figures_sites_join(figures);
	for (unsigned i = 0; i < figures->about->n_hooks; i++) {
		struct gm_figures_hook *hook = &figures->hooks[i];
		if (hook->durations.n)
			qsort(hook->durations.at, hook->durations.n, sizeof *hook->durations.at,
			      duration_compare);
	}
	for (unsigned i = 0; i < figures->n_devices; i++)
		figures->devices[i].used = device_is_used(figures, i);
	return true;
}

void gm_figures_close(struct gm_figures *figures)
{
	for (unsigned i = 0; i < figures->about->n_hooks; i++)
		gm_array_free(&figures->hooks[i].durations);
	free(figures->hooks);
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		gm_course_free(figures->courses[i]);
	free(figures->courses);
	gm_array_free(&figures->refusals);
	gm_array_free(&figures->giveups);
	gm_array_free(&figures->tables);
	gm_figures_free_heap(figures);
	gm_log_read_close(figures->file);
}

uint64_t gm_figures_device(const struct gm_figures *figures, unsigned device, enum gm_counter c)
{
	uint64_t value;
	if (gm_course_counter(figures, device, c, &value))
		return value;
	return gm_log_read_counter(figures->file, device, c);
}

uint64_t gm_figures_process(const struct gm_figures *figures, enum gm_counter c)
{
	return gm_log_read_counter(figures->file, 0, c);
}

uint64_t gm_figures_sum(const struct gm_figures *figures, enum gm_counter c)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < figures->n_devices; i++)
		sum += gm_figures_device(figures, i, c);
	return sum;
}

uint64_t gm_figures_alive(const struct gm_figures *figures, unsigned device)
{
	return gm_figures_device(figures, device, GM_C_live_blocks) +
	       gm_figures_device(figures, device, GM_C_foreign_driver_calls) -
	       gm_figures_device(figures, device, GM_C_foreign_driver_frees);
}

uint64_t gm_figures_refused(const struct gm_figures *figures, unsigned device)
{
	return gm_figures_device(figures, device, GM_C_allocate_failed) +
	       gm_figures_device(figures, device, GM_C_refused_calls);
}

uint64_t gm_figures_foreign(const struct gm_figures *figures, unsigned device,
			    const struct gm_sample *s)
{
	if (s->known & GM_SAMPLE_OWNERS)
		return s->driver + s->created + s->async + s->arrays + s->graphs;
	return gm_figures_device(figures, device, GM_C_foreign_peak);
}

uint64_t gm_figures_needed(const struct gm_figures *figures, unsigned device,
			   const struct gm_sample *s, uint64_t asked)
{
	const uint64_t granule = 2 * GM_MIB; /* of the pool's mappings */
	const uint64_t foreign =
		s->known & GM_SAMPLE_OWNERS ? gm_figures_foreign(figures, device, s) : 0;
	return s->mapped + s->lent + foreign + gm_round_up(asked, granule);
}

bool gm_figures_is_trace(const struct gm_figures *figures)
{
	return strcmp(figures->about->mode, "trace") == 0;
}

uint64_t gm_figures_requested_peak(const struct gm_figures *figures)
{
	return gm_figures_sum(figures, gm_figures_is_trace(figures) ? GM_C_foreign_driver_peak
								    : GM_C_requested_peak);
}

uint64_t gm_figures_length(const struct gm_figures *figures)
{
	/* The time of a peak may be the latest time in a small log. */
	uint64_t last = figures->about->end;
	for (unsigned i = 0; i < figures->n_devices; i++) {
		uint64_t requested = gm_figures_device(figures, i, GM_C_requested_peak_time);
		uint64_t mapped = gm_figures_device(figures, i, GM_C_mapped_peak_time);
		last = requested > last ? requested : last;
		last = mapped > last ? mapped : last;
	}
	return gm_figures_at(figures, last);
}

uint64_t gm_figures_at(const struct gm_figures *figures, uint64_t time)
{
	return time > figures->about->start ? time - figures->about->start : 0;
}

uint32_t gm_figures_quantile(const struct gm_figures_hook *hook, uint32_t ppm)
{
	size_t n = hook->durations.n;
	if (n == 0 || ppm >= 1000000)
		return hook->longest;
	size_t rank = (size_t)(((unsigned __int128)n * ppm + 999999) / 1000000);
	return hook->durations.at[rank ? rank - 1 : 0];
}

const char *gm_figures_program(const struct gm_figures *figures)
{
	return *figures->about->program ? figures->about->program : "unknown";
}

const char *gm_figures_mode(const struct gm_figures *figures)
{
	return *figures->about->mode ? figures->about->mode : "mode unknown";
}

const char *gm_figures_end(const struct gm_figures *figures)
{
	if (figures->about->closed)
		return "closed cleanly";
	if (figures->about->ended)
		return "recording ended";
	if (figures->about->running)
		return "still running";
	return figures->about->ended_known ? "killed, or crashed" : "end unknown";
}

const char *gm_figures_name(const struct gm_figures *figures)
{
	const char *slash = strrchr(figures->about->path, '/');
	return slash ? slash + 1 : figures->about->path;
}
