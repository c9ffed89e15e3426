/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The emulation itself: results of *_sync calls; detection of wrong masks; detection of a lane that
 * waits for another lane of its warp exactly where the scheduling is not fair.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap/device/simt.h"
#include "tests/tap.h"

struct shared {
	uint32_t lock[2], turns, runs, wrong, together;
};

static bool launch(unsigned warps, enum gm_simt_mode mode, uint32_t seed,
		   void (*kernel)(void *, uint32_t), void *arg)
{
	return gm_simt_launch(&(struct gm_simt){warps, 2, seed, mode}, kernel, arg);
}

static void exchange(void *arg, uint32_t thread)
{
	struct shared *shared = arg;
	uint32_t lane = thread % 32, half = lane < 16 ? 0xffff : 0xffff0000;
	bool ok = gm_lane() == lane && gm_sm() == thread / 32 % 4 && gm_rank(~0u) == lane;
	ok &= gm_match(~0u, lane % 3) == (lane % 3 == 2 ? 0x24924924u : 0x49249249u << lane % 3);
	ok &= gm_shfl(half, thread, gm_leader(half)) == (thread & ~15u);
	ok &= gm_ballot(half, lane % 3 == 2) == (half & 0x24924924u);
	gm_syncwarp(half);
	uint32_t mask = gm_active();
	ok &= mask >> lane & 1;
	ok &= gm_union(mask, 1u << lane) == mask;
	if (gm_popc(mask) > 1)
		gm_add32(&shared->together, 1);
	gm_add32(&shared->runs, 1);
	if (!ok)
		gm_add32(&shared->wrong, 1);
}

/* Lane 7 has the lock that the others of its warp then wait for. */
static void spin(void *arg, uint32_t thread)
{
	uint32_t *lock = &((struct shared *)arg)->lock[thread / 32];
	if (thread % 32 == 7)
		gm_cas32(lock, 0, 1);
	gm_syncwarp(~0u);
	while (thread % 32 != 7 && gm_cas32(lock, 0, 1) != 0)
		gm_pause(10);
	gm_add32(&((struct shared *)arg)->turns, 1);
	gm_store32_release(lock, 0);
}

static void strange_mask(void *arg, uint32_t thread)
{
	(void)arg;
	gm_syncwarp(1u << ((thread + 1) & 31));
}

static void different_masks(void *arg, uint32_t thread)
{
	(void)arg;
	gm_syncwarp(thread & 1 ? ~0u : 0x55555555);
}

static void absent_lane(void *arg, uint32_t thread)
{
	if (thread != 5)
		gm_add32(&((struct shared *)arg)->runs, gm_ballot(~0u, thread & 1));
}

/* Lane 5 leaves out a call. */
static void one_ahead(void *arg, uint32_t thread)
{
	if (thread != 5)
		gm_syncwarp(~0u);
	gm_add32(&((struct shared *)arg)->runs, gm_popc(gm_ballot(~0u, thread != 5)));
}

/* The kernel aborts, and its message ends with `why`. */
static bool aborts(void (*kernel)(void *, uint32_t), const char *why)
{
	struct shared shared = {0};
	char said[4096] = "";
	size_t length = 0;
	ssize_t n;
	int status = 0, ends[2];
	if (pipe(ends))
		return false;
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		launch(1, GM_SIMT_FAIR, 1, kernel, &shared);
		_exit(0);
	}
	close(ends[1]);
	/* A sanitizer may print its message first. */
	while ((n = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
		length += (size_t)n;
	close(ends[0]);
	bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
		     WTERMSIG(status) == SIGABRT;
	if (ended && strstr(said, why))
		return true;
	printf("# %s\n", said);
	return false;
}

static void check_scheduling(void)
{
	unsigned fair = 0, unfair = 0;
	for (uint32_t seed = 1; seed <= 2; seed++) {
		struct shared shared = {0};
		fair += launch(2, GM_SIMT_FAIR, seed, spin, &shared) && shared.turns == 64;
		memset(&shared, 0, sizeof shared);
		unfair += launch(2, GM_SIMT_UNFAIR, seed, spin, &shared);
	}
	TAP_IS(fair, 2, "a lock between lanes works where lanes are scheduled fairly");
	TAP_IS(unfair, 0, "a lock between lanes gets stuck where lanes are not scheduled fairly");
}

static uint64_t trace(uint32_t seed)
{
	struct shared shared = {0};
	launch(4, GM_SIMT_FAIR, seed, exchange, &shared);
	return (uint64_t)shared.together << 32 | shared.runs;
}

int main(void)
{
	struct shared shared = {0};
	TAP_OK(launch(5, GM_SIMT_FAIR, 7, exchange, &shared), "a launch comes to its end");
	TAP_IS(shared.runs, 5 * 32, "a launch runs every thread");
	TAP_IS(shared.wrong, 0, "*_sync calls return the right values");
	TAP_OK(shared.together > 0, "lanes of a warp come together");
	TAP_IS(trace(3), trace(3), "a seed repeats a run");
	check_scheduling();
	TAP_OK(aborts(strange_mask, "a mask without the lane"),
	       "a mask without the caller is caught");
	TAP_OK(aborts(different_masks, "lanes that cannot come"), "different masks are caught");
	TAP_OK(aborts(absent_lane, "lanes that cannot come"),
	       "a lane that left is waited for: caught");
	TAP_OK(aborts(one_ahead, "at the *_sync call of"),
	       "a lane that leaves a call out is paired at another: caught");
	return tap_done();
}
