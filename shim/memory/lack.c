/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/memory/lack.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/msg.h"
#include "base/size.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/block/holders.h"
#include "shim/call.h"
#include "shim/memory/device.h"
#include "shim/memory/limit.h"
#include "shim/memory/overhead.h"
#include "shim/modules.h"
#include "stack/stack.h"

struct lack {
	enum gm_hook_id hook;
	unsigned ordinal;
	uint64_t bytes;
	uint32_t stack;
	struct gm_sample sample;
};

#define TRIES 8

static GM_TLS enum gm_hook_id reported; /* of this thread, since gm_lack_rest */

static atomic_uint failures[GM_COUNTER_DEVICES + 1]; /* the last: of host memory */

static uint64_t less(uint64_t from, uint64_t other)
{
	return from > other ? from - other : 0;
}

/* --- the state of the device --- */

static void sample_take(struct lack *lack, const struct gm_context *current)
{
	const unsigned d = lack->ordinal;
	const struct gm_pool *pool = gm_shim_pool_if_any(d);
	struct gm_sample *s = &lack->sample;
	if (pool)
		gm_pool_sample(pool, s);
	s->device_total = gm_shim_devices[d].total;
	s->limit = gm_shim_devices[d].limit;
	s->driver = gm_limit_driver(d);
	s->created = gm_counter_get(d, GM_C_foreign_created);
	s->arrays = gm_counter_get(d, GM_C_foreign_array);
	gm_modules_reserved(d, s);
	s->managed = gm_counter_get(d, GM_C_foreign_managed);
	s->known = GM_SAMPLE_OWNERS;
	if (gm_overhead_read(d, current, &s->device_free)) {
		gm_overhead_record(d, less(s->device_total, s->device_free));
		s->known |= GM_SAMPLE_FREE;
	}
}

/* The bytes of the process; live bytes include parts of PyTorch's cache that have no memory. */
static uint64_t sample_own(const struct gm_sample *s, unsigned d)
{
	const uint64_t sum = 0
#define GM_OWNER_ROW(member, key, text) +s->member
#include "log/owner.def"
#undef GM_OWNER_ROW
		;
	return less(sum, gm_counter_get(d, GM_C_lend_vacant));
}

/* Other threads may take and give memory meanwhile: the figures are of one moment if they do not
 * change around the question. */
static void sample_fill(struct lack *lack, const struct gm_context *current)
{
	uint64_t before, free;
	sample_take(lack, current);
	for (unsigned i = 0; i < TRIES; i++) {
		before = sample_own(&lack->sample, lack->ordinal);
		free = lack->sample.device_free;
		sample_take(lack, current);
		if (sample_own(&lack->sample, lack->ordinal) == before &&
		    lack->sample.device_free == free)
			break;
	}
	/* If they never stop, what they gave meanwhile is not counted twice. */
	const uint64_t most =
		less(lack->sample.device_total, sample_own(&lack->sample, lack->ordinal));
	if (lack->sample.device_free > most)
		lack->sample.device_free = most;
}

static void lack_record(const struct lack *lack, unsigned device)
{
	const struct gm_record record = {.size = lack->bytes,
					 .stack = lack->stack,
					 .hook = (uint16_t)lack->hook,
					 .device = (uint8_t)device,
					 .status = CUDA_ERROR_OUT_OF_MEMORY,
					 .kind = GM_RECORD_OUT_OF_MEMORY};
	if (gm_log_wants(GM_RECORD_OUT_OF_MEMORY))
		gm_log_put_sample(&record, &lack->sample);
}

/* --- the line --- */

struct line {
	char text[512];
	size_t length;
};

static void line_add(struct line *line, const char *before, uint64_t bytes, const char *after)
{
	char size[32];
	const size_t room = sizeof line->text - line->length;
	const int n = snprintf(line->text + line->length, room, "%s%s%s", before,
			       gm_size_format(bytes, size, sizeof size), after);
	if (n > 0)
		line->length += (size_t)n < room ? (size_t)n : room - 1;
}

/* Live and idle bytes are always there, so that a reader sees that the pool has none. */
static void line_add_owners(struct line *line, const struct gm_sample *s)
{
	static const char *const names[] = {
#define GM_OWNER_ROW(member, key, text) text,
#include "log/owner.def"
#undef GM_OWNER_ROW
	};
	const uint64_t bytes[] = {
#define GM_OWNER_ROW(member, key, text) s->member,
#include "log/owner.def"
#undef GM_OWNER_ROW
	};
	char before[64];
	for (unsigned i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		if (i >= 2 && !bytes[i])
			continue;
		snprintf(before, sizeof before, "%s%s ",
			 i ? ", " : "; of this process: ", names[i]);
		line_add(line, before, bytes[i], "");
		if (i == 1)
			line_add(line, " (largest ", s->largest_idle, ")");
	}
}

static void line_add_device(struct line *line, const struct lack *lack)
{
	const struct gm_sample *s = &lack->sample;
	if (s->limit < s->device_total)
		line_add(line, ", limit ", s->limit, "");
	const bool asked = s->known & GM_SAMPLE_FREE;
	const uint64_t own = sample_own(s, lack->ordinal);
	if (asked)
		line_add(line, ", free ", s->device_free, "");
	line_add(line, asked ? " of " : ", device ", s->device_total, "");
	line_add_owners(line, s);
	if (asked)
		line_add(line, "; of others ", less(less(s->device_total, s->device_free), own),
			 "");
	else
		line_add(line, "; not known ", less(s->device_total, own), "");
	if (s->managed)
		line_add(line, "; managed ", s->managed, ", anywhere");
}

/* Programs may call until they fail, many times. 0: no line is due; else the number of the failure.
 */
static unsigned failure_next(unsigned row)
{
	const unsigned n = atomic_fetch_add_explicit(&failures[row], 1, memory_order_relaxed) + 1;
	return n & (n - 1) ? 0 : n;
}

static void line_begin(struct line *line, const struct lack *lack)
{
	const char *call = gm_hooks[lack->hook].symbol;
	line->length = (size_t)snprintf(line->text, sizeof line->text, "%s ", call);
	if (lack->bytes)
		line_add(line, "asked ", lack->bytes, "");
	else
		line->length += (size_t)snprintf(line->text + line->length,
						 sizeof line->text - line->length, "failed");
}

static const char *failure_text(unsigned n, char text[32])
{
	*text = '\0';
	if (n > 1)
		snprintf(text, 32, " (failure %u)", n);
	return text;
}

/* Write the holders of the memory into the log and `text`. */
static void holders_report(const struct lack *lack, unsigned failure, char text[GM_HOLDERS_TEXT])
{
	const struct gm_pool *pool = gm_shim_pool_if_any(lack->ordinal);
	struct gm_holders holders;
	*text = '\0';
	if (!pool)
		return;
	gm_holders_find(lack->ordinal, pool, &holders);
	gm_holders_write(&holders, lack->ordinal, failure);
	gm_holders_text(&holders, text);
	gm_holders_free(&holders);
}

/* `n`: number of the failure. */
static void device_report(const struct lack *lack, unsigned n)
{
	char held[GM_HOLDERS_TEXT], nth[32];
	struct line line;
	line_begin(&line, lack);
	line_add_device(&line, lack);
	holders_report(lack, n, held);
	const char *log = *held && gm_log_path() ? gm_log_path() : "";
	gm_msg(GM_MSG_WARN, "out of memory on device %u%s: %s%s%s" GM_MSG_TEXT, lack->ordinal,
	       failure_text(n, nth), line.text, held,
	       *log ? "; all: gpumemstat live --at=oom " : "", GM_MSG_CUT(log));
}

static void host_report(const struct lack *lack)
{
	char nth[32];
	struct line line;
	const unsigned n = failure_next(GM_COUNTER_DEVICES);
	if (!n)
		return;
	line_begin(&line, lack);
	gm_msg(GM_MSG_WARN, "out of memory of the host%s: %s", failure_text(n, nth), line.text);
}

/* A program that probes for memory pays for the state of the device only if somebody is told. */
static void device_tell(struct lack *lack, const struct gm_context *current)
{
	const unsigned n = failure_next(lack->ordinal);
	if (!n && !gm_log_wants(GM_RECORD_OUT_OF_MEMORY))
		return;
	sample_fill(lack, current);
	lack_record(lack, lack->ordinal);
	if (n)
		device_report(lack, n);
}

/* --- entries --- */

void gm_lack_allocation(enum gm_hook_id hook, const struct gm_context *context, uint64_t bytes,
			uint32_t stack)
{
	struct lack lack = {
		.hook = hook, .ordinal = context->ordinal, .bytes = bytes, .stack = stack};
	reported = hook;
	device_tell(&lack, context);
}

/* A size that is not known may be any. */
static uint32_t lack_stack(uint64_t bytes)
{
	const struct gm_stack_from none = {0};
	return gm_stack_wanted(bytes ? bytes : SIZE_MAX - 1)
		       ? gm_stack_capture(&gm_shim_inside, none)
		       : 0;
}

void gm_lack(enum gm_hook_id hook, int where, uint64_t bytes)
{
	CUresult ignored;
	const struct gm_context *current = gm_context_current(&gm_shim_driver, &ignored);
	const bool host = where == GM_LACK_HOST;
	struct lack lack = {.hook = hook, .bytes = bytes};
	reported = hook;
	if (where >= 0)
		lack.ordinal = (unsigned)where;
	else if (current)
		lack.ordinal = current->ordinal;
	if (lack.ordinal >= gm_shim_n_devices)
		return;
	gm_counter_add(lack.ordinal, GM_C_refused_calls, 1);
	lack.stack = lack_stack(bytes);
	if (!host) {
		device_tell(&lack, current);
		return;
	}
	lack_record(&lack, GM_RECORD_NO_DEVICE);
	host_report(&lack);
}

void gm_lack_rest(enum gm_hook_id hook)
{
	if (reported != hook)
		gm_lack(hook, GM_LACK_HERE, 0);
	reported = GM_HOOK_NONE;
}

void gm_lack_forget(void)
{
	for (unsigned i = 0; i <= GM_COUNTER_DEVICES; i++)
		atomic_store_explicit(&failures[i], 0, memory_order_relaxed);
}
