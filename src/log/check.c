/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether the numbers of a log add up. gpumem-log(5), CHECKS, has every rule. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/frag.h"
#include "log/load.h"

#define IN_FLIGHT 256		       /* most calls counted in part in a log that was not closed */
#define EVENTS_LEAST ((size_t)1 << 19) /* blocks that are kept before they are compacted */
#define END GM_COUNTER_COUNT

struct why {
	char *text;
	size_t n;
};

__attribute__((format(printf, 2, 3))) static bool check_fail(const struct why *why,
							     const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why->text, why->n, format, args);
	va_end(args);
	return false;
}

/* Sums that must be equal. While a log is not closed, calls in progress may be missing from one
 * side: counts may differ by IN_FLIGHT, and bytes are not compared. */
struct sum {
	const char *sum_text, *other_text;
	enum gm_counter plus[4], minus[4], other[4];
};

static const struct sum sums[] = {
	{"allocate_calls",
	 "allocate_pool + allocate_driver + allocate_failed",
	 {GM_C_allocate_calls, END},
	 {END},
	 {GM_C_allocate_pool, GM_C_allocate_driver, GM_C_allocate_failed, END}},
	{"allocate_pool - free_calls - free_context",
	 "live_blocks",
	 {GM_C_allocate_pool, END},
	 {GM_C_free_calls, GM_C_free_context, END},
	 {GM_C_live_blocks, END}},
	{"allocate_bytes - free_bytes",
	 "requested",
	 {GM_C_allocate_bytes, END},
	 {GM_C_free_bytes, END},
	 {GM_C_requested, END}},
	{"mapped",
	 "handed_out + idle + retired",
	 {GM_C_mapped, END},
	 {END},
	 {GM_C_handed_out, GM_C_idle, GM_C_retired, END}},
	{"map_bytes - unmap_bytes",
	 "mapped + lent",
	 {GM_C_map_bytes, END},
	 {GM_C_unmap_bytes, END},
	 {GM_C_mapped, GM_C_lent, END}},
};

static const struct {
	enum gm_counter least, most;
} orders[] = {
	{GM_C_requested, GM_C_handed_out},
	{GM_C_requested, GM_C_requested_peak},
	{GM_C_mapped, GM_C_mapped_peak},
	{GM_C_retired, GM_C_retired_peak},
	{GM_C_requested_peak, GM_C_mapped_peak},
	{GM_C_unmap_calls, GM_C_map_calls},
	{GM_C_trim_bytes, GM_C_unmap_bytes},
	{GM_C_foreign, GM_C_foreign_peak},
	{GM_C_heap_mapped, GM_C_heap_mapped_peak},
	{GM_C_tensor_frees, GM_C_tensor_calls},
	{GM_C_tensor_bytes, GM_C_tensor_peak},
	{GM_C_heap_mapped, GM_C_lent},
	{GM_C_heap_slack, GM_C_heap_slack_peak},
	{GM_C_heap_slack, GM_C_lent},
	{GM_C_heap_slack_growths, GM_C_heap_growths},
	{GM_C_heap_live, GM_C_heap_live_peak},
	{GM_C_heap_used, GM_C_heap_used_peak},
	{GM_C_heap_refused_limit, GM_C_heap_refused},
	{GM_C_heap_growth_longest, GM_C_heap_growth_ns},
};

static uint64_t terms_sum(const uint64_t *counters, const enum gm_counter *terms)
{
	uint64_t sum = 0;
	for (; *terms != END; terms++)
		sum += counters[*terms];
	return sum;
}

static bool sums_check(const struct gm_log_file *file, unsigned device, const struct why *why)
{
	const uint64_t *counters = gm_log_read_counters(file, device);
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
		const struct sum *sum = &sums[i];
		uint64_t value = terms_sum(counters, sum->plus) - terms_sum(counters, sum->minus);
		uint64_t other = terms_sum(counters, sum->other);
		uint64_t off = value > other ? value - other : other - value;
		bool counts = gm_counter_table[sum->plus[0]].unit == GM_UNIT_COUNT;
		if (!off || (!file->about.closed && (!counts || off <= IN_FLIGHT)))
			continue;
		return check_fail(why, "device %u: %s is %" PRIu64 ", but %s is %" PRIu64, device,
				  sum->sum_text, value, sum->other_text, other);
	}
	return true;
}

static bool orders_check(const struct gm_log_file *file, unsigned device, const struct why *why)
{
	const uint64_t *counters = gm_log_read_counters(file, device);
	for (size_t i = 0; file->about.closed && i < sizeof orders / sizeof *orders; i++) {
		enum gm_counter least = orders[i].least, most = orders[i].most;
		if (counters[least] > counters[most])
			return check_fail(
				why, "device %u: %s is %" PRIu64 ", above %s, which is %" PRIu64,
				device, gm_counter_table[least].name, counters[least],
				gm_counter_table[most].name, counters[most]);
	}
	static const enum gm_counter pairs[][2] = {{GM_C_requested_peak, GM_C_requested_peak_time},
						   {GM_C_mapped_peak, GM_C_mapped_peak_time}};
	/* A peak may be older than a recording. */
	for (size_t i = 0; file->about.closed && !file->about.recording && i < 2; i++) {
		uint64_t time = counters[pairs[i][1]];
		bool within = time >= file->about.start && time <= file->about.end;
		if (counters[pairs[i][0]] && !within)
			return check_fail(why,
					  "device %u: %s is %" PRIu64
					  ", but the log is from %" PRIu64 " to %" PRIu64,
					  device, gm_counter_table[pairs[i][1]].name, time,
					  file->about.start, file->about.end);
	}
	return true;
}

/* The first of the six counters of each kind of foreign memory: calls, bytes, frees, freed, alive,
 * peak. */
static const enum gm_counter foreign[] = {
	GM_C_foreign_driver_calls,	 GM_C_foreign_async_calls,   GM_C_foreign_created_calls,
	GM_C_foreign_array_calls,	 GM_C_foreign_managed_calls, GM_C_foreign_graph_calls,
	GM_C_foreign_external_calls,	 GM_C_foreign_host_calls,    GM_C_foreign_registered_calls,
	GM_C_foreign_created_host_calls,
};

/* `c`: the counters of the kind's scope. */
static bool kind_check(const uint64_t *c, enum gm_counter first, const struct why *why)
{
	const uint64_t *v = &c[first];
	const char *name = gm_counter_table[first + 4].name;
	if (v[1] - v[3] != v[4])
		return check_fail(why, "%s_bytes - %s_freed is %" PRIu64 ", but %s is %" PRIu64,
				  name, name, v[1] - v[3], name, v[4]);
	if (v[2] > v[0])
		return check_fail(why, "%s_frees is %" PRIu64 ", above %s_calls, which is %" PRIu64,
				  name, v[2], name, v[0]);
	if (v[4] > v[5])
		return check_fail(why, "%s is %" PRIu64 ", above %s_peak, which is %" PRIu64, name,
				  v[4], name, v[5]);
	return true;
}

static bool foreign_check(const struct gm_log_file *file, unsigned device, const struct why *why)
{
	const uint64_t *counters = gm_log_read_counters(file, device);
	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
		bool of_process = gm_counter_table[foreign[i]].scope == GM_SCOPE_PROCESS;
		if (!kind_check(of_process ? file->counters[0] : counters, foreign[i], why))
			return false;
	}
	uint64_t sum = counters[GM_C_foreign_driver] + counters[GM_C_foreign_async] +
		       counters[GM_C_foreign_created] + counters[GM_C_foreign_array];
	if (sum != counters[GM_C_foreign])
		return check_fail(why,
				  "device %u: foreign is %" PRIu64
				  ", but foreign_driver + foreign_async + "
				  "foreign_created + foreign_array is %" PRIu64,
				  device, counters[GM_C_foreign], sum);
	return true;
}

/* The growths in the bins are at most all growths. */
static bool growths_check(const struct gm_log_file *file, unsigned device, const struct why *why)
{
	const uint64_t *c = gm_log_read_counters(file, device);
	uint64_t binned = 0;
	for (unsigned i = GM_C_heap_growths_64us; i <= GM_C_heap_growths_16ms; i++)
		binned += c[i];
	if (binned <= c[GM_C_heap_growths])
		return true;
	return check_fail(why,
			  "device %u: %" PRIu64
			  " growths by time, above heap_growths, which is %" PRIu64,
			  device, binned, c[GM_C_heap_growths]);
}

/* mapped = handed out + idle + retired. */
static bool parts_check(const struct gm_log_entry *entry, const struct why *why)
{
	const struct gm_sample *s = entry->sample;
	uint64_t parts = s->handed_out + s->idle + s->retired;
	if (s->mapped != parts)
		return check_fail(why,
				  "sample at %" PRIu64 ": mapped is %" PRIu64
				  ", but handed_out + idle + retired is %" PRIu64,
				  entry->record.time, s->mapped, parts);
	return true;
}

/* One sample: no part exceeds its whole, and no value its peak. */
static bool sample_check(const struct gm_log_file *file, const struct gm_log_entry *entry,
			 const struct why *why)
{
	const struct gm_sample *s = entry->sample;
	const uint64_t *peaks = gm_log_read_counters(file, entry->record.device);
	/* While it is written, the counters of a recording are a copy, and older than the sample.
	 */
	const bool copied = file->about.recording && !file->about.closed;
	enum { PARTS = 4 }; /* rules that compare no peak */
	const struct {
		const char *name;
		uint64_t value, most;
		const char *most_name;
		bool of_samples; /* the peak is raised by samples only */
	} rules[] = {
		{"requested", s->requested, s->handed_out, "handed_out", false},
		{"largest_idle", s->largest_idle, s->idle, "idle", false},
		{"largest_after_remap", s->largest_after_remap, s->idle, "idle", false},
		{"unreclaimable", s->unreclaimable, s->idle, "idle", false},
		{"requested", s->requested, peaks[GM_C_requested_peak], "requested_peak", false},
		{"mapped", s->mapped, peaks[GM_C_mapped_peak], "mapped_peak", false},
		{"retired", s->retired, peaks[GM_C_retired_peak], "retired_peak", false},
		{"handed_out - requested", s->handed_out - s->requested, peaks[GM_C_internal_peak],
		 "internal_peak", true},
		{"unreclaimable", s->unreclaimable, peaks[GM_C_unreclaimable_peak],
		 "unreclaimable_peak", true},
		{"external fragmentation", gm_frag_external_ppm(s->idle, s->largest_idle),
		 peaks[GM_C_external_peak], "external_peak", true},
		{"external fragmentation after remap",
		 gm_frag_external_ppm(s->idle, s->largest_after_remap),
		 peaks[GM_C_external_remap_peak], "external_remap_peak", true},
	};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		bool counts = !rules[i].of_samples || entry->record.kind == GM_RECORD_SAMPLE;
		counts &= i < PARTS || !copied;
		if (counts && rules[i].value > rules[i].most)
			return check_fail(why,
					  "sample at %" PRIu64 ": %s is %" PRIu64
					  ", above %s, which is %" PRIu64,
					  entry->record.time, rules[i].name, rules[i].value,
					  rules[i].most_name, rules[i].most);
	}
	return true;
}

/* Each bin's runs reach its least size; all bins have as many runs as the sample, and at most its
 * idle bytes. */
static bool bins_check(const struct gm_log_entry *entry, const struct why *why)
{
	const struct gm_sample *s = entry->sample;
	uint64_t runs = 0, time = entry->record.time;
	bool counted = gm_frag_has_bins(s);
	for (unsigned i = 0; counted && i < GM_SAMPLE_BINS; i++) {
		uint64_t n = s->idle_runs[i], bytes = (uint64_t)s->idle_units[i] * GM_SAMPLE_UNIT;
		uint64_t least = n * gm_frag_bin_least(i);
		if (bytes < least && s->idle_units[i] != UINT32_MAX)
			return check_fail(why,
					  "sample at %" PRIu64 ": %" PRIu64 " runs of %" PRIu64
					  " bytes and more come to %" PRIu64,
					  time, n, gm_frag_bin_least(i), bytes);
		runs += n;
		counted = n != UINT16_MAX;
	}
	if (counted && runs != s->idle_extents)
		return check_fail(why,
				  "sample at %" PRIu64 ": %" PRIu64
				  " runs by size, but idle_extents is %" PRIu64,
				  time, runs, s->idle_extents);
	if (gm_frag_in_runs(s) > s->idle)
		return check_fail(why,
				  "sample at %" PRIu64 ": runs of %" PRIu64
				  " bytes, above idle, which is %" PRIu64,
				  time, gm_frag_in_runs(s), s->idle);
	return true;
}

/* The totals of one device's events. */
struct tally {
	uint64_t pool, driver, failed, freed, freed_driver, freed_context;
	uint64_t maps, map_bytes, unmaps, unmap_bytes, samples;
	uint64_t loans, lent;	     /* chunks lent; bytes, less those returned */
	uint64_t bytes, freed_bytes; /* of the pool */
	uint64_t live, requested;
	uint64_t takeovers, grown, grown_bytes, grown_not, heap_samples;
	uint64_t tensors, tensor_frees;
};

struct block {
	uint64_t id, size;
	uint8_t device;
};

struct events {
	struct tally of[GM_COUNTER_DEVICES];
	GM_ARRAY(struct block) born; /* handed out, or live at a checkpoint */
	GM_ARRAY(struct block) gone;
	uint64_t tables; /* unknown ones */
	size_t most;	 /* of both; beyond, they are compacted */
};

static int block_compare(const void *a, const void *b)
{
	const struct block *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

static void events_sort(struct events *events)
{
	if (events->born.n)
		qsort(events->born.at, events->born.n, sizeof *events->born.at, block_compare);
	if (events->gone.n)
		qsort(events->gone.at, events->gone.n, sizeof *events->gone.at, block_compare);
}

/* Drop the blocks that were handed out and freed, so that a long log needs no more memory than its
 * live blocks. A block freed twice remains in `gone` once, and counts as never handed out. */
static void events_compact(struct events *events)
{
	struct block *born = events->born.at, *gone = events->gone.at;
	const size_t n = events->born.n, m = events->gone.n;
	size_t alive = 0, unknown = 0, g = 0;
	events_sort(events);
	for (size_t i = 0; i < n; i++) {
		if (alive && born[alive - 1].id == born[i].id)
			continue;
		while (g < m && gone[g].id < born[i].id)
			gone[unknown++] = gone[g++];
		if (g == m || gone[g].id != born[i].id) {
			born[alive++] = born[i];
			continue;
		}
		g++;
		while (i + 1 < n && born[i + 1].id == born[i].id)
			i++;
	}
	while (g < m)
		gone[unknown++] = gone[g++];
	events->born.n = alive;
	events->gone.n = unknown;
	events->most = 2 * (alive + unknown) + EVENTS_LEAST;
}

static void lent_count(struct tally *t, const struct gm_record *r)
{
	const bool lent = r->flags & GM_RECORD_LENT, returned = r->flags & GM_RECORD_RETURNED;
	t->loans += lent;
	t->lent += lent ? r->size : returned ? -r->size : 0;
}

static bool events_count(struct events *events, const struct gm_record *r)
{
	unsigned row = r->device < GM_COUNTER_DEVICES ? r->device : GM_COUNTER_DEVICES - 1;
	struct tally *t = &events->of[row];
	bool driver = r->flags & GM_RECORD_DRIVER;
	bool gone_with_context = r->flags & GM_RECORD_CONTEXT_GONE;
	struct block block = {r->id, r->size, (uint8_t)row};
	switch (r->kind) {
	case GM_RECORD_ALLOCATE:
		*(driver ? &t->driver : &t->pool) += 1;
		t->bytes += driver ? 0 : r->size;
		return driver || gm_array_push(&events->born, block);
	case GM_RECORD_LIVE:
		return driver || gm_array_push(&events->born, block);
	case GM_RECORD_FREE:
		if (r->status) /* refused: nothing was freed */
			return true;
		if (driver) {
			t->freed_driver++; /* by a call or with its context */
			return true;
		}
		*(gone_with_context ? &t->freed_context : &t->freed) += 1;
		t->freed_bytes += r->size;
		return gm_array_push(&events->gone, block);
	case GM_RECORD_ALLOCATE_FAILED:
		t->failed++;
		return true;
	case GM_RECORD_MAP:
		t->maps++;
		t->map_bytes += r->size;
		lent_count(t, r);
		return true;
	case GM_RECORD_REMAP:
		lent_count(t, r);
		return true;
	case GM_RECORD_UNMAP:
		t->unmaps++;
		t->unmap_bytes += r->size;
		lent_count(t, r);
		return true;
	case GM_RECORD_SAMPLE:
		t->samples++;
		return true;
	case GM_RECORD_TAKEOVER:
		t->takeovers += r->size == 0;
		return true;
	case GM_RECORD_TENSOR:
		t->tensors++;
		return true;
	case GM_RECORD_TENSOR_FREE:
		t->tensor_frees++;
		return true;
	case GM_RECORD_TABLE:
		events->tables += r->id == 0;
		return true;
	case GM_RECORD_GROW:
		*(r->status ? &t->grown_not : &t->grown) += 1;
		t->grown_bytes += r->status ? 0 : r->size;
		return true;
	case GM_RECORD_HEAP_SAMPLE:
		t->heap_samples += !(r->flags & GM_RECORD_LAST);
		return true;
	default:
		return true;
	}
}

/* live = born - gone, by id. A block may be in `born` several times (LIVE), in `gone` once. */
static bool events_match(struct events *events, const struct why *why)
{
	const struct block *born = events->born.at, *gone = events->gone.at;
	size_t n = events->born.n, m = events->gone.n, g = 0;
	events_sort(events);
	for (size_t i = 1; i < m; i++)
		if (gone[i].id == gone[i - 1].id)
			return check_fail(why, "block %" PRIu64 " was freed twice", gone[i].id);
	for (size_t i = 0; i < n; i++) {
		if (i && born[i].id == born[i - 1].id)
			continue;
		if (g < m && gone[g].id < born[i].id)
			break;
		if (g < m && gone[g].id == born[i].id) {
			g++;
			continue;
		}
		events->of[born[i].device].live++;
		events->of[born[i].device].requested += born[i].size;
	}
	if (g < m)
		return check_fail(why, "block %" PRIu64 " was freed, but never handed out",
				  gone[g].id);
	return true;
}

static bool tally_check(const struct gm_log_file *file, unsigned device, const struct tally *t,
			const struct why *why)
{
	const uint64_t *counters = gm_log_read_counters(file, device);
	const struct {
		const char *name;
		uint64_t events;
		enum gm_counter counter;
		enum gm_record_kind kind;
	} rules[] = {
		{"ALLOCATE events of the pool", t->pool, GM_C_allocate_pool, GM_RECORD_ALLOCATE},
		{"ALLOCATE events of the driver", t->driver, GM_C_allocate_driver,
		 GM_RECORD_ALLOCATE},
		{"ALLOCATE_FAILED events", t->failed, GM_C_allocate_failed, GM_RECORD_ALLOCATE},
		{"FREE events", t->freed, GM_C_free_calls, GM_RECORD_FREE},
		{"FREE events of the driver", t->freed_driver, GM_C_free_driver, GM_RECORD_FREE},
		{"FREE events of contexts gone", t->freed_context, GM_C_free_context,
		 GM_RECORD_FREE},
		{"bytes of ALLOCATE events of the pool", t->bytes, GM_C_allocate_bytes,
		 GM_RECORD_ALLOCATE},
		{"bytes of FREE events of the pool", t->freed_bytes, GM_C_free_bytes,
		 GM_RECORD_FREE},
		{"MAP events", t->maps, GM_C_map_calls, GM_RECORD_MAP},
		{"bytes of MAP events", t->map_bytes, GM_C_map_bytes, GM_RECORD_MAP},
		{"UNMAP events", t->unmaps, GM_C_unmap_calls, GM_RECORD_MAP},
		{"bytes of UNMAP events", t->unmap_bytes, GM_C_unmap_bytes, GM_RECORD_MAP},
		/* Older logs do not mark chunks that are lent. */
		{"bytes of chunks lent by events", t->loans ? t->lent : counters[GM_C_lent],
		 GM_C_lent, GM_RECORD_MAP},
		{"SAMPLE events", t->samples, GM_C_samples, GM_RECORD_SAMPLE},
		{"TAKEOVER events", t->takeovers, GM_C_takeovers, GM_RECORD_TAKEOVER},
		{"GROW events", t->grown, GM_C_heap_growths, GM_RECORD_GROW},
		{"bytes of GROW events", t->grown_bytes, GM_C_heap_growth_bytes, GM_RECORD_GROW},
		{"GROW events that were refused", t->grown_not, GM_C_heap_refused, GM_RECORD_GROW},
		{"HEAP_SAMPLE events", t->heap_samples, GM_C_heap_samples, GM_RECORD_HEAP_SAMPLE},
		{"TENSOR events", t->tensors, GM_C_tensor_calls, GM_RECORD_TENSOR},
		{"TENSOR_FREE events", t->tensor_frees, GM_C_tensor_frees, GM_RECORD_TENSOR},
		{"blocks alive by events", t->live, GM_C_live_blocks, GM_RECORD_ALLOCATE},
		{"bytes alive by events", t->requested, GM_C_requested, GM_RECORD_ALLOCATE},
	};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		uint64_t counter = counters[rules[i].counter];
		if (file->kept >> rules[i].kind & 1 && rules[i].events != counter)
			return check_fail(why, "device %u: %" PRIu64 " %s, but %s is %" PRIu64,
					  device, rules[i].events, rules[i].name,
					  gm_counter_table[rules[i].counter].name, counter);
	}
	return true;
}

static bool events_check(struct gm_log_file *file, struct events *events, const struct why *why)
{
	struct gm_log_entry entry;
	uint64_t written = file->counters[0][GM_C_log_records];
	gm_log_read_rewind(file);
	events->most = EVENTS_LEAST;
	while (gm_log_read_next(file, &entry)) {
		if (!events_count(events, &entry.record))
			return check_fail(why, "out of memory");
		if (events->born.n + events->gone.n >= events->most)
			events_compact(events);
	}
	if (file->about.records != written)
		return check_fail(why, "%" PRIu64 " records, but log_records is %" PRIu64,
				  file->about.records, written);
	if (events->tables != file->counters[0][GM_C_tables_unknown])
		return check_fail(why, "%" PRIu64 " tables, but tables_unknown is %" PRIu64,
				  events->tables, file->counters[0][GM_C_tables_unknown]);
	if (!events_match(events, why))
		return false;
	for (unsigned device = 0; device < GM_COUNTER_DEVICES; device++)
		if (!tally_check(file, device, &events->of[device], why))
			return false;
	return true;
}

/* A call of malloc in kernels: its blocks do not exceed their peak. */
static bool site_check(const struct gm_record *r, const struct why *why)
{
	if (r->kind == GM_RECORD_SITE_BLOCKS && r->address > r->held)
		return check_fail(why,
				  "call %" PRIu64 " of malloc in kernels has %" PRIu64
				  " bytes, above their peak, which is %" PRIu64,
				  r->id, r->address, r->held);
	return true;
}

static bool file_check(struct gm_log_file *file, const struct why *why)
{
	struct gm_log_entry entry;
	struct events *events = NULL;
	if (*file->damage)
		return check_fail(why, "%s", file->damage);
	if ((file->about.closed || file->about.ended) && file->about.torn)
		return check_fail(why,
				  "%" PRIu64 " records were never finished, but the log was closed",
				  file->about.torn);
	for (unsigned device = 0; device < GM_COUNTER_DEVICES; device++)
		if (!sums_check(file, device, why) || !orders_check(file, device, why) ||
		    (file->about.closed &&
		     !(foreign_check(file, device, why) && growths_check(file, device, why))))
			return false;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry))
		if (!site_check(&entry.record, why) ||
		    (entry.sample && !(parts_check(&entry, why) && bins_check(&entry, why) &&
				       sample_check(file, &entry, why))))
			return false;
	if (!file->about.closed || !file->about.complete)
		return true;
	events = calloc(1, sizeof *events);
	if (!events)
		return check_fail(why, "out of memory");
	bool ok = events_check(file, events, why);
	gm_array_free(&events->born);
	gm_array_free(&events->gone);
	free(events);
	return ok;
}

bool gm_log_read_check(struct gm_log_file *file, char *why, size_t n)
{
	struct why text = {why, n};
	size_t at = file->keys.at;
	bool ok = file_check(file, &text);
	if (file->passed)
		gm_log_read_rewind(file);
	else
		file->keys.at = at; /* the caller's position */
	return ok;
}
