/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of allocations and frees of one device, from a log of events, a CSV of RMM's
 * logging_resource_adaptor, or a CSV of MiniMalloc; a CSV may be compressed by gzip. An
 * inconsistent trace is refused with its line. Single-threaded.
 */
#ifndef GM_TOOLS_REPLAY_REPLAY_H
#define GM_TOOLS_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdio.h>

#include "base/array.h"
#include "base/hash.h"
#include "tools/options.h"

struct gm_trace_event {
	uint64_t time; /* ns, never decreasing; 0: the file has no times */
	uint32_t block;
	bool frees;
};

/* A block of the trace, numbered in the order of allocation. */
struct gm_trace_block {
	uint64_t key, size, line;
	uint32_t number;
	UT_hash_handle hh;
};

struct gm_trace {
	const char *path, *format; /* "log", "rmm", "minimalloc" */
	GM_ARRAY(struct gm_trace_event) events;
	GM_ARRAY(struct gm_trace_block *) blocks;
	unsigned device;
	uint64_t memory;		    /* of the device; 0: unknown */
	uint64_t requested, requested_peak; /* bytes live */
	uint64_t refused;		    /* requests that failed when the trace was made */
	uint64_t empty;			    /* requests of 0 bytes, skipped */
	uint64_t missing;		    /* frees of blocks allocated before the trace */
	/* Used during the read: */
	struct gm_trace_block *live; /* by key */
	uint64_t line;		     /* 0: the file has no lines */
	char why[640];
};

/* Read `path` ("-": standard input). False, after one message: nothing to free. */
bool gm_trace_read(struct gm_trace *trace, const char *path, const struct gm_options *options);
void gm_trace_free(struct gm_trace *trace);

/* For the readers. All return false, with trace->why set, if the trace is inconsistent. */
bool gm_trace_fail(struct gm_trace *trace, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool gm_trace_add(struct gm_trace *trace, uint64_t key, uint64_t size, uint64_t time);

/* The live block of a key; NULL: none. */
struct gm_trace_block *gm_trace_find(struct gm_trace *trace, uint64_t key);
bool gm_trace_end(struct gm_trace *trace, struct gm_trace_block *block, uint64_t time);

/* csv.c: read a CSV, open at its start. `unit`: bytes of MiniMalloc's sizes. */
bool gm_trace_read_csv(struct gm_trace *trace, FILE *in, uint64_t unit);

/* log.c */
bool gm_trace_read_log(struct gm_trace *trace, const struct gm_options *options);

#endif
