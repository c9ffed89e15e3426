/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/job.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "copy/move.h"

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE ((size_t)4096) /* the smallest page of any system; a page may be a multiple of it */
#define LEAST_PIECE (256 * (size_t)GM_KIB)
#define LEAST_CHUNK ((size_t)GM_MIB)
#define MOST_CHUNK (16 * (size_t)GM_MIB)
#define PIECES_A_THREAD 4 /* at least, so that the first and the last are short */
#define ROWS 64		  /* moved at once */
#define SPINS 200	  /* turns of a wait before it sleeps */
#define NAP 1000000	  /* ns of one sleep at most */

/* --- geometry --- */

static size_t job_bytes(const struct gm_job *job)
{
	return job->host.width * job->host.rows;
}

static size_t divide_up(size_t a, size_t b)
{
	return a / b + (a % b != 0);
}

static void job_cut_pieces(struct gm_job *job, unsigned threads)
{
	size_t size = gm_round_up(job_bytes(job) / (threads * PIECES_A_THREAD) + 1, 64 * GM_KIB);
	if (size < LEAST_PIECE)
		size = LEAST_PIECE;
	if (size > job->slot)
		size = job->slot;
	if (job->host.rows == 1) {
		job->step = size;
		job->pieces = (uint32_t)divide_up(job->host.width, size);
		return;
	}
	job->step = size / job->host.width ? size / job->host.width : 1;
	job->pieces = (uint32_t)divide_up(job->host.rows, job->step);
}

static void job_cut_chunks(struct gm_job *job, unsigned threads)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)job->host.at & ~(page - 1);
	uintptr_t to =
		(uintptr_t)job->host.at + job->host.width + (job->host.rows - 1) * job->host.pitch;
	job->pages = (char *)from;
	job->span = gm_round_up(to - from, page);
	job->chunk = gm_round_up(job->span / (threads * PIECES_A_THREAD) + 1, LEAST_CHUNK);
	if (job->chunk > MOST_CHUNK)
		job->chunk = MOST_CHUNK;
	job->chunks = (uint32_t)divide_up(job->span, job->chunk);
}

bool gm_job_begin(struct gm_job *job, unsigned threads)
{
	const struct gm_job_host *h = &job->host;
	if (h->rows > 1 && (h->width > job->slot || h->pitch - h->width >= PAGE))
		return false;
	job_cut_pieces(job, threads);
	job_cut_chunks(job, threads);
	return true;
}

void gm_job_piece(const struct gm_job *job, uint32_t i, size_t *at, size_t *size)
{
	size_t whole = job->host.rows == 1 ? job->host.width : job->host.rows;
	*at = i * job->step;
	*size = whole - *at < job->step ? whole - *at : job->step;
}

/* --- waits --- */

static void word_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void word_wait(struct gm_job *job, atomic_uint *word, unsigned seen, unsigned turn)
{
	static const struct timespec most = {.tv_nsec = NAP};
	if (turn < SPINS) {
		if (turn % 16 == 15)
			sched_yield();
		return;
	}
	atomic_fetch_add(&job->sleepers, 1);
	if (!atomic_load(&job->stopped))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
	atomic_fetch_sub(&job->sleepers, 1);
}

static void word_raise(struct gm_job *job, atomic_uint *word)
{
	atomic_fetch_add(word, 1);
	if (atomic_load(&job->sleepers))
		word_wake(word);
}

void gm_job_done(struct gm_job *job)
{
	word_raise(job, &job->done);
}

void gm_job_stop(struct gm_job *job)
{
	atomic_store(&job->stopped, true);
	word_wake(&job->done);
	word_wake(&job->populated);
}

/* --- chunks --- */

int gm_job_populate(const void *at, size_t size, bool write)
{
	int result;
	do
		result = madvise((void *)(uintptr_t)at, size,
				 write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (result != 0 && errno == EINTR);
	return result ? errno : 0;
}

static void job_fail(struct gm_job *job, int error)
{
	atomic_store(&job->failed, error);
	gm_job_stop(job);
}

static void chunk_populate(struct gm_job *job, uint32_t i)
{
	size_t at = i * job->chunk;
	size_t size = job->span - at < job->chunk ? job->span - at : job->chunk;
	int error = gm_job_populate(job->pages + at, size, !job->to_device);
	if (error)
		job_fail(job, error);
	word_raise(job, &job->populated);
}

static bool chunk_take(struct gm_job *job)
{
	if (atomic_load_explicit(&job->next_chunk, memory_order_relaxed) >= job->chunks)
		return false;
	uint32_t i = atomic_fetch_add(&job->next_chunk, 1);
	if (i >= job->chunks)
		return false;
	chunk_populate(job, i);
	return true;
}

static bool job_is_populated(struct gm_job *job, unsigned *seen)
{
	return (*seen = atomic_load(&job->populated)) >= job->chunks;
}

/* --- pieces --- */

static int lines_move(const struct gm_job *job, const struct iovec *lines, size_t n, char *slot)
{
	for (size_t i = 0; i < n; slot += lines[i++].iov_len)
		job->to_device ? (void)memcpy(slot, lines[i].iov_base, lines[i].iov_len)
			       : gm_move_past_caches(lines[i].iov_base, slot, lines[i].iov_len);
	return 0;
}

/* Copy `rows` rows from `row` on, or a part of a line. */
static int rows_move(const struct gm_job *job, bool checked, size_t row, size_t rows, char *slot)
{
	const struct gm_job_host *h = &job->host;
	struct iovec lines[ROWS];
	int error = 0;
	for (size_t done = 0, n; done < rows && !error; done += n) {
		for (n = 0; n < ROWS && done + n < rows; n++)
			lines[n] = (struct iovec){h->at + (row + done + n) * h->pitch, h->width};
		char *to = slot + done * h->width;
		error = checked ? gm_move_checked(job->to_device, lines, n, to)
				: lines_move(job, lines, n, to);
	}
	return error;
}

static int line_move(const struct gm_job *job, bool checked, size_t at, size_t size, char *slot)
{
	const struct iovec line = {job->host.at + at, size};
	return checked ? gm_move_checked(job->to_device, &line, 1, slot)
		       : lines_move(job, &line, 1, slot);
}

/* The program may install a handler at any time, so each piece is checked anew. */
static void piece_copy(struct gm_job *job, uint32_t i)
{
	bool checked = !job->own && gm_move_must_check();
	char *slot = gm_job_slot(job, i);
	size_t at, size;
	gm_job_piece(job, i, &at, &size);
	int error = job->host.rows == 1 ? line_move(job, checked, at, size, slot)
					: rows_move(job, checked, at, size, slot);
	if (error) {
		job_fail(job, error);
		return;
	}
	atomic_store_explicit(&job->ready[i % job->n_slots], i + 1, memory_order_release);
	atomic_fetch_add_explicit(&job->copied, 1, memory_order_release);
}

/* May a thread copy piece i? *seen is job->done at that time. */
static bool piece_is_open(struct gm_job *job, uint32_t i, unsigned *seen)
{
	*seen = atomic_load(&job->done);
	return i < *seen + (job->to_device ? job->n_slots : 0);
}

void gm_job_work(void *arg)
{
	struct gm_job *job = arg;
	unsigned seen, i;
	while (!atomic_load(&job->stopped) && chunk_take(job))
		;
	for (unsigned turn = 0; !job_is_populated(job, &seen); turn++) {
		if (atomic_load(&job->stopped))
			return;
		word_wait(job, &job->populated, seen, turn);
	}
	while (!atomic_load(&job->stopped) &&
	       (i = atomic_fetch_add(&job->next_piece, 1)) < job->pieces) {
		for (unsigned turn = 0; !piece_is_open(job, i, &seen); turn++) {
			if (atomic_load(&job->stopped))
				return;
			word_wait(job, &job->done, seen, turn);
		}
		piece_copy(job, i);
	}
}

bool gm_job_help(struct gm_job *job)
{
	unsigned seen, i = atomic_load(&job->next_piece);
	if (atomic_load(&job->stopped))
		return false;
	if (chunk_take(job))
		return true;
	if (!job_is_populated(job, &seen) || i >= job->pieces || !piece_is_open(job, i, &seen) ||
	    !atomic_compare_exchange_strong(&job->next_piece, &i, i + 1))
		return false;
	piece_copy(job, i);
	return true;
}
