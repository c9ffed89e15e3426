/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer of a log (gpumem-log(5)). Opened at the first successful cuInit, by the knobs; any
 * thread writes, without a lock except at the end of a segment; readable while it is written and
 * after kill -9. Nothing here fails the host program: when space cannot be reserved, one message
 * reports that, the log ends, and every further call returns at once.
 */
#ifndef GM_LOG_LOG_H
#define GM_LOG_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"
#include "log/counters.h"
#include "log/record.h"

struct gm_log_device {
	char name[96];
	uint8_t uuid[16];
	uint64_t total; /* bytes */
};

struct gm_log_config {
	const char *mode;   /* "pool" or "trace", for the header */
	int driver_version; /* cuDriverGetVersion */
	const struct gm_log_device *devices;
	unsigned n_devices;
	const char *const *hooks; /* names of the rows of hooks.def; record.hook counts from 1 */
	unsigned n_hooks;
	/* The knobs LOG, LOG_NAME, LOG_LIMIT, LOG_EVENTS and SAMPLE are read from gm_knob_get(). */
	/* Call `each` for every live block, for a checkpoint. Called with no lock held. */
	void (*walk)(void (*each)(void *arg, const struct gm_record *live), void *arg);
};

/* Open the log that the knobs select; with GPUMEM_LOG=off, return true and write none. Once a
 * process. False, after one message: there is no log. */
bool gm_log_open(const struct gm_log_config *config);

/* True if records of this kind are kept; to be tested before one is filled in. One relaxed load. */
extern GM_HIDDEN _Atomic uint32_t gm_log_wanted; /* gm_record_bit of each kind that is kept */
static inline bool gm_log_wants(enum gm_record_kind kind)
{
	return atomic_load_explicit(&gm_log_wanted, memory_order_relaxed) & gm_record_bit(kind);
}

/* Append one record; `time` and `thread` are filled in if one of them is 0. Takes GM_LOCK_RANK_LOG
 * only at the end of a segment, or in the small log. Any thread, also under GM_LOCK_RANK_POOL. */
void gm_log_put(const struct gm_record *record);

/* Append a SAMPLE or OUT_OF_MEMORY with its body; a SAMPLE also updates the sample counters (peaks,
 * integrals). */
void gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample);

/* Append a HEAP_SAMPLE with its body, whose length is filled in. The small log keeps only those
 * with GM_RECORD_LAST. */
void gm_log_put_heap(const struct gm_record *record, const struct gm_heap_sample *sample);

/* Append a STACK or OBJECT with its body. */
void gm_log_put_body(const struct gm_record *record, const void *body, size_t length);

/* A number of the segment that events are written to, which no other segment of the process has, in
 * any log; 0: none. Each segment needs the STACKs and OBJECTs that its records refer to. */
uint64_t gm_log_sequence(void);

/* The number of `text` in the log; the first call with a text writes it. 0: it cannot be kept. */
uint32_t gm_log_string(const char *text);

/* True if the time of GPUMEM_LOG has passed since the last sample of the device; the caller that
 * gets true takes the sample. Any thread; no lock. */
bool gm_log_sample_due(unsigned device, uint64_t now);

/* Time of the device's next sample; 0: at once. */
uint64_t gm_log_sample_next(unsigned device);

/* Work that must not be done under a lock (checkpoints of new segments): writer.h. */
extern GM_HIDDEN _Atomic uint32_t gm_log_due;
void gm_log_work(void);

/* Do that work. The shim calls it at the end of each handler; one relaxed load when there is none.
 * pre: no lock is held. */
static inline void gm_log_poll(void)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_log_due, memory_order_relaxed)))
		gm_log_work();
}

/* At exit, after the last sample: write the final counters and mark the log as closed. No CUDA
 * call. */
void gm_log_close(void);

/* In a forked child, after gm_thread_forget: drop the parent's log without writing to it. */
void gm_log_forget(void);

/* Path of the file that is written, of the recording if there are two; NULL: none. */
const char *gm_log_path(void);

#endif
