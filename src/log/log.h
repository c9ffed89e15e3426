/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer of a log (gpumem-log(5)). Opened at the first successful cuInit, from knobs; written
 * by any thread without a lock but at the turn of a segment; readable while it is being written and
 * after kill -9. Nothing here ever fails the host program: when space cannot be reserved, the log
 * ends, one line says so, and every further call returns at once.
 */
#ifndef GM_LOG_LOG_H
#define GM_LOG_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/counters.h"
#include "log/record.h"

struct gm_log_device {
	char name[96];
	uint8_t uuid[16];
	uint64_t total; /* bytes */
};

struct gm_log_config {
	const char *mode;   /* "pool", "trace": for the header */
	int driver_version; /* cuDriverGetVersion */
	const struct gm_log_device *devices;
	unsigned n_devices;
	const char *const *hooks; /* names of hooks.def rows, in order: record.hook counts from 1 */
	unsigned n_hooks;
	/* Knobs (LOG, LOG_NAME, LOG_LIMIT, LOG_EVENTS, SAMPLE) are read from gm_knob_get(). */
	/* Call `each` for every live block; used for checkpoints, with no lock of ours held. */
	void (*walk)(void (*each)(void *arg, const struct gm_record *live), void *arg);
};

/* Open the log that the knobs ask for; GPUMEM_LOG=off succeeds and writes nothing. Once a process.
 */
bool gm_log_open(const struct gm_log_config *config);

/* True if records of this kind are kept: test before filling one in. One relaxed load. */
extern _Atomic uint32_t gm_log_wanted; /* bit k: records of kind k are kept */
static inline bool gm_log_wants(enum gm_record_kind kind)
{
	return kind < 32 &&
	       (atomic_load_explicit(&gm_log_wanted, memory_order_relaxed) & 1u << kind);
}

/* Append one record; `time` (if 0) and `thread` are filled in. Takes no lock but at a segment's
 * end. Any thread; may be called under GM_RANK_POOL. */
void gm_log_put(const struct gm_record *record);

/* Append a SAMPLE or OUT_OF_MEMORY with its body, and for SAMPLE keep the sample counters (peaks,
 * integrals). */
void gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample);

/* Append a HEAP_SAMPLE with its body, whose length is filled in. The small log keeps those with
 * GM_RECORD_LAST. */
void gm_log_put_heap(const struct gm_record *record, const struct gm_heap_sample *sample);

/* The number of `text` in the log, writing it there the first time; 0 when it cannot be kept. */
uint32_t gm_log_string(const char *text);

/* True if GPUMEM_SAMPLE has passed since the last sample of the device; the caller that gets true
 * takes the sample. */
bool gm_log_sample_due(unsigned device, uint64_t now);

/* When the next sample of the device is due; 0: at once. */
uint64_t gm_log_sample_next(unsigned device);

/* Work that must not happen under a lock (checkpoints of fresh segments): called by the shim at the
 * end of each handler; one relaxed load when there is none. */
void gm_log_poll(void);

/* At exit, after the last sample: final counters into the header, "closed cleanly". No CUDA call.
 */
void gm_log_close(void);

/* In a forked child: drop the parent's log without touching it. */
void gm_log_forget(void);

/* The file being written, or NULL: for the one line at the end of `gpumemstat record`. */
const char *gm_log_path(void);

#endif
