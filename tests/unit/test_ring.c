/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies through the ring (copy/ring.h) on the simulated driver: bytes at all edges, inaccessible
 * pages, every driver call failing in turn, order, contexts that end, the end of the slots, and a
 * forked child.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include "ring_help.h"

/* Kernels before Linux 5.14 have no MADV_POPULATE_READ and MADV_POPULATE_WRITE. */
static atomic_bool old_kernel;
static atomic_uint populates[2];
int __real_madvise(void *at, size_t n, int advice);
int __wrap_madvise(void *at, size_t n, int advice);
int __wrap_madvise(void *at, size_t n, int advice)
{
	if (advice == 22 || advice == 23) {
		atomic_fetch_add(&populates[advice - 22], 1);
		if (atomic_load(&old_kernel)) {
			errno = EINVAL;
			return -1;
		}
	}
	return __real_madvise(at, n, advice);
}

static atomic_int refusal; /* errno of each checked move */
static atomic_uint checked_moves;
int __real_gm_move_checked(bool in, const struct iovec *parts, size_t n, void *own);
int __wrap_gm_move_checked(bool in, const struct iovec *parts, size_t n, void *own);
int __wrap_gm_move_checked(bool in, const struct iovec *parts, size_t n, void *own)
{
	int error = atomic_load(&refusal);
	atomic_fetch_add(&checked_moves, 1);
	return error ? error : __real_gm_move_checked(in, parts, n, own);
}

enum { THREADS = 4 };
#define ROOM (40 * MIB)
#define SMALL_ROOM (3 * MIB) /* slots of 256 KiB */

static unsigned char *host;
#define HOST_ROOM (16 * MIB)

/* --- bytes --- */

/* Both directions; bytes around the copy do not change. */
static bool round_trip(size_t host_at, size_t device_at, size_t n)
{
	memset(host, 0xee, HOST_ROOM);
	memset(on_device(0), 0xdd, DEVICE_ROOM);
	paint(host + host_at, n, 1);
	bool ok = line(true, host + host_at, device_at, n) &&
		  is_painted(on_device(device_at), n, 1) &&
		  (!device_at || *on_device(device_at - 1) == 0xdd) &&
		  *on_device(device_at + n) == 0xdd;
	memset(host + host_at, 0xcc, n);
	return ok && line(false, host + host_at, device_at, n) &&
	       is_painted(host + host_at, n, 1) && (!host_at || host[host_at - 1] == 0xee) &&
	       host[host_at + n] == 0xee;
}

static void edges(size_t room)
{
	static const size_t offsets[] = {0, 1, 511, 4095, 65535};
	set_up(THREADS, room);
	const size_t sizes[] = {1,
				4095,
				4096,
				256 * GM_KIB - 1,
				256 * GM_KIB,
				256 * GM_KIB + 1,
				MIB,
				ring.slot,
				ring.slot + 1,
				3 * MIB + 77,
				ring.n_slots * 256 * GM_KIB,
				ring.n_slots * 256 * GM_KIB + 1,
				9 * MIB + 1};
	unsigned wrong = 0;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++)
			if (sizes[i] < HOST_ROOM - 65536 &&
			    !round_trip(offsets[o], offsets[(o + i) % 5], sizes[i])) {
				printf("# %zu bytes at %zu\n", sizes[i], offsets[o]);
				wrong++;
			}
	TAP_IS(wrong, 0, "slots of %zu KiB: all sizes and offsets, byte by byte",
	       (size_t)(ring.slot / GM_KIB));
	TAP_OK(gm_ring_room(&ring) <= room, "slots take no more than their room");
}

static bool rows_match(size_t width, size_t rows, size_t pitch, size_t device_pitch, bool to_device)
{
	for (size_t row = 0; row < rows; row++)
		if (memcmp(host + row * pitch, on_device(row * device_pitch), width) != 0)
			return false;
	(void)to_device;
	return true;
}

static bool rows_trip(size_t width, size_t rows, size_t pitch, size_t device_pitch)
{
	struct gm_ring_copy copy = {.to_device = true,
				    .host = (char *)host,
				    .device = device,
				    .width = width,
				    .rows = rows,
				    .host_pitch = pitch,
				    .device_pitch = device_pitch,
				    .behind = CU_STREAM_LEGACY};
	paint(host, HOST_ROOM, 7);
	memset(on_device(0), 0xdd, DEVICE_ROOM);
	bool ok = staged(&copy) && rows_match(width, rows, pitch, device_pitch, true) &&
		  (device_pitch == width || *on_device(width) == 0xdd);
	memset(host, 0xee, HOST_ROOM);
	copy.to_device = false;
	return ok && staged(&copy) && rows_match(width, rows, pitch, device_pitch, false) &&
	       (pitch == width || host[width] == 0xee);
}

static void rectangles(void)
{
	set_up(THREADS, ROOM);
	TAP_OK(rows_trip(4096, 1000, 4096, 4096), "rows without gaps are copied");
	TAP_OK(rows_trip(4097, 1000, 4100, 8192), "rows with gaps are copied");
	TAP_OK(rows_trip(5000, 3, 9095, 5000), "a gap of one byte less than a page");
	size_t slot = ring.slot;
	TAP_OK(rows_trip(slot, 3, slot + 4, slot + 512), "rows as long as a slot");
	TAP_OK(!rows_trip(5000, 3, 9096, 5000), "rows with a page between them are not staged");
	TAP_OK(!rows_trip(slot + 1, 2, slot + 2, slot + 2),
	       "rows longer than slots are not staged");
}

/* --- programs that handle faults --- */

static void handler(int signal)
{
	(void)signal;
}

static void refused(int error, bool useless)
{
	set_up(THREADS, ROOM);
	atomic_store(&refusal, error);
	TAP_OK(!line(true, host, 0, MIB), "a checked move that fails by %d: no copy", error);
	TAP_IS(atomic_load(&ring.useless), useless, "the ring is %sused again",
	       useless ? "not " : "");
	atomic_store(&refusal, 0);
}

static void handled(void)
{
	void (*was)(int) = signal(SIGSEGV, handler);
	atomic_store(&checked_moves, 0);
	edges(SMALL_ROOM);
	TAP_OK(atomic_load(&checked_moves) > 0, "the moves are checked where there is a handler");
	rectangles();
	refused(EFAULT, false);
	refused(EPERM, true);
	refused(ENOSYS, true);
	set_up(THREADS, ROOM);
	atomic_store(&checked_moves, 0);
	struct gm_ring_copy copy = {.to_device = true,
				    .own = true,
				    .host = (char *)host,
				    .device = device,
				    .width = MIB,
				    .rows = 1};
	TAP_OK(staged(&copy) && !atomic_load(&checked_moves),
	       "moves of gpumem's own memory are not checked");
	signal(SIGSEGV, was);
}

/* --- inaccessible pages --- */

static void holes(void)
{
	set_up(THREADS, ROOM);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 8 * MIB;
	unsigned char *at = pages(n);
	memset(at, 0x11, n);
	memset(on_device(0), 0x22, n);
	mprotect(at + n / 2, page, PROT_READ);
	TAP_OK(!line(false, at, 0, n), "a destination with a read-only page is not staged");
	TAP_OK(is_all(at, n, 0x11), "a destination that is not staged does not change");
	TAP_OK(line(true, at, 0, n) && is_all(on_device(0), n, 0x11),
	       "a source may have a read-only page");
	mprotect(at, n, PROT_READ);
	unsigned before = atomic_load(&populates[1]);
	TAP_OK(line(true, at, 0, n), "a source may be read-only");
	TAP_IS(atomic_load(&populates[1]), before, "a source is not populated for writing");
	mprotect(at, n, PROT_READ | PROT_WRITE);
	munmap(at + n / 2, page);
	memset(on_device(0), 0x22, n);
	TAP_OK(!line(true, at, 0, n) && is_all(on_device(0), n, 0x22),
	       "a source with a hole is not staged, and the device does not change");
	TAP_OK(!line(false, at, 0, n) && is_all(at, n / 2, 0x11) &&
		       is_all(at + n / 2 + page, n / 2 - page, 0x11),
	       "a destination with a hole is not staged, and does not change");
	TAP_OK(!line(true, (void *)(UINTPTR_MAX - MIB), 0, n),
	       "memory that wraps around is not staged");
	TAP_OK(line(true, at, 0, n / 2), "a copy works after refused ones");
	munmap(at, n);
	unsigned char *fresh = pages(n);
	memset(on_device(0), 0x33, n);
	TAP_OK(line(false, fresh, 0, n) && is_all(fresh, n, 0x33),
	       "untouched pages are a destination");
	munmap(fresh, n);
	fresh = pages(n);
	TAP_OK(line(true, fresh, 0, n) && is_all(on_device(0), n, 0),
	       "untouched pages are a source of zeros");
	munmap(fresh, n);
}

static void kernel_is_old(void)
{
	set_up(THREADS, ROOM);
	atomic_store(&old_kernel, true);
	TAP_OK(!line(true, host, 0, MIB), "a kernel that populates no pages: not staged");
	TAP_OK(!gm_ring_take(&ring), "an old kernel is not tried again");
	TAP_OK(!ring.slots, "an old kernel gets no slots");
	atomic_store(&old_kernel, false);
}

/* --- failing calls --- */

/* The nth call of that name fails: either the ring completes the copy, or the driver's call
 * replaces it, and the ring still works. Returns the number of faults. */
static unsigned call_fails(const char *call, unsigned nth, bool to_device, bool in_the_middle)
{
	const size_t n = 4 * MIB;
	unsigned faults = 0;
	unsigned char *to = to_device ? on_device(0) : host, was = to_device ? 0x55 : 0x44;
	unsigned char is = to_device ? 0x44 : 0x55;
	set_up(THREADS, SMALL_ROOM);
	memset(host, 0x44, n);
	memset(on_device(0), 0x55, n);
	gm_sim_fail(call, nth, CUDA_ERROR_UNKNOWN);
	bool done = line(to_device, host, 0, n);
	gm_sim_fail(call, 0, CUDA_SUCCESS);
	faults += done ? !is_all(to, n, is) : !in_the_middle && !is_all(to, n, was);
	if (!done && to_device)
		SIM(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020)(device, host, n);
	else if (!done)
		SIM(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020)(host, device, n);
	faults += !is_all(to, n, is); /* no copy of the ring follows the driver's call */
	paint(host, n, 9);
	faults += atomic_load(&ring.useless);
	faults += !line(true, host, 0, n) || !is_painted(on_device(0), n, 9);
	return faults;
}

static void failing_calls(void)
{
	static const struct {
		const char *call;
		unsigned before; /* number of these calls before the first byte moves */
	} calls[] = {
		{"cuMemHostRegister_v2", 1}, {"cuEventCreate", 3},
		{"cuStreamCreate", 2},	     {"cuEventRecord", 1},
		{"cuStreamWaitEvent", 1},    {"cuStreamSynchronize", 1},
		{"cuEventQuery", 0},	     {"cuMemcpyHtoDAsync_v2", 1},
		{"cuMemcpyDtoHAsync_v2", 1},
	};
	for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
		unsigned faults = 0;
		for (unsigned i = 0; i < 6; i++)
			faults += call_fails(calls[c].call, 1 + i / 2, i % 2,
					     i / 2 >= calls[c].before);
		TAP_IS(faults, 0, "%s fails: copies both ways are the driver's, or unharmed",
		       calls[c].call);
	}
}

static void fails_in_the_middle(void)
{
	set_up(THREADS, SMALL_ROOM);
	gm_sim_fail("cuMemcpyHtoDAsync_v2", 2, CUDA_ERROR_UNKNOWN);
	gm_sim_fail("cuStreamSynchronize", 2, CUDA_ERROR_UNKNOWN);
	TAP_OK(!line(true, host, 0, 4 * MIB), "a copy fails whose piece and last wait fail");
	TAP_OK(!gm_ring_take(&ring), "slots that DMA may still use are never used again");
}

static void refused_for_good(void)
{
	set_up(THREADS, SMALL_ROOM);
	for (unsigned i = 0; i < 3; i++) {
		gm_sim_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
		TAP_OK(!line(true, host, 0, MIB) && !ring.slots && !atomic_load(&ring.last_used),
		       "slots that the driver does not register are given back");
	}
	TAP_OK(!gm_ring_take(&ring), "after three failures there is no further attempt");
}

/* --- order --- */

static atomic_bool returned;

static void *copy_on_thread(void *unused)
{
	(void)unused;
	sim_set_current(sim_primary(0));
	bool done = line(true, host, 0, MIB);
	atomic_store(&returned, true);
	return done ? &returned : NULL;
}

static void kernel(void *unused)
{
	(void)unused;
	memset(on_device(0), 0x66, MIB);
	memset(host, 0x77, MIB); /* a kernel may write to host memory */
}

static void order(CUstream stream, const char *name)
{
	pthread_t thread;
	void *done = NULL;
	set_up(THREADS, ROOM);
	memset(host, 0x12, MIB);
	line(true, host, 0, MIB); /* makes the slots */
	gm_sim_hold(stream);
	gm_sim_launch(stream, kernel, NULL);
	atomic_store(&returned, false);
	pthread_create(&thread, NULL, copy_on_thread, NULL);
	while (!gm_sim_waiters())
		sched_yield();
	TAP_OK(!atomic_load(&returned), "a copy waits behind the work of %s", name);
	gm_sim_release(stream, (unsigned)-1);
	pthread_join(thread, &done);
	TAP_OK(done && is_all(on_device(0), MIB, 0x77),
	       "the copy reads its source behind that work");
}

static void orders(void)
{
	CUstream blocking = NULL;
	order(NULL, "the legacy stream");
	set_up(THREADS, ROOM);
	sim.cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
	pthread_t thread;
	void *done = NULL;
	gm_sim_hold(blocking);
	gm_sim_launch(blocking, kernel, NULL);
	atomic_store(&returned, false);
	pthread_create(&thread, NULL, copy_on_thread, NULL);
	while (!gm_sim_waiters())
		sched_yield();
	TAP_OK(!atomic_load(&returned), "a copy waits behind blocking streams, too");
	gm_sim_release(blocking, (unsigned)-1);
	pthread_join(thread, &done);
	TAP_OK(done && is_all(on_device(0), MIB, 0x77),
	       "the copy reads its source behind that work");
}

static void behind_nothing(void)
{
	struct gm_ring_copy copy = {
		.to_device = true, .host = (char *)host, .width = MIB, .rows = 1};
	set_up(THREADS, ROOM);
	copy.device = device + MIB;
	memset(host, 0x12, MIB);
	memset(on_device(0), 0x34, 2 * MIB);
	line(true, host, 0, MIB); /* makes the slots */
	gm_sim_hold(NULL);
	gm_sim_launch(NULL, kernel, NULL);
	TAP_OK(staged(&copy) && is_all(on_device(MIB), MIB, 0x12),
	       "a copy behind nothing is complete while work of the legacy stream is not");
	TAP_OK(is_all(on_device(0), MIB, 0x12), "the legacy stream's work has not begun");
	gm_sim_release(NULL, (unsigned)-1);
}

/* --- DMA that takes its time --- */

static void *held_copy(void *to_device)
{
	sim_set_current(sim_primary(0));
	bool done = line(to_device != NULL, host, 0, 9 * MIB + 5);
	atomic_store(&returned, true);
	return done ? &returned : NULL;
}

/* The ring's stream is released step by step, each time after all threads have done all they
 * can. */
static void held(bool to_device)
{
	pthread_t thread;
	void *done = NULL;
	size_t n = 9 * MIB + 5;
	set_up(THREADS, SMALL_ROOM); /* each slot is used four times */
	line(true, host, 0, MIB);
	CUstream stream = ring.site[0].stream[to_device];
	paint(host, n, to_device ? 21 : 22);
	paint(on_device(0), n, 22);
	if (!to_device)
		memset(host, 0x88, n);
	gm_sim_hold(stream);
	atomic_store(&returned, false);
	pthread_create(&thread, NULL, held_copy, to_device ? &returned : NULL);
	unsigned early = 0, steps = 0;
	while (!atomic_load(&returned)) {
		for (unsigned i = 0; i < 200; i++)
			sched_yield();
		early += !to_device && !steps && !is_all(host, n, 0x88);
		steps += gm_sim_release(stream, 1);
	}
	pthread_join(thread, &done);
	gm_sim_release(stream, (unsigned)-1);
	TAP_IS(early, 0, "nothing is copied out of a slot before its DMA");
	TAP_OK(done && is_painted(on_device(0), n, to_device ? 21 : 22) &&
		       is_painted(host, n, to_device ? 21 : 22),
	       "no slot is overwritten before its last DMA, %s the device: %u steps",
	       to_device ? "to" : "from", steps);
}

/* --- users, contexts, the end --- */

static void users(void)
{
	set_up(THREADS, ROOM);
	TAP_OK(gm_ring_take(&ring), "a thread takes the ring");
	TAP_OK(!line(true, host, 0, MIB), "other threads make the driver's calls meanwhile");
	gm_ring_leave(&ring);
	TAP_OK(line(true, host, 0, MIB), "another thread may take the ring afterwards");
	TAP_OK(!gm_ring_init(&ring, &sim, THREADS, GM_MIB),
	       "no ring is made with too little room for slots");
	TAP_OK(!gm_ring_init(&ring, &sim, 0, ROOM), "no ring is made without threads");
}

static CUresult destroy(CUcontext handle, struct gm_context *c)
{
	struct gm_context *ending = gm_context_ending(handle);
	CUresult result = SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(handle);
	gm_context_gone(handle);
	gm_context_ended(ending);
	(void)c;
	return result;
}

static void contexts(void)
{
	CUresult ignored;
	set_up(THREADS, ROOM);
	CUcontext primary = sim_primary(0), other = sim_context(0);
	struct gm_context *first;
	sim_set_current(other);
	first = context = gm_context_current(&sim, &ignored);
	paint(host, MIB, 3);
	TAP_OK(line(true, host, 0, MIB) && ring.registrar == first,
	       "the first context registers the slots");
	sim_set_current(primary);
	context = gm_context_current(&sim, &ignored);
	TAP_OK(line(false, host, 0, MIB) && ring.registrar == first,
	       "another context uses the slots");
	TAP_IS(gm_sim_calls("cuMemHostRegister_v2"), 1, "the slots are registered once");
	TAP_IS(destroy(other, first), CUDA_SUCCESS, "the context that registered the slots ends");
	TAP_OK(line(true, host, 0, MIB) && ring.registrar == context,
	       "the next copy registers the slots anew");
	TAP_OK(is_painted(on_device(0), MIB, 3), "the copy has the right bytes");
	for (unsigned i = 0; i < GM_RING_SITES + 2; i++) {
		other = sim_context(0);
		sim_set_current(other);
		context = gm_context_current(&sim, &ignored);
		if (!line(true, host, 0, MIB))
			TAP_OK(false, "context %u copies a line", i);
		destroy(other, context);
	}
	sim_set_current(primary);
	context = gm_context_current(&sim, &ignored);
	TAP_OK(line(false, host, 0, MIB) && is_painted(host, MIB, 3),
	       "contexts that have ended give up their streams");
}

/* A function of its own for valgrind.supp. */
static __attribute__((noinline)) bool slots_are_mapped(char *slots)
{
	return msync(slots, MIB, MS_ASYNC) == 0;
}

static void release(void)
{
	set_up(THREADS, ROOM);
	TAP_OK(line(true, host, 0, MIB) && atomic_load(&ring.last_used), "a copy makes the slots");
	gm_ring_take(&ring);
	struct gm_context *ending = gm_context_ending(sim_primary(0));
	TAP_IS(gm_ring_release(&ring), 0, "the slots stay while their context is about to end");
	gm_context_ended(ending);
	TAP_OK(ring.slots && ring.registrar, "slots stay if the context did not end");
	char *slots = ring.slots;
	TAP_IS(gm_ring_release(&ring), gm_ring_room(&ring), "unused slots are released");
	gm_ring_leave(&ring);
	TAP_OK(!slots_are_mapped(slots), "the memory of the slots is unmapped");
	TAP_OK(!atomic_load(&ring.last_used), "released slots are not due again");
	TAP_IS(gm_sim_calls("cuStreamCreate"), gm_sim_calls("cuStreamDestroy_v2"),
	       "the streams of the slots are destroyed");
	TAP_IS(gm_sim_calls("cuMemHostUnregister"), 1, "the slots are unregistered");
	paint(host, MIB, 4);
	TAP_OK(line(true, host, 0, MIB) && is_painted(on_device(0), MIB, 4),
	       "the next copy makes the slots again");
}

static void forked(void)
{
	int status = -1;
	set_up(THREADS, ROOM);
	line(true, host, 0, MIB);
	char *slots = ring.slots;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		bool gone = !slots_are_mapped(slots);
		gm_thread_forget();
		gm_ring_forget(&ring);
		_exit(gone && !ring.slots && gm_ring_take(&ring) ? 0 : 1);
	}
	waitpid(child, &status, 0);
	TAP_IS(status, 0, "a forked child has no slots, and a ring to begin with");
	TAP_OK(line(true, host, 0, MIB), "the parent's ring works on");
}

int main(void)
{
	host = pages(HOST_ROOM);
	edges(ROOM);
	edges(SMALL_ROOM);
	rectangles();
	handled();
	holes();
	kernel_is_old();
	failing_calls();
	fails_in_the_middle();
	refused_for_good();
	orders();
	behind_nothing();
	held(true);
	held(false);
	users();
	contexts();
	release();
	forked();
	return tap_done();
}
