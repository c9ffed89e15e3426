/* SPDX-License-Identifier: BSD-3-Clause */
int needs_none(void)
{
	return 0;
}

int found_one(void)
{
	return 1;
}

int asserts(void)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return 1;
}

/* --- under the shelf's lock --- */

static struct gm_piece *found_two(int a, int b)
{
	return a + b;
}

static int takes_its_own(int a)
{
	gm_pool_lock(a);
	return a;
}

/* --- no lock is needed --- */

static int free_of_locks(int a)
{
	return a;
}
