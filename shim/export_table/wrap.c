/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/export_table/wrap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "context/order.h"
#include "residency/door.h"
#include "shim/call.h"

GM_TLS uintptr_t gm_wrap_in;

/* Of a stub; stubs-x86_64.S knows the size, and the place of `function`. */
struct gm_wrap_slot {
	const void *function;
	uint16_t number, entry;
	atomic_bool told; /* events->called has returned true */
	_Atomic uint64_t calls;
	uint64_t pad;
};
_Static_assert(sizeof(struct gm_wrap_slot) == 32, "gm_wrap_call shifts by 5");

#ifdef __x86_64__

#include <cpuid.h>

/* The registers that arguments may be in. */
enum vectors { VECTORS_SSE, VECTORS_AVX, VECTORS_AVX512 };

/* For code that runs before vector registers are saved. */
#define GENERAL GM_EARLY __attribute__((target("general-regs-only")))
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN extern const char gm_wrap_stubs[];
HIDDEN extern struct gm_wrap_slot gm_wrap_slots[GM_WRAP_STUBS];
HIDDEN extern unsigned char gm_wrap_vectors; /* enum vectors */
HIDDEN bool gm_wrap_peek(struct gm_wrap_slot *slot, uintptr_t frame);
HIDDEN unsigned gm_wrap_begin(struct gm_wrap_slot *slot, uintptr_t frame);
HIDDEN void gm_wrap_end(uintptr_t frame);

struct gm_wrap_slot gm_wrap_slots[GM_WRAP_STUBS];
unsigned char gm_wrap_vectors;
static const struct gm_wrap_events *events; /* set before the first stub is handed out */
static atomic_uint n_slots;
static pthread_key_t key; /* its destructor leaves at a thread's end */
static GM_TLS bool key_is_set;

enum { STUB = 16, ENTER = 1, NO_FUNCTION = 64 << 10 };

/* --- the copy --- */

static void leave(void);

static void thread_ends(void *unused)
{
	(void)unused;
	key_is_set = false;
	if (gm_wrap_in)
		leave();
}

/* What the processor has, and the system saves. __builtin_cpu_supports would bring a constructor.
 */
static enum vectors vectors_find(void)
{
	const unsigned avx_states = 6, avx512_states = 0xe6;
	unsigned a, b, c, d, low, high;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
		return VECTORS_SSE;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if ((low & avx512_states) == avx512_states && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	    b & bit_AVX512F)
		return VECTORS_AVX512;
	return (low & avx_states) == avx_states ? VECTORS_AVX : VECTORS_SSE;
}

/* False: no key is left. */
static bool start(void)
{
	static bool done;
	if (done)
		return true;
	gm_wrap_vectors = vectors_find();
	done = pthread_key_create(&key, thread_ends) == 0;
	return done;
}

static bool is_function(uintptr_t word)
{
	return word >= NO_FUNCTION && word != UINTPTR_MAX;
}

const void *gm_wrap_table(const void *table, size_t bytes, unsigned number,
			  const struct gm_wrap_events *of)
{
	static uintptr_t room[GM_WRAP_STUBS + GM_WRAP_STUBS / 2];
	static size_t used;
	const uintptr_t *words = table;
	const size_t n = bytes / sizeof *words;
	unsigned slots = atomic_load(&n_slots);
	if (n > sizeof room / sizeof *room - used || n > GM_WRAP_STUBS - slots || !start())
		return NULL;
	events = of;
	uintptr_t *copy = &room[used];
	copy[0] = words[0];
	for (size_t i = 1; i < n; i++) {
		copy[i] = words[i];
		if (!is_function(words[i]))
			continue;
		gm_wrap_slots[slots].function = (const void *)words[i];
		gm_wrap_slots[slots].number = (uint16_t)number;
		gm_wrap_slots[slots].entry = (uint16_t)i;
		copy[i] = (uintptr_t)gm_wrap_stubs + (uintptr_t)STUB * slots++;
	}
	used += n;
	atomic_store(&n_slots, slots);
	return copy;
}

void gm_wrap_alarm(void)
{
	for (unsigned i = 0; i < atomic_load(&n_slots); i++)
		atomic_store(&gm_wrap_slots[i].told, false);
}

void gm_wrap_walk(void (*each)(unsigned number, unsigned entry, uint64_t calls))
{
	for (unsigned i = 0; i < atomic_load(&n_slots); i++) {
		const struct gm_wrap_slot *slot = &gm_wrap_slots[i];
		if (atomic_load(&slot->calls))
			each(slot->number, slot->entry, atomic_load(&slot->calls));
	}
}

/* --- calls --- */

static uintptr_t frame_of(uintptr_t in)
{
	return in & ~(uintptr_t)GM_WRAP_BITS;
}

/* A signal may come between any two of these: its handler's calls enter and leave beside us. */
static void leave(void)
{
	uintptr_t in = gm_wrap_in;
	gm_wrap_in = 0;
	atomic_signal_fence(memory_order_seq_cst);
	if (in & GM_WRAP_ORDER)
		gm_order_leave();
	if (in & GM_WRAP_DOOR)
		gm_door_leave();
}

/* The frame of the stub of the outermost call lies between its return address and what it called.
 */
static inline GENERAL bool is_below(uintptr_t frame)
{
	return frame < (gm_wrap_in & ~(uintptr_t)GM_WRAP_BITS) - GM_WRAP_REGISTERS - GM_WRAP_COPIED;
}

/* Has the outermost call ended, as the thread is now at `frame`? A signal handler on a stack of its
 * own is below all calls on other stacks. */
static bool call_is_gone(uintptr_t frame)
{
	stack_t own;
	if (is_below(frame))
		return false;
	if (sigaltstack(NULL, &own) != 0 || !(own.ss_flags & SS_ONSTACK))
		return true;
	return gm_wrap_in - (uintptr_t)own.ss_sp < own.ss_size;
}

void gm_wrap_pass_in(void)
{
	int saved = errno;
	if (call_is_gone((uintptr_t)__builtin_frame_address(0)))
		leave();
	errno = saved;
}

/* Is there more to do than to count? */
GENERAL bool gm_wrap_peek(struct gm_wrap_slot *slot, uintptr_t frame)
{
	__atomic_fetch_add((uint64_t *)&slot->calls, 1, __ATOMIC_RELAXED);
	if (GM_UNLIKELY(!__atomic_load_n((bool *)&slot->told, __ATOMIC_RELAXED)))
		return true;
	if (gm_shim_inside || (gm_wrap_in && is_below(frame)))
		return false;
	return gm_wrap_in || __atomic_load_n((bool *)&gm_door_used, __ATOMIC_RELAXED) ||
	       __atomic_load_n((bool *)&gm_order_on, __ATOMIC_RELAXED);
}

/* 0: pass, there is nothing to leave; ENTER: entered; else ENTER plus the result of the call, which
 * is not made: the process cannot wake. */
static unsigned enter(uintptr_t frame)
{
	uintptr_t in = frame;
	if (gm_wrap_in && !call_is_gone(frame))
		return 0;
	if (gm_wrap_in)
		leave();
	if (atomic_load_explicit(&gm_door_used, memory_order_relaxed)) {
		CUresult result = gm_door_enter();
		if (result != CUDA_SUCCESS)
			return ENTER + (unsigned)result;
		in |= GM_WRAP_DOOR;
	}
	if (gm_order_is_on()) {
		events->submits();
		in |= GM_WRAP_ORDER;
	}
	if (in == frame)
		return 0;
	if (!key_is_set)
		key_is_set = pthread_setspecific(key, &key) == 0;
	atomic_signal_fence(memory_order_seq_cst);
	gm_wrap_in = in;
	return ENTER;
}

unsigned gm_wrap_begin(struct gm_wrap_slot *slot, uintptr_t frame)
{
	int saved = errno;
	unsigned answer = 0;
	if (GM_UNLIKELY(!atomic_exchange(&slot->told, true)) &&
	    !events->called(slot->number, slot->entry, gm_shim_inside))
		atomic_store(&slot->told, false);
	/* The preload's own work passes, as in every hook. */
	if (!gm_shim_inside)
		answer = enter(frame);
	errno = saved;
	return answer;
}

void gm_wrap_end(uintptr_t frame)
{
	int saved = errno;
	if (frame_of(gm_wrap_in) == frame)
		leave();
	errno = saved;
}

void gm_wrap_forget(void)
{
	gm_wrap_in = 0;
}

#else

const void *gm_wrap_table(const void *table, size_t bytes, unsigned number,
			  const struct gm_wrap_events *of)
{
	(void)table, (void)bytes, (void)number, (void)of;
	return NULL;
}

void gm_wrap_alarm(void)
{
}

void gm_wrap_walk(void (*each)(unsigned number, unsigned entry, uint64_t calls))
{
	(void)each;
}

void gm_wrap_pass_in(void)
{
}

void gm_wrap_forget(void)
{
}

#endif
