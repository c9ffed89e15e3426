/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/parts.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/thread.h"

static uint32_t owner[GM_PART_ROWS]; /* thread id; 0: none, but the row may hold counts */
static _Atomic unsigned rows_given;  /* rows that ever had an owner: [0, rows_given) */

/* 1 + the counter at each place, 0: none; as struct gm_parts.counter. */
static const uint16_t counter_at[2][GM_PART_PLACES] = {
#define GM_SPLIT(scope, place, name) [GM_SCOPE_##scope == GM_SCOPE_DEVICE][place] = 1 + GM_C_##name,
#include "log/split.def"
#undef GM_SPLIT
};

void gm_parts_describe(struct gm_parts *parts)
{
	parts->rows = GM_PART_ROWS;
	memcpy(parts->counter, counter_at, sizeof counter_at);
}

/* A thread does not report its end: for that, libc would have to run a hook in each thread. */
static bool thread_has_ended(uint32_t thread)
{
	return syscall(SYS_tgkill, getpid(), (pid_t)thread, 0) != 0 && errno == ESRCH;
}

static void owners_disown_ended(void)
{
	uint32_t alive = 0;
	int saved = errno;
	for (unsigned i = 0; i < GM_PART_ROWS; i++) {
		if (!owner[i] || owner[i] == alive)
			continue;
		if (thread_has_ended(owner[i]))
			owner[i] = 0;
		else
			alive = owner[i];
	}
	errno = saved;
	/* The next owner of a row must see the last counts of the thread that has ended. */
	atomic_fetch_add_explicit(&rows_given, 0, memory_order_acq_rel);
}

/* A row without an owner that counts for this row of the page; else the first unused one. */
static unsigned row_find(const struct gm_parts *parts, unsigned row)
{
	unsigned given = atomic_load_explicit(&rows_given, memory_order_relaxed);
	for (unsigned i = 0; i < given; i++)
		if (!owner[i] &&
		    atomic_load_explicit(&parts->of[i].row, memory_order_relaxed) == row + 1)
			return i;
	return given;
}

unsigned gm_parts_take(struct gm_parts *parts, unsigned row)
{
	gm_lock_assert_held(GM_LOCK_RANK_COUNTER);
	unsigned found = row_find(parts, row);
	if (found == GM_PART_ROWS) {
		owners_disown_ended();
		found = row_find(parts, row);
	}
	if (found == GM_PART_ROWS)
		return found;
	owner[found] = gm_thread_id();
	atomic_store_explicit(&parts->of[found].row, row + 1, memory_order_relaxed);
	if (found == atomic_load_explicit(&rows_given, memory_order_relaxed))
		atomic_store_explicit(&rows_given, found + 1, memory_order_release);
	return found;
}

void gm_parts_sum(const struct gm_parts *parts, unsigned row, uint64_t value[GM_COUNTER_COUNT])
{
	unsigned given = atomic_load_explicit(&rows_given, memory_order_acquire);
	for (unsigned i = 0; i < given; i++) {
		const struct gm_part_row *of = &parts->of[i];
		if (atomic_load_explicit(&of->row, memory_order_relaxed) != row + 1)
			continue;
		for (unsigned place = 0; place < GM_PART_PLACES; place++) {
			unsigned counter = counter_at[row != 0][place];
			if (counter)
				value[counter - 1] += atomic_load_explicit(&of->part[place],
									   memory_order_relaxed);
		}
	}
}

void gm_parts_copy(const struct gm_parts *from, struct gm_parts *to)
{
	unsigned given = atomic_load_explicit(&rows_given, memory_order_relaxed);
	gm_lock_assert_held(GM_LOCK_RANK_COUNTER);
	for (unsigned i = 0; i < given; i++) {
		const struct gm_part_row *a = &from->of[i];
		struct gm_part_row *b = &to->of[i];
		atomic_store_explicit(&b->row, atomic_load_explicit(&a->row, memory_order_relaxed),
				      memory_order_relaxed);
		for (unsigned place = 0; place < GM_PART_PLACES; place++)
			atomic_store_explicit(
				&b->part[place],
				atomic_load_explicit(&a->part[place], memory_order_relaxed),
				memory_order_relaxed);
	}
}

void gm_parts_forget(struct gm_parts *parts)
{
	unsigned given = atomic_load_explicit(&rows_given, memory_order_relaxed);
	memset(parts->of, 0, given * sizeof *parts->of);
	memset(owner, 0, sizeof owner);
	atomic_store_explicit(&rows_given, 0, memory_order_relaxed);
}
