/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random copies of several threads, in both directions, behind default streams with work and beside
 * other streams; some copy their front without slots. Each copy is staged, or made by the driver's
 * own call if another thread has the ring, as in the shim. After each copy the bytes equal those of
 * the driver's call. TEST_SEED=n repeats a run.
 */
#include <pthread.h>
#include <time.h>

#include "ring_help.h"

enum { USERS = 4, THREADS = 3 };
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 60 };
#else
enum { ROUNDS = 250 };
#endif
#define SHARE (4 * MIB) /* of the device, a user's own */

struct user {
	unsigned index, seed;
	unsigned staged, wrong;
};
static atomic_uint written; /* number of stream steps that ran */

static unsigned next(struct user *u)
{
	u->seed = u->seed * 1664525 + 1013904223;
	return u->seed >> 8;
}

static void step(void *at)
{
	*(unsigned char *)at ^= 0xff;
	atomic_fetch_add(&written, 1);
}

/* The driver's own calls. */
static CUresult native(bool to_device, void *host, size_t at, size_t n, bool own)
{
	if (to_device)
		return own ? SIM(cuMemcpyHtoD_v2_ptds, PFN_cuMemcpyHtoD_v7000_ptds)(device + at,
										    host, n)
			   : SIM(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020)(device + at, host, n);
	return own ? SIM(cuMemcpyDtoH_v2_ptds, PFN_cuMemcpyDtoH_v7000_ptds)(host, device + at, n)
		   : SIM(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020)(host, device + at, n);
}

static void round_of(struct user *u, unsigned char *from, unsigned char *to)
{
	size_t n = next(u) % 4 ? next(u) % (SHARE / 2) + 1 : (size_t)1 << next(u) % 21;
	size_t host_at = next(u) % 5000, at = u->index * SHARE + next(u) % 5000;
	bool own = next(u) % 2, flip = next(u) % 2;
	CUstream behind = own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	unsigned seed = next(u);
	paint(from + host_at, n, seed);
	for (int to_device = 1; to_device >= 0; to_device--) {
		char *host = (char *)(to_device ? from : to) + host_at;
		bool done = staged(&(struct gm_ring_copy){.to_device = to_device,
							  .host = host,
							  .device = device + at,
							  .width = n,
							  .rows = 1,
							  .behind = behind});
		u->staged += done;
		if (!done && native(to_device, host, at, n, own) != CUDA_SUCCESS)
			u->wrong++;
		if (to_device && flip) /* work between the two copies, in their stream */
			gm_sim_launch(behind, step, on_device(at));
	}
	to[host_at] ^= flip ? 0xff : 0;
	if (!is_painted(to + host_at, n, seed) || to[host_at + n] != 0xab) {
		printf("# user %u: %zu bytes, host + %zu, device + %zu\n", u->index, n, host_at,
		       at);
		u->wrong++;
	}
	memset(to + host_at, 0xab, n);
}

static void *user_run(void *arg)
{
	struct user *u = arg;
	unsigned char *from = pages(SHARE), *to = pages(SHARE);
	CUstream beside = NULL;
	sim_set_current(sim_primary(0));
	sim.cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING);
	memset(to, 0xab, SHARE);
	for (unsigned i = 0; i < ROUNDS; i++) {
		gm_sim_launch(beside, step, on_device(USERS * SHARE + u->index));
		round_of(u, from, to);
	}
	munmap(from, SHARE);
	munmap(to, SHARE);
	return NULL;
}

int main(void)
{
	const char *given = getenv("TEST_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL), all = 0;
	struct user users[USERS];
	pthread_t threads[USERS];
	printf("# TEST_SEED=%u\n", seed);
	set_up(THREADS, 5 * MIB);
	for (unsigned i = 0; i < USERS; i++) {
		users[i] = (struct user){.index = i, .seed = seed + i * 7919};
		pthread_create(&threads[i], NULL, user_run, &users[i]);
	}
	for (unsigned i = 0; i < USERS; i++) {
		pthread_join(threads[i], NULL);
		TAP_IS(users[i].wrong, 0, "user %u: all bytes are right", i);
		all += users[i].staged;
	}
	TAP_OK(all > 0 && all <= 2 * USERS * ROUNDS, "%u copies of %u were staged", all,
	       2 * USERS * ROUNDS);
	gm_ring_take(&ring);
	TAP_IS(gm_ring_release(&ring), gm_ring_room(&ring), "the slots go back");
	return tap_done();
}
