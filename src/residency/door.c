/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/door.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "base/sys.h"
#include "base/thread.h"

#define SEATS 512
#define NAP 50000u /* ns between two readings of the state, or of a word */

/* From linux/membarrier.h, which older toolchains lack. */
enum { MEMBARRIER_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER = 1 << 4 };

struct seat {
	_Alignas(64) _Atomic uint64_t word; /* odd: a submission is inside */
	_Atomic uint32_t thread;	    /* owner of the seat; 0: none */
};

atomic_bool gm_door_used;
static atomic_uint state;
static atomic_bool asymmetric;
static CUresult (*wake_up)(void);
static struct seat seats[SEATS];
static _Atomic uint64_t crowd, crowd_passed; /* threads without a seat: inside; total */
static struct gm_futex_lock lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE}; /* guards free seats */

static GM_TLS struct seat *mine;
static GM_TLS uint32_t mine_of; /* owner of `mine`: a forked child's thread differs */
static GM_TLS unsigned depth;

/* --- seats --- */

static bool thread_has_ended(uint32_t thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

static struct seat *seat_find(bool ended)
{
	for (unsigned i = 0; i < SEATS; i++) {
		uint32_t thread = atomic_load(&seats[i].thread);
		if (ended ? thread && thread_has_ended(thread) : !thread)
			return &seats[i];
	}
	return NULL;
}

/* NULL: more live threads than seats. */
static struct seat *seat_take(void)
{
	int saved = errno;
	gm_futex_lock_take(&lock);
	struct seat *seat = seat_find(false);
	if (!seat)
		seat = seat_find(true);
	if (seat) {
		atomic_fetch_and(&seat->word, ~(uint64_t)1); /* the old owner ended inside */
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
		mine = seat_take();
		mine_of = mine ? thread : 0;
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

CUresult gm_door_enter_used(void)
{
	if (depth++)
		return CUDA_SUCCESS;
	struct seat *seat = seat_mine();
	enum gm_door_state now;
	while (GM_UNLIKELY((now = come_in(seat)) != GM_DOOR_OPEN)) {
		go_out(seat);
		CUresult result = now == GM_DOOR_ASLEEP ? wake_up() : CUDA_SUCCESS;
		if (result != CUDA_SUCCESS) {
			depth--;
			return result;
		}
		if (now == GM_DOOR_SHUT)
			gm_sys_nap(NAP);
	}
	return CUDA_SUCCESS;
}

bool gm_door_try_used(void)
{
	if (depth++)
		return true;
	struct seat *seat = seat_mine();
	if (come_in(seat) == GM_DOOR_OPEN)
		return true;
	go_out(seat);
	depth--;
	return false;
}

void gm_door_leave_used(void)
{
	if (--depth == 0)
		go_out(mine_of ? mine : NULL);
}

/* --- the mover --- */

static bool seat_is_inside(struct seat *seat)
{
	uint32_t thread = atomic_load(&seat->thread);
	if (!(atomic_load(&seat->word) & 1) || seat == mine)
		return false;
	return !thread_has_ended(thread);
}

static bool anyone_is_inside(void)
{
	for (unsigned i = 0; i < SEATS; i++)
		if (atomic_load(&seats[i].thread) && seat_is_inside(&seats[i]))
			return true;
	return atomic_load(&crowd) != 0;
}

bool gm_door_shut(uint64_t end)
{
	unsigned before = atomic_exchange(&state, GM_DOOR_SHUT);
	if (atomic_load(&asymmetric) && syscall(SYS_membarrier, MEMBARRIER_EXPEDITED, 0) != 0)
		end = 0; /* forbidden since registration: other threads' state is unknown */
	while (anyone_is_inside() || !end) {
		if (gm_clock_ns() >= end) {
			atomic_store(&state, before);
			return false;
		}
		gm_sys_nap(NAP);
	}
	return true;
}

void gm_door_set(enum gm_door_state to)
{
	atomic_store(&state, to);
}

enum gm_door_state gm_door_state(void)
{
	return (enum gm_door_state)atomic_load(&state);
}

uint64_t gm_door_passages(void)
{
	uint64_t sum = atomic_load(&crowd_passed) + atomic_load(&crowd);
	for (unsigned i = 0; i < SEATS; i++)
		sum += atomic_load_explicit(&seats[i].word, memory_order_relaxed);
	return sum;
}

void gm_door_begin(CUresult (*wake)(void))
{
	wake_up = wake;
	atomic_store(&asymmetric, syscall(SYS_membarrier, MEMBARRIER_REGISTER, 0) == 0);
	atomic_store(&gm_door_used, true);
}

void gm_door_forget(void)
{
	atomic_store(&gm_door_used, false);
	atomic_store(&state, GM_DOOR_OPEN);
	for (unsigned i = 0; i < SEATS; i++) {
		atomic_store(&seats[i].thread, 0);
		atomic_fetch_and(&seats[i].word, ~(uint64_t)1);
	}
	atomic_store(&crowd, 0);
	gm_futex_lock_init(&lock, GM_LOCK_RANK_TABLE);
	mine = NULL;
	mine_of = 0;
	depth = 0;
}
