/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of one log for summary, before layout. Single-threaded. */
#ifndef GM_TOOLS_LOG_FIGURES_H
#define GM_TOOLS_LOG_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "log/read.h"

/* The calls of one hook, from events. */
struct gm_figures_hook {
	uint64_t calls, errors, driver, total; /* total: ns; driver: calls served by the driver */
	GM_ARRAY(uint32_t) durations;	       /* ns, sorted: of one call in 2^halved */
	unsigned halved;
	uint32_t longest; /* of all calls, ns */
};

/* OUT_OF_MEMORY */
struct gm_figures_refusal {
	uint64_t time, asked; /* 0: the call names no size */
	const char *call;     /* text of the log; "": not known */
	unsigned device;
	struct gm_sample sample;
};

/* PyTorch's cache gave up: TENSOR_REFUSED. */
struct gm_figures_giveup {
	uint64_t time, asked;
	uint64_t segments, tensors; /* bytes */
	uint32_t stack;
	unsigned device;
	bool refused;		 /* by the driver or the pool; else by a limit of the cache */
	struct gm_sample sample; /* of the pool's last refusal; 0: none */
};

/* A kernel for which device heaps grew. */
struct gm_figures_kernel {
	const char *name; /* text of the log; "": not known, or one of too many kernels */
	uint64_t growths, bytes;
};

struct gm_figures_device {
	bool used;		    /* the program allocated, freed or mapped on it */
	GM_ARRAY(uint32_t) growths; /* of device heaps, ns; only those with events in the log */
	GM_ARRAY(struct gm_figures_kernel) kernels; /* of these growths */
	bool refused;				    /* a call, since PyTorch's cache last gave up */
	struct gm_sample refusal;
};

/* A context for which a takeover of malloc in kernels was tried. */
struct gm_figures_context {
	uint64_t key, time, heap, limit, ns;
	unsigned device, status;
	bool taken;
	const char *text; /* the takeover's result; text of the log, as are those below */
};

/* A loaded image of device code. */
struct gm_figures_image {
	uint64_t address;
	unsigned device;
	bool may, unknown; /* may call malloc; the answer is unknown */
	const char *text;
};

/* A device heap, as last sampled. */
struct gm_figures_heap {
	uint64_t live, mapped, nulls, foreign_frees;
	uint32_t context; /* low half of its key */
	unsigned device;
	bool own, ended; /* own: the program made it */
	const char *policy;
	struct gm_heap_sample more;
};

/* The calls of malloc or free in kernels at a line, or else one call, as last read: of all heaps of
 * its context. */
struct gm_figures_site {
	uint64_t address, offset;    /* of its return, and in the function; address 0: not known */
	const char *function, *file; /* "": not known; the function as the compiler names it */
	const char *shown;	     /* the function demangled; NULL before gm_figures_sites_name */
	uint64_t calls;		     /* of a line: in an unrolled loop there are several */
	uint64_t live, blocks, peak; /* bytes, of the blocks they allocated; peak: the sum of each
				      * call's, at readings */
	uint64_t mallocs, nulls;
	uint64_t twice, invalid; /* wrong frees by this call */
	uint32_t line, context, number;
	unsigned device;
	bool ended; /* its heap has ended */
};

/* A private table that gpumem does not know, or one of its functions that was called. */
struct gm_figures_table {
	const char *name;      /* the identifier, and the library that asked */
	uint64_t bytes;	       /* 0: it does not begin with them */
	uint64_t fate;	       /* enum gm_table_fate */
	uint64_t entry, calls; /* entry 0: the table */
};

/* ns; equal where the median is known, else its bounds */
struct gm_figures_median {
	uint64_t least, most;
};

struct gm_course;

struct gm_figures {
	struct gm_log_file *file;
	const struct gm_log_about *about;
	struct gm_figures_device devices[GM_COUNTER_DEVICES];
	unsigned n_devices;
	struct gm_figures_hook *hooks;		      /* about->n_hooks of them */
	GM_ARRAY(struct gm_figures_refusal) refusals; /* of memory of a device */
	uint64_t refused_host;			      /* of memory of the host */
	GM_ARRAY(struct gm_figures_giveup) giveups;
	GM_ARRAY(struct gm_figures_context) contexts;
	GM_ARRAY(struct gm_figures_image) images;
	GM_ARRAY(struct gm_figures_heap) heaps;
	GM_ARRAY(struct gm_figures_site) sites;
	char *site_names;	    /* memory of `shown` */
	struct gm_course **courses; /* course.h: of each device; NULL until it is read */
	GM_ARRAY(struct gm_figures_table) tables;
};

/* Read a log. False: `why` has the reason; nothing to close. */
bool gm_figures_open(struct gm_figures *figures, const char *path, char *why, size_t n);
void gm_figures_close(struct gm_figures *figures);

/* A counter. If the log has every event, those of samples are computed from the events, which
 * rewinds the log (course.h). */
uint64_t gm_figures_device(const struct gm_figures *figures, unsigned device, enum gm_counter c);
uint64_t gm_figures_process(const struct gm_figures *figures, enum gm_counter c);

/* Blocks alive at the end, those of the driver included. */
uint64_t gm_figures_alive(const struct gm_figures *figures, unsigned device);

/* The sum over all devices. */
uint64_t gm_figures_sum(const struct gm_figures *figures, enum gm_counter c);

/* Calls of any kind that were refused, for a device. */
uint64_t gm_figures_refused(const struct gm_figures *figures, unsigned device);

/* Bytes of the process outside of the pool at a refusal, that stayed on the device; of older logs,
 * which do not have them, the highest. */
uint64_t gm_figures_foreign(const struct gm_figures *figures, unsigned device,
			    const struct gm_sample *sample);

/* Bytes that GPUMEM_LIMIT would have to allow for a refused request; of older logs, for the pool's
 * alone. */
uint64_t gm_figures_needed(const struct gm_figures *figures, unsigned device,
			   const struct gm_sample *sample, uint64_t asked);

/* In trace mode the driver serves every allocation and the pool none. */
bool gm_figures_is_trace(const struct gm_figures *figures);

/* The sum of the devices' peaks of requested bytes: of the pool, in trace mode of the driver. */
uint64_t gm_figures_requested_peak(const struct gm_figures *figures);

/* _length: ns from the start of the log to its last recorded time. _at: ns from the start to `time`
 * (0: unknown, gives 0). */
uint64_t gm_figures_length(const struct gm_figures *figures);
uint64_t gm_figures_at(const struct gm_figures *figures, uint64_t time);

/* The duration that `ppm` parts per million of the calls did not exceed; 0 without calls. */
uint32_t gm_figures_quantile(const struct gm_figures_hook *hook, uint32_t ppm);

/* --- figures_heap.c --- */

/* Add a record about malloc in kernels. False: host memory is short. free_heap frees them all. */
bool gm_figures_add_heap(struct gm_figures *figures, const struct gm_log_entry *entry);
void gm_figures_free_heap(struct gm_figures *figures);

/* Sort the kernels of a device by their bytes, most first. */
void gm_figures_sort_kernels(struct gm_figures *figures, unsigned device);

/* The median growth time of a device's heaps; 0 without growths. */
struct gm_figures_median gm_figures_growth(struct gm_figures *figures, unsigned device);

/* The allocation size of a bin of gm_heap_sample.live, except the last. */
uint64_t gm_figures_size(unsigned bin);

/* --- figures_site.c --- */

/* Add a SITE, SITE_BLOCKS or SITE_CALLS record. False: host memory is short. */
bool gm_figures_add_site(struct gm_figures *figures, const struct gm_record *record);

/* After all records: add up the calls of each line. */
void gm_figures_sites_join(struct gm_figures *figures);

/* Demangle the functions of all calls, once: runs a program. */
void gm_figures_sites_name(struct gm_figures *figures);

/* Where a call is: "leak.cu:34 in work(int)", "work(int)+0x1f0", "0x7f3c..." or "unknown calls".
 * Returns `buf`. */
char *gm_figures_site_place(const struct gm_figures_site *site, char *buf, size_t n);

/* --- figures_table.c --- */

/* Add a TABLE record. False: host memory is short. */
bool gm_figures_add_table(struct gm_figures *figures, const struct gm_record *record);

/* What became of a table, in words. */
const char *gm_figures_fate(uint64_t fate);

/* The first time that PyTorch's cache gave up on a device (-1: any); NULL: never. */
const struct gm_figures_giveup *gm_figures_giveup(const struct gm_figures *figures, int device);

/* Program and mode as text; a log that was cut early lacks them. */
const char *gm_figures_program(const struct gm_figures *figures);
const char *gm_figures_mode(const struct gm_figures *figures);

/* "closed cleanly", "still running", "killed, or crashed", "end unknown". */
const char *gm_figures_end(const struct gm_figures *figures);

/* The file name of the log. */
const char *gm_figures_name(const struct gm_figures *figures);

#endif
