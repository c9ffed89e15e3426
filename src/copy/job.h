/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One copy, shared by threads: they populate its pages in chunks, then move its pieces through the
 * slots. A thread takes the next chunk or piece by an atomic addition.
 *
 *     piece i uses slot i % slots      to the device            from the device
 *     a thread copies piece i when     piece i - slots is done  piece i is done
 *     the owner submits piece i when   it was copied            piece i - slots was copied
 *     done                             DMA of it has ended      DMA of it has ended
 *
 * No piece is copied before all pages are populated: if a page cannot be, host memory is unchanged.
 *
 * A page may still become inaccessible later. If the program handles SIGSEGV or SIGBUS, its handler
 * must run on the thread that made the call, and may leave it by longjmp. So the kernel then copies
 * each piece (gm_move_checked), on all threads, and the job fails at such a page. Without handlers
 * the fault ends the process, as natively.
 */
#ifndef GM_COPY_JOB_H
#define GM_COPY_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_JOB_SLOTS 64 /* most slots of a ring */

/* Rows of host memory; one row: a line. */
struct gm_job_host {
	char *at;
	size_t width, rows, pitch; /* pitch >= width; if rows > 1, larger by less than a page */
};

struct gm_job {
	/* set by the owner */
	struct gm_job_host host;
	bool to_device;
	bool own; /* host memory is ours: no handler of the program expects its faults */
	char *slots;
	size_t slot; /* bytes of each */
	uint32_t n_slots;
	/* set by gm_job_begin */
	size_t step; /* bytes of a piece of a line; rows of a piece of rows */
	uint32_t pieces, chunks;
	char *pages; /* first page, and bytes of all */
	size_t span, chunk;
	/* shared */
	atomic_uint next_chunk, next_piece;
	atomic_uint populated; /* chunks; a futex */
	atomic_uint copied;    /* pieces */
	atomic_uint done;      /* pieces whose DMA has ended; a futex */
	atomic_uint sleepers;
	atomic_int failed; /* errno of a page that cannot be populated or accessed */
	atomic_bool stopped;
	atomic_uint ready[GM_JOB_SLOTS]; /* 1 + the piece that was copied into or out of the slot */
};

/* Cut the copy into chunks and pieces for `threads` threads. False: rows are longer than a slot, or
 * a whole page may lie between two rows. */
bool gm_job_begin(struct gm_job *job, unsigned threads);

/* A piece on the device's side: its offset in the copy and its size, in bytes; of rows, in rows. */
void gm_job_piece(const struct gm_job *job, uint32_t i, size_t *at, size_t *size);

/* The slot of a piece. */
static inline char *gm_job_slot(const struct gm_job *job, uint32_t i)
{
	return job->slots + (i % job->n_slots) * job->slot;
}

/* The body of each thread: chunks, then pieces, until none remains or the job is stopped. `job` is
 * a struct gm_job. */
void gm_job_work(void *job);

/* The owner does one chunk or piece, if it can without waiting. False: it did none. */
bool gm_job_help(struct gm_job *job);

/* May the owner submit piece i? */
static inline bool gm_job_can_submit(const struct gm_job *job, uint32_t i)
{
	unsigned ready = atomic_load_explicit(&job->ready[i % job->n_slots], memory_order_acquire);
	return job->to_device ? ready == i + 1 : i < job->n_slots || ready == i + 1 - job->n_slots;
}

/* The DMA of one more piece has ended. */
void gm_job_done(struct gm_job *job);

/* Make all threads leave. */
void gm_job_stop(struct gm_job *job);

/* Fault in all pages of [at, at + size), for reading or for writing. A page that cannot be had
 * raises no signal. 0, or an errno: EINVAL also on kernels before Linux 5.14. */
int gm_job_populate(const void *at, size_t size, bool write);

#endif
