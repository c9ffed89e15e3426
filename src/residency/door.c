/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/door.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/futex_lock.h"
#include "base/sys.h"
#include "base/thread.h"
#include "log/count.h"

#define SEATS 256	      /* of a block */
#define BLOCKS 4096	      /* enough for a million threads */
#define SHUT_WAIT 1000000000u /* ns of one wait for a door that is shut; the next follows */
#define NAP 50000u	      /* ns between two readings of the state, or of a word */

/* From linux/membarrier.h, which older toolchains lack. */
enum { MEMBARRIER_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER = 1 << 4 };

struct seat {
	_Alignas(64) _Atomic uint64_t word; /* odd: a submission is inside */
	_Atomic uint64_t quiet;		    /* steps of `word` by gm_door_try */
	_Atomic uint32_t thread;	    /* owner of the seat; 0: none */
	struct seat *next;		    /* in the list of free seats */
};

atomic_bool gm_door_used;
static atomic_uint state; /* a futex */
static atomic_bool asymmetric;
static CUresult (*wake_up)(uint64_t since);
static _Atomic uint64_t crowd, crowd_passed; /* threads without a seat: inside; total */

static struct gm_futex_lock lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};
static struct seat *free_seats; /* under the lock */
static unsigned search_at;	/* under the lock: that many seats are searched for free ones */

/* Any thread may be reading a block, so none is freed. */
static struct seat first[SEATS], *blocks[BLOCKS] = {first};
static atomic_uint n_seats;

static GM_TLS struct seat *mine;
static GM_TLS uint32_t mine_of; /* owner of `mine`: a forked child's thread differs */
static GM_TLS bool taking;	/* a seat */

/*
 * How this thread has entered; 0: it has not. Written by one store, after its word is odd and
 * before it is even. So a signal handler that finds an odd word and 0 has interrupted a step: it
 * makes the word even, and odd again when it leaves.
 */
static GM_TLS unsigned char in;
enum {
	IN = 1,
	HALF = 2,   /* a step was interrupted */
	QUIET = 4,  /* by gm_door_try */
	CROWD = 8,  /* without a seat */
	BESIDE = 16 /* by gm_door_step_in, while the door was not open */
};
static GM_TLS unsigned depth; /* submissions within the one that has entered */

/* --- seats --- */

static struct seat *seat_at(unsigned i)
{
	return &blocks[i / SEATS][i % SEATS];
}

static bool thread_has_ended(uint32_t thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

static void seat_free(struct seat *seat)
{
	seat->next = free_seats;
	free_seats = seat;
}

/* No seat is free. */
static void block_make(void)
{
	unsigned n = atomic_load(&n_seats);
	struct seat *block = n ? MAP_FAILED : first;
	if (n && n / SEATS < BLOCKS)
		block = mmap(NULL, sizeof first, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return;
	blocks[n / SEATS] = block;
	for (unsigned i = SEATS; i-- > 0;)
		seat_free(&block[i]);
	atomic_store(&n_seats, n + SEATS);
}

/* Free the seats of threads that have ended. The next search is due when there are twice as many
 * seats as threads now, so a seat costs a few system calls on average. */
static void seats_search(void)
{
	unsigned live = 0;
	for (unsigned i = 0; i < atomic_load(&n_seats); i++) {
		struct seat *seat = seat_at(i);
		if (!thread_has_ended(atomic_load(&seat->thread))) {
			live++;
			continue;
		}
		atomic_fetch_and(&seat->word, ~(uint64_t)1); /* the thread ended inside */
		atomic_store(&seat->thread, 0);
		seat_free(seat);
	}
	search_at = 2 * live;
}

/* NULL: no host memory. */
static struct seat *seat_take(void)
{
	int saved = errno;
	gm_futex_lock_take(&lock);
	if (!free_seats && atomic_load(&n_seats) >= search_at)
		seats_search();
	if (!free_seats)
		block_make();
	struct seat *seat = free_seats;
	if (seat) {
		free_seats = seat->next;
		atomic_store(&seat->thread, gm_thread_id());
	}
	gm_futex_lock_release(&lock);
	errno = saved;
	return seat;
}

static struct seat *seat_mine(void)
{
	uint32_t thread = gm_thread_id();
	if (GM_UNLIKELY(mine_of != thread)) {
		if (taking) /* in a signal handler */
			return NULL;
		taking = true;
		mine = seat_take();
		mine_of = mine ? thread : 0;
		taking = false;
	}
	return mine;
}

/* --- submissions --- */

static inline void seat_step(struct seat *seat, memory_order order)
{
	uint64_t word = atomic_load_explicit(&seat->word, memory_order_relaxed);
	atomic_store_explicit(&seat->word, word + 1, order);
}

static inline enum gm_door_state come_in(struct seat *seat)
{
	if (GM_UNLIKELY(!seat)) {
		atomic_fetch_add(&crowd_passed, 1);
		atomic_fetch_add(&crowd, 1);
		return (enum gm_door_state)atomic_load(&state);
	}
	if (GM_UNLIKELY(!atomic_load_explicit(&asymmetric, memory_order_relaxed))) {
		atomic_fetch_add(&seat->word, 1);
		return (enum gm_door_state)atomic_load(&state);
	}
	seat_step(seat, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return (enum gm_door_state)atomic_load_explicit(&state, memory_order_acquire);
}

static inline void go_out(struct seat *seat)
{
	if (GM_LIKELY(seat != NULL))
		seat_step(seat, memory_order_release);
	else
		atomic_fetch_sub(&crowd, 1);
}

/* What `in` becomes, but for IN. */
static inline unsigned char step_back(struct seat *seat)
{
	if (GM_UNLIKELY(!seat))
		return CROWD;
	if (GM_LIKELY(!(atomic_load_explicit(&seat->word, memory_order_relaxed) & 1)))
		return 0;
	seat_step(seat, memory_order_release);
	return HALF;
}

static inline void step_again(struct seat *seat, unsigned char how)
{
	if (GM_UNLIKELY(how & HALF))
		atomic_fetch_add(&seat->word, 1);
}

static inline void in_set(unsigned char how)
{
	atomic_signal_fence(memory_order_seq_cst);
	in = how;
	atomic_signal_fence(memory_order_seq_cst);
}

/* Beside each step of the word, so that the sum of passages stays. */
static inline void quietly_step(struct seat *seat)
{
	if (seat)
		atomic_store_explicit(&seat->quiet,
				      atomic_load_explicit(&seat->quiet, memory_order_relaxed) + 1,
				      memory_order_relaxed);
}

/* Submissions of the wake itself pass. */
static CUresult woken(uint64_t since, unsigned char how)
{
	in_set(how);
	CUresult result = wake_up(since);
	in_set(0);
	return result;
}

CUresult gm_door_enter_used(void)
{
	if (in) {
		depth++;
		return CUDA_SUCCESS;
	}
	struct seat *seat = seat_mine();
	const unsigned char how = IN | step_back(seat);
	enum gm_door_state now;
	bool waited = false;
	uint64_t since = 0;
	while (GM_UNLIKELY((now = come_in(seat)) != GM_DOOR_OPEN)) {
		go_out(seat);
		since = since ? since : gm_clock_ns();
		CUresult result = now == GM_DOOR_ASLEEP ? woken(since, how) : CUDA_SUCCESS;
		if (result != CUDA_SUCCESS) {
			step_again(seat, how);
			return result;
		}
		if (now != GM_DOOR_SHUT)
			continue;
		if (!waited)
			gm_counter_add(0, GM_C_door_waits, 1);
		waited = true;
		gm_futex_wait(&state, GM_DOOR_SHUT, SHUT_WAIT);
	}
	in_set(how);
	return CUDA_SUCCESS;
}

bool gm_door_try_used(void)
{
	if (in & BESIDE)
		return false;
	if (in) {
		depth++;
		return true;
	}
	struct seat *seat = seat_mine();
	const unsigned char how = IN | QUIET | step_back(seat);
	enum gm_door_state now = come_in(seat);
	quietly_step(seat);
	if (now == GM_DOOR_OPEN) {
		in_set(how);
		return true;
	}
	quietly_step(seat);
	go_out(seat);
	step_again(seat, how);
	return false;
}

void gm_door_leave_used(void)
{
	const unsigned char how = in;
	struct seat *seat = how & CROWD ? NULL : mine;
	if (depth) {
		depth--;
		return;
	}
	if (how & QUIET)
		quietly_step(seat);
	in_set(0);
	go_out(seat);
	step_again(seat, how);
}

bool gm_door_is_inside(void)
{
	return in != 0;
}

bool gm_door_step_out(void)
{
	if (!in || depth)
		return false;
	gm_door_leave_used();
	return true;
}

void gm_door_step_in(void)
{
	struct seat *seat = seat_mine();
	const unsigned char how = IN | step_back(seat);
	in_set(how | (come_in(seat) == GM_DOOR_OPEN ? 0 : BESIDE));
}

/* --- the mover --- */

static bool seat_is_inside(struct seat *seat)
{
	if (!(atomic_load(&seat->word) & 1) || seat == mine)
		return false;
	return !thread_has_ended(atomic_load(&seat->thread));
}

static bool anyone_is_inside(void)
{
	for (unsigned i = 0; i < atomic_load(&n_seats); i++)
		if (seat_is_inside(seat_at(i)))
			return true;
	return atomic_load(&crowd) != 0;
}

bool gm_door_await(uint64_t end)
{
	for (unsigned i = 0; i < atomic_load(&n_seats); i++) {
		struct seat *seat = seat_at(i);
		uint64_t word = atomic_load(&seat->word);
		while (atomic_load(&seat->word) == word && seat_is_inside(seat)) {
			if (gm_clock_ns() >= end)
				return false;
			gm_sys_nap(NAP);
		}
	}
	return true;
}

bool gm_door_shut(uint64_t end)
{
	unsigned before = atomic_exchange(&state, GM_DOOR_SHUT);
	if (atomic_load(&asymmetric) && syscall(SYS_membarrier, MEMBARRIER_EXPEDITED, 0) != 0)
		end = 0; /* forbidden since registration: other threads' state is unknown */
	while (anyone_is_inside() || !end) {
		if (gm_clock_ns() >= end) {
			gm_door_set((enum gm_door_state)before);
			return false;
		}
		gm_sys_nap(NAP);
	}
	return true;
}

void gm_door_set(enum gm_door_state to)
{
	atomic_store(&state, to);
	gm_futex_wake(&state);
}

enum gm_door_state gm_door_state(void)
{
	return (enum gm_door_state)atomic_load(&state);
}

uint64_t gm_door_passages(void)
{
	uint64_t sum = atomic_load(&crowd_passed) + atomic_load(&crowd);
	for (unsigned i = 0; i < atomic_load(&n_seats); i++)
		sum += atomic_load_explicit(&seat_at(i)->word, memory_order_relaxed) -
		       atomic_load_explicit(&seat_at(i)->quiet, memory_order_relaxed);
	return sum;
}

void gm_door_begin(CUresult (*wake)(uint64_t since))
{
	wake_up = wake;
	atomic_store(&asymmetric, syscall(SYS_membarrier, MEMBARRIER_REGISTER, 0) == 0);
	atomic_store(&gm_door_used, true);
}

void gm_door_forget(void)
{
	atomic_store(&gm_door_used, false);
	atomic_store(&state, GM_DOOR_OPEN);
	free_seats = NULL;
	search_at = 0;
	for (unsigned i = 0; i < atomic_load(&n_seats); i++) {
		struct seat *seat = seat_at(i);
		atomic_store(&seat->thread, 0);
		atomic_store(&seat->quiet, 0);
		atomic_store(&seat->word, 0);
		seat_free(seat);
	}
	atomic_store(&crowd, 0);
	gm_futex_lock_init(&lock, GM_LOCK_RANK_TABLE);
	mine = NULL;
	mine_of = 0;
	taking = false;
	in = 0;
	depth = 0;
}
