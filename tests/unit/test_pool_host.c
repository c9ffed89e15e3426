/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory for metadata runs out at every allocation in turn: the worst result is out of memory.
 * Linked with --wrap for malloc, calloc, realloc, aligned_alloc, mmap and munmap. */
#include <sys/mman.h>

#include "host_fails.h"
#include "pool_fake.h"

static size_t mapped; /* bytes of host memory mapped by mmap */

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return host_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__real_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t size);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
int __wrap_munmap(void *at, size_t size);

void *__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t offset)
{
	void *memory =
		host_fails() ? MAP_FAILED : __real_mmap(at, size, access, flags, file, offset);
	mapped += memory == MAP_FAILED ? 0 : size;
	return memory;
}

int __wrap_munmap(void *at, size_t size)
{
	mapped -= size;
	return __real_munmap(at, size);
}

#define AT ((CUdeviceptr)1 << 46)
#define N 100

static CUresult worst;

static void note(CUresult result)
{
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
		worst = result;
}

/* One of each operation that needs metadata. */
static void act(struct gm_pool *pool)
{
	struct gm_block blocks[N];
	unsigned n = 0;
	for (unsigned i = 0; i < N; i++) {
		CUresult result = gm_pool_alloc(pool, 1 + i * i * 200, 1, &blocks[n]);
		note(result);
		n += result == CUDA_SUCCESS;
	}
	if (n)
		note(gm_pool_pin(pool, blocks[0].base, 1));
	for (unsigned i = 0; i < n; i += 2)
		note(gm_pool_free(pool, blocks[i].base, NULL, NULL));
	gm_pool_give_back(pool, 0, true);
	CUresult lent = gm_pool_lend(pool, AT, 48 * GM_MIB);
	note(lent);
	for (unsigned i = 1; i < n; i += 2)
		note(gm_pool_free(pool, blocks[i].base, NULL, NULL));
	if (lent == CUDA_SUCCESS)
		note(gm_pool_take_back(pool, AT, 48 * GM_MIB));
}

int main(void)
{
	unsigned long n = 1;
	unsigned bad = 0;
	for (bool failed = true; failed; n++) {
		struct gm_pool *pool = NULL;
		struct gm_pool_config config = {.driver = &fake_driver, .limit = UINT64_MAX};
		fake_open(GM_GIB);
		host_fail = n;
		if (gm_pool_create(&config, &pool) == CUDA_SUCCESS) {
			act(pool);
			failed = host_fail == 0;
			host_fail = 0;
			bad += !fake_valid(pool);
			act(pool);
			bad += !fake_valid(pool);
			gm_pool_give_back(pool, 0, false);
			bad += fake_stats(pool).mapped != 0;
			gm_pool_destroy(pool);
			struct gm_null_totals totals;
			gm_null_totals(&totals);
			bad += totals.created || totals.mapped;
		}
		bad += mapped != 0;
	}
	TAP_OK(n > 30, "host memory ran out in %lu places", n - 2);
	TAP_IS(worst, CUDA_SUCCESS, "the worst result is out of memory");
	TAP_IS(bad, 0, "the pool stays valid, goes on, and leaks nothing");
	return tap_done();
}
