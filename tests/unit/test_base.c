/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays, hashing without host memory, ranked locks, messages. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/distance.h"
#include "base/futex_lock.h"
#include "base/lock.h"
#include "base/msg.h"

/* uthash allocations fail while `starved` is set. */
static bool starved;
#define uthash_malloc(n) (starved ? NULL : malloc(n))
#include "base/hash.h"

#include "../tap.h"

static void arrays(void)
{
	GM_ARRAY(int) a = {0};
	bool pushed = true;
	for (int i = 0; i < 1000; i++)
		pushed = pushed && gm_array_push(&a, i * i);
	TAP_OK(pushed && a.n == 1000 && a.at[999] == 999 * 999 && a.room >= 1000,
	       "an array grows with its elements");
	TAP_OK(!gm_array_reserve(&a, SIZE_MAX / 2), "an impossible size is refused");
	TAP_OK(a.n == 1000 && a.at[31] == 961, "a refused reservation leaves the array unchanged");
	gm_array_free(&a);
	TAP_OK(!a.at && a.n == 0 && a.room == 0, "a freed array is an empty one");
}

struct element {
	int key;
	UT_hash_handle hh;
};

static void hashing(void)
{
	struct element *table = NULL, one = {.key = 1}, two = {.key = 2}, *found;
	starved = true;
	HASH_ADD_INT(table, key, &one);
	TAP_OK(gm_hash_failed(&one), "no memory: said, not fatal");
	starved = false;
	table = NULL;
	HASH_ADD_INT(table, key, &two);
	TAP_OK(!gm_hash_failed(&two), "an entry is added when there is memory");
	int key = 2;
	HASH_FIND_INT(table, &key, found);
	TAP_PTR(found, &two, "the added entry is found");
	HASH_CLEAR(hh, table);
}

static struct gm_lock low = GM_LOCK_INIT(GM_LOCK_RANK_POOL), high = GM_LOCK_INIT(GM_LOCK_RANK_LOG);

static void right_order(void)
{
	gm_lock_take(&low);
	gm_lock_take(&high);
	gm_lock_release(&low);
	gm_lock_release(&high);
}

static void wrong_order(void)
{
	gm_lock_take(&high);
	gm_lock_take(&low);
}

static void twice(void)
{
	struct gm_lock other = GM_LOCK_INIT(GM_LOCK_RANK_POOL);
	gm_lock_take(&low);
	gm_lock_take(&other);
}

static void never_taken(void)
{
	struct gm_rwlock lock;
	gm_rwlock_init(&lock, GM_LOCK_RANK_CAPTURE);
	gm_rwlock_release(&lock);
}

/* Does a child that runs this die of SIGABRT? */
static bool aborts(void (*what)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		close(STDERR_FILENO);
		what();
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void locks(void)
{
	TAP_OK(!aborts(right_order), "locks in the order of their ranks");
#ifdef GM_DEBUG
	TAP_OK(aborts(wrong_order), "locks against their order");
	TAP_OK(aborts(twice), "two locks of one rank");
	TAP_OK(aborts(never_taken), "a release of a lock that is not held aborts");
	gm_lock_take(&low);
	TAP_OK(!gm_lock_none_held(GM_LOCK_RANK_POOL, GM_LOCK_RANK_LOG), "a held lock is known");
	TAP_OK(gm_lock_none_held(GM_LOCK_RANK_TABLE, GM_LOCK_RANK_COUNT), "no other lock is held");
	gm_lock_release(&low);
#else
	TAP_OK(gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT),
	       "a release build does not watch");
	(void)wrong_order, (void)twice, (void)never_taken;
#endif
}

static void distances(void)
{
	char longest[65] = "";
	memset(longest, 'x', 64);
	TAP_IS(gm_distance("kitten", "sitting"), 3, "two letters changed, one added");
	TAP_IS(gm_distance("", "abc"), 3, "the distance to an empty text is the length");
	TAP_IS(gm_distance("abc", "abc"), 0, "equal texts have distance 0");
	TAP_IS(gm_distance(longest, longest), UINT_MAX, "a word too long is near to none");
	TAP_IS(gm_distance(longest + 1, longest + 1), 0, "63 letters are not too long");
}

static void messages(void)
{
	int ends[2], kept = dup(STDERR_FILENO);
	char text[4096];
	if (pipe(ends) != 0 || kept < 0)
		exit(99);
	dup2(ends[1], STDERR_FILENO);
	gm_msg_follow();
	errno = EDOM;
	gm_msg(GM_MSG_NOTICE, "not at this level");
	gm_msg(GM_MSG_WARN, "%d is %s", 7, "seven");
	gm_msg(GM_MSG_WARN, "\033[31m\n" GM_MSG_TEXT " ends", GM_MSG_CUT("\xff"));
	for (int i = 0; i < 3; i++)
		GM_MSG_ONCE(GM_MSG_WARN, "once");
	gm_msg_set_level(GM_MSG_DEBUG);
	gm_msg(GM_MSG_DEBUG, "%2000d", 1);
	int error = errno;
	dup2(kept, STDERR_FILENO);
	close(ends[1]);
	ssize_t n = read(ends[0], text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	char *lines = strstr(text, "gpumem:  ");
	TAP_OK(lines && strlen(lines) == 8 + 1023 + 1 && strchr(lines, '\n') == lines + 8 + 1023,
	       "a long line is cut");
	if (lines)
		*lines = '\0';
	TAP_STR(text, "gpumem: 7 is seven\ngpumem: \\x1b[31m\\n\\xff ends\ngpumem: once\n",
		"lines of a level and lines said once are written");
	TAP_IS(error, EDOM, "a message does not change errno");
}

#define TURNS 50000

static struct gm_futex_lock quick;
static uint64_t turns; /* protected by `quick` */

/* Now and then the owner of the lock yields the processor, so that others wait. */
static void *take_turns(void *arg)
{
	for (unsigned i = 0; i < TURNS; i++) {
		gm_futex_lock_take(&quick);
		uint64_t before = turns;
		if (i % 64 == 0)
			sched_yield();
		turns = before + 1;
		gm_futex_lock_release(&quick);
	}
	return arg;
}

static void quick_locks(void)
{
	pthread_t threads[4];
	gm_futex_lock_init(&quick, GM_LOCK_RANK_SHELF);
	errno = EDOM;
	gm_futex_lock_take(&quick);
	TAP_OK(!gm_futex_lock_try_acquire(&quick), "a quick lock that is taken is not had");
	gm_futex_lock_release(&quick);
	TAP_OK(gm_futex_lock_try_acquire(&quick), "a quick lock that is free is had");
	gm_futex_lock_release(&quick);
	for (unsigned i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, take_turns, NULL);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	TAP_IS(turns, 4 * TURNS, "one of four threads has the lock at a time");
	TAP_OK(atomic_load(&quick.word) == GM_FUTEX_LOCK_FREE && errno == EDOM,
	       "no thread has the quick lock at the end");
}

int main(void)
{
	arrays();
	hashing();
	locks();
	quick_locks();
	distances();
	messages();
	return tap_done();
}
