/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/ring.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/size.h"
#include "base/sys.h"

#define MOST_SLOT (2 * (size_t)GM_MIB)
#define LEAST_SLOT (256 * (size_t)GM_KIB)
#define SLOTS_A_THREAD 3 /* one is filled, one waits, one is in DMA */
#define LEAST_SLOTS_A_THREAD 2
#define PAST_THREADS 2	/* further slots: the user's own, and one in DMA */
#define SPINS 2000	/* turns without progress before the user sleeps */
#define NAP 20000u	/* ns */
#define MOST_REFUSALS 3 /* by the driver to register the slots */

/* With little room there are fewer slots, down to two a thread. */
static uint32_t slots_wanted(unsigned threads, uint64_t room)
{
	uint64_t most = (uint64_t)SLOTS_A_THREAD * threads + PAST_THREADS;
	uint64_t least = (uint64_t)LEAST_SLOTS_A_THREAD * threads + PAST_THREADS;
	uint64_t fit = room / LEAST_SLOT;
	uint64_t n = fit > most ? most : fit < least ? least : fit;
	return n < GM_JOB_SLOTS ? (uint32_t)n : GM_JOB_SLOTS;
}

bool gm_ring_init(struct gm_ring *ring, const struct gm_driver *driver, unsigned threads,
		  uint64_t room)
{
	ring->driver = driver;
	ring->threads = threads < GM_CREW_MOST ? threads : GM_CREW_MOST;
	ring->n_slots = slots_wanted(ring->threads, room);
	uint64_t slot = room / ring->n_slots & ~(LEAST_SLOT - 1);
	ring->slot = slot < MOST_SLOT ? (size_t)slot : MOST_SLOT;
	return ring->threads && ring->slot && driver->cuMemHostRegister_v2 &&
	       driver->cuMemHostUnregister && driver->cuMemcpyHtoDAsync_v2 &&
	       driver->cuMemcpyDtoHAsync_v2 && driver->cuMemcpy2DAsync_v2;
}

uint64_t gm_ring_room(const struct gm_ring *ring)
{
	return (uint64_t)ring->slot * ring->n_slots;
}

bool gm_ring_take(struct gm_ring *ring)
{
	return !atomic_load_explicit(&ring->useless, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&ring->taken, true, memory_order_acquire);
}

void gm_ring_leave(struct gm_ring *ring)
{
	atomic_store_explicit(&ring->taken, false, memory_order_release);
}

static void ring_give_up(struct gm_ring *ring, const char *why)
{
	atomic_store(&ring->useless, true);
	gm_msg(GM_MSG_INFO, "copies are no longer staged: %s", why);
}

/* --- slots --- */

/* Slots to populate; each thread takes a part. */
struct filling {
	char *at;
	size_t size;
	atomic_size_t next;
	atomic_int failed;
};

static void filling_run(void *arg)
{
	struct filling *f = arg;
	size_t at;
	while ((at = atomic_fetch_add(&f->next, MOST_SLOT)) < f->size) {
		size_t rest = f->size - at;
		int error = gm_job_populate(f->at + at, rest < MOST_SLOT ? rest : MOST_SLOT, true);
		if (error)
			atomic_store(&f->failed, error);
	}
}

static bool slots_populate(struct gm_ring *ring)
{
	struct filling f = {.at = ring->slots, .size = gm_ring_room(ring)};
	gm_crew_begin(&ring->crew, ring->threads, filling_run, &f);
	filling_run(&f);
	gm_crew_finish(&ring->crew);
	int error = atomic_load(&f.failed);
	if (error == EINVAL)
		ring_give_up(ring, "this kernel cannot populate pages");
	return !error;
}

static void slots_unmap(struct gm_ring *ring)
{
	munmap(ring->slots, gm_ring_room(ring));
	ring->slots = NULL;
	atomic_store_explicit(&ring->last_used, 0, memory_order_relaxed);
}

static bool slots_make(struct gm_ring *ring)
{
	size_t room = gm_ring_room(ring);
	char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return false;
	madvise(at, room, MADV_DONTFORK);
	madvise(at, room, MADV_DONTDUMP);
	madvise(at, room, MADV_HUGEPAGE);
	ring->slots = at;
	if (slots_populate(ring))
		return true;
	slots_unmap(ring);
	return false;
}

static bool context_is_gone(const struct gm_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* Register the slots in the current context, unless a context that still exists has done so. */
static bool slots_register(struct gm_ring *ring, struct gm_context *context)
{
	if (ring->registrar && !context_is_gone(ring->registrar))
		return true;
	if (ring->registrar) /* in case the driver has kept the registration */
		ring->driver->cuMemHostUnregister(ring->slots);
	ring->registrar = NULL;
	if (ring->driver->cuMemHostRegister_v2(ring->slots, gm_ring_room(ring),
					       CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS) {
		ring->registrar = context;
		return true;
	}
	slots_unmap(ring);
	if (++ring->refusals == MOST_REFUSALS)
		ring_give_up(ring, "the driver does not register the slots");
	return false;
}

/* --- sites --- */

/* pre: the context of the site exists: its streams and events end with it. */
static void site_drop(const struct gm_driver *driver, struct gm_ring_site *site)
{
	for (unsigned i = 0; i < 2; i++)
		if (site->stream[i])
			driver->cuStreamDestroy_v2(site->stream[i]);
	for (unsigned i = 0; i < GM_JOB_SLOTS; i++)
		if (site->event[i])
			driver->cuEventDestroy_v2(site->event[i]);
	if (site->behind)
		driver->cuEventDestroy_v2(site->behind);
	memset(site, 0, sizeof *site);
}

static bool site_make(struct gm_ring *ring, struct gm_ring_site *site, struct gm_context *context)
{
	const struct gm_driver *driver = ring->driver;
	bool made = driver->cuEventCreate(&site->behind, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
	for (unsigned i = 0; i < 2 && made; i++)
		made = driver->cuStreamCreate(&site->stream[i], CU_STREAM_NON_BLOCKING) ==
		       CUDA_SUCCESS;
	for (unsigned i = 0; i < ring->n_slots && made; i++)
		made = driver->cuEventCreate(&site->event[i], CU_EVENT_DISABLE_TIMING) ==
		       CUDA_SUCCESS;
	site->context = context;
	if (!made)
		site_drop(driver, site);
	return made;
}

/* The site of the current context, made at its first use. NULL: the driver refuses, or 16 contexts
 * have a site. */
static struct gm_ring_site *site_find(struct gm_ring *ring, struct gm_context *context)
{
	struct gm_ring_site *unused = NULL;
	for (unsigned i = 0; i < GM_RING_SITES; i++) {
		struct gm_ring_site *site = &ring->site[i];
		if (site->context == context)
			return site;
		if (site->context && context_is_gone(site->context))
			memset(site, 0, sizeof *site);
		if (!site->context && !unused)
			unused = site;
	}
	return unused && site_make(ring, unused, context) ? unused : NULL;
}

/* --- a copy --- */

/* The user's side of a job. */
struct run {
	struct gm_ring *ring;
	const struct gm_ring_copy *copy;
	struct gm_ring_site *site;
	struct gm_job job;
	uint32_t submitted;
};

static CUstream run_stream(const struct run *r)
{
	return r->site->stream[r->copy->to_device];
}

static CUresult line_submit(const struct run *r, char *host, size_t at, size_t size)
{
	const struct gm_driver *driver = r->ring->driver;
	CUdeviceptr device = r->copy->device + at;
	return r->copy->to_device ? driver->cuMemcpyHtoDAsync_v2(device, host, size, run_stream(r))
				  : driver->cuMemcpyDtoHAsync_v2(host, device, size, run_stream(r));
}

static CUresult rows_submit(const struct run *r, char *slot, size_t row, size_t rows)
{
	const struct gm_ring_copy *copy = r->copy;
	CUdeviceptr device = copy->device + row * copy->device_pitch;
	CUDA_MEMCPY2D c = {.WidthInBytes = copy->width, .Height = rows};
	if (copy->to_device) {
		c.srcMemoryType = CU_MEMORYTYPE_HOST;
		c.srcHost = slot;
		c.srcPitch = copy->width;
		c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		c.dstDevice = device;
		c.dstPitch = copy->device_pitch;
	} else {
		c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		c.srcDevice = device;
		c.srcPitch = copy->device_pitch;
		c.dstMemoryType = CU_MEMORYTYPE_HOST;
		c.dstHost = slot;
		c.dstPitch = copy->width;
	}
	return r->ring->driver->cuMemcpy2DAsync_v2(&c, run_stream(r));
}

static CUresult piece_submit(struct run *r)
{
	size_t at, size;
	uint32_t i = r->submitted;
	char *slot = gm_job_slot(&r->job, i);
	gm_job_piece(&r->job, i, &at, &size);
	CUresult result = r->copy->rows == 1 ? line_submit(r, slot, at, size)
					     : rows_submit(r, slot, at, size);
	if (result != CUDA_SUCCESS)
		return result;
	r->submitted++;
	return r->ring->driver->cuEventRecord(r->site->event[i % r->job.n_slots], run_stream(r));
}

/* The state of the oldest DMA in flight. CUDA_SUCCESS: ended; CUDA_ERROR_NOT_READY: pending. */
static CUresult piece_query(struct run *r, bool wait)
{
	const struct gm_driver *driver = r->ring->driver;
	CUevent event = r->site->event[atomic_load(&r->job.done) % r->job.n_slots];
	return wait ? driver->cuEventSynchronize(event) : driver->cuEventQuery(event);
}

static bool run_is_complete(struct run *r)
{
	return atomic_load(&r->job.done) == r->job.pieces &&
	       atomic_load_explicit(&r->job.copied, memory_order_acquire) == r->job.pieces;
}

/* One turn of the user; *progress: it did something. When DMA needs nothing the user copies a
 * piece: memory bounds a copy, not DMA, so the link waits less than the pieces would. */
static CUresult run_step(struct run *r, bool wait, bool *progress)
{
	struct gm_job *job = &r->job;
	CUresult result;
	*progress = true;
	if (r->submitted < job->pieces && gm_job_can_submit(job, r->submitted))
		return piece_submit(r);
	if (atomic_load(&job->done) < r->submitted) {
		result = piece_query(r, wait);
		if (result == CUDA_SUCCESS)
			gm_job_done(job);
		if (result != CUDA_ERROR_NOT_READY)
			return result;
	}
	*progress = gm_job_help(job);
	return CUDA_SUCCESS;
}

/* After some turns without progress, sleep if no DMA is in flight. Otherwise piece_query waits for
 * DMA, as the context's flags demand. */
static void run_pause(const struct run *r, unsigned turn)
{
	if (turn % 16 == 15)
		sched_yield();
	if (turn > SPINS && r->submitted == atomic_load(&r->job.done))
		gm_sys_nap(NAP);
}

static bool run_to_end(struct run *r)
{
	CUresult result = CUDA_SUCCESS;
	bool progress;
	for (unsigned turn = 0; !run_is_complete(r) && result == CUDA_SUCCESS; turn++) {
		if (atomic_load(&r->job.failed))
			return false;
		result = run_step(r, turn > SPINS, &progress);
		if (progress)
			turn = 0;
		else
			run_pause(r, turn);
	}
	return result == CUDA_SUCCESS;
}

/* Wait for earlier work. The wait for the stream sleeps if the context's flags demand that. */
static bool run_wait_behind(const struct run *r)
{
	const struct gm_driver *driver = r->ring->driver;
	CUevent behind = r->site->behind;
	if (!r->copy->behind)
		return true;
	return driver->cuEventRecord(behind, r->copy->behind) == CUDA_SUCCESS &&
	       driver->cuStreamWaitEvent(run_stream(r), behind, 0) == CUDA_SUCCESS &&
	       driver->cuStreamSynchronize(run_stream(r)) == CUDA_SUCCESS;
}

/* Slots that DMA may still use are not used again. */
static void run_drain(const struct run *r)
{
	if (r->ring->driver->cuStreamSynchronize(run_stream(r)) == CUDA_SUCCESS)
		return;
	ring_give_up(r->ring, "the device had an error in the middle of a copy");
}

/* A sandbox or kernel without process_vm_readv refuses every later copy as well. */
static void run_judge(const struct run *r)
{
	int error = atomic_load(&r->job.failed);
	if (error == ENOSYS || error == EPERM || error == EACCES)
		ring_give_up(r->ring, "this system does not copy memory for a process that handles "
				      "SIGSEGV or SIGBUS");
}

static bool run_copy(struct run *r)
{
	struct gm_ring *ring = r->ring;
	if (!run_wait_behind(r))
		return false;
	gm_crew_begin(&ring->crew, ring->threads, gm_job_work, &r->job);
	bool done = run_to_end(r);
	if (!done)
		gm_job_stop(&r->job);
	gm_crew_finish(&ring->crew);
	if (!done) {
		run_drain(r);
		run_judge(r);
	}
	return done;
}

static bool ring_is_ready(struct gm_ring *ring, struct gm_context *context,
			  struct gm_ring_site **site)
{
	if (!ring->slots && !slots_make(ring))
		return false;
	atomic_store_explicit(&ring->last_used, gm_clock_ns(), memory_order_relaxed);
	if (!slots_register(ring, context))
		return false;
	*site = site_find(ring, context);
	return *site;
}

/* Rows without gaps are a line. */
static struct gm_ring_copy copy_simplified(const struct gm_ring_copy *copy)
{
	struct gm_ring_copy c = *copy;
	if (c.rows > 1 && c.host_pitch == c.width && c.device_pitch == c.width) {
		c.width *= c.rows;
		c.rows = 1;
	}
	return c;
}

bool gm_ring_copy(struct gm_ring *ring, struct gm_context *context, const struct gm_ring_copy *copy)
{
	struct gm_ring_copy c = copy_simplified(copy);
	struct run r = {.ring = ring,
			.copy = &c,
			.job = {.host = {c.host, c.width, c.rows, c.host_pitch},
				.to_device = c.to_device,
				.own = c.own,
				.slot = ring->slot,
				.n_slots = ring->n_slots}};
	if (!gm_job_begin(&r.job, ring->threads) || !ring_is_ready(ring, context, &r.site))
		return false;
	struct gm_context *registrar = ring->registrar;
	if (!gm_context_enter(registrar))
		return false;
	r.job.slots = ring->slots;
	bool done = run_copy(&r);
	gm_context_leave(registrar);
	atomic_store_explicit(&ring->last_used, gm_clock_ns(), memory_order_relaxed);
	return done;
}

/* --- the end --- */

static void site_release(struct gm_ring *ring, struct gm_ring_site *site)
{
	if (site->context && gm_context_enter(site->context)) {
		struct gm_context *context = site->context;
		site_drop(ring->driver, site);
		gm_context_leave(context);
	}
	memset(site, 0, sizeof *site);
}

/* The registration ends with its context. False: a call that may end the context is in progress. */
static bool slots_unregister(struct gm_ring *ring)
{
	CUcontext popped;
	struct gm_context *registrar = ring->registrar;
	if (!registrar)
		return true;
	if (!gm_context_enter(registrar))
		return context_is_gone(registrar);
	if (ring->driver->cuCtxPushCurrent_v2(registrar->handle) == CUDA_SUCCESS) {
		ring->driver->cuMemHostUnregister(ring->slots);
		ring->driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_context_leave(registrar);
	return true;
}

uint64_t gm_ring_release(struct gm_ring *ring)
{
	if (!ring->slots || !slots_unregister(ring))
		return 0;
	ring->registrar = NULL;
	for (unsigned i = 0; i < GM_RING_SITES; i++)
		site_release(ring, &ring->site[i]);
	slots_unmap(ring);
	return gm_ring_room(ring);
}

void gm_ring_forget(struct gm_ring *ring)
{
	gm_crew_forget(&ring->crew);
	memset(ring->site, 0, sizeof ring->site);
	ring->slots = NULL;
	ring->registrar = NULL;
	ring->refusals = 0;
	atomic_store(&ring->last_used, 0);
	atomic_store(&ring->useless, false);
	atomic_store(&ring->taken, false);
}
