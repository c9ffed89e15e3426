/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a live block whose memory serves others, and that get memory again. */
#include "pool_fake.h"

#include "pool/internal.h"
#include "pool/vacant.h"

#define PEER 3
#define CHUNK (32 * GM_MIB)
enum { PARTS = 4 };

/* A pool whose handles have the length of a CHUNK. */
static struct gm_pool *open_pool(uint64_t memory, uint64_t limit)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver, .limit = limit, .chunk = CHUNK};
	fake_open(memory);
	gm_pool_create(&config, &pool);
	return pool;
}

static uint64_t physical(void)
{
	struct gm_null_totals totals;
	gm_null_totals(&totals);
	return totals.created;
}

static void serves_others(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, PARTS * CHUNK), found;
	unsigned created = fake.calls[FAKE_CREATE];
	TAP_IS(gm_pool_vacate(pool, block.base + CHUNK, 2 * CHUNK), 2 * CHUNK,
	       "two chunks of a block are vacated");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_OK(fake_is_mapped(block.base) && !fake_is_mapped(block.base + CHUNK) &&
		       !fake_is_mapped(block.base + 2 * CHUNK) &&
		       fake_is_mapped(block.base + 3 * CHUNK),
	       "vacant places are not mapped, those beside them are");
	TAP_IS(fake_stats(pool).vacant, 2 * CHUNK, "two chunks are counted as vacant");
	TAP_IS(fake_stats(pool).idle, 2 * CHUNK, "the memory of vacant places is idle");
	TAP_IS(fake_stats(pool).handed_out, PARTS * CHUNK, "the block is as long as before");
	TAP_OK(gm_pool_find(pool, block.base + CHUNK + 5, &found) && found.live &&
		       found.base == block.base,
	       "an address in a vacant place is found in its block");
	struct gm_block other = fake_alloc(pool, 2 * CHUNK);
	TAP_OK(other.base && !fake_stats(pool).idle, "the memory serves another block");
	TAP_OK(other.base + 2 * CHUNK <= block.base || other.base >= block.base + PARTS * CHUNK,
	       "another block lies at other addresses");
	TAP_IS(fake.calls[FAKE_CREATE], created, "another block needs no new memory");
	gm_pool_free(pool, other.base, NULL, NULL);
	TAP_IS(gm_pool_occupy(pool, block.base, PARTS * CHUNK), CUDA_SUCCESS,
	       "the block gets memory again");
	TAP_IS(fake.calls[FAKE_CREATE], created, "a place gets idle memory, not new memory");
	TAP_OK(fake_is_mapped(block.base + CHUNK) && fake_is_mapped(block.base + 2 * CHUNK),
	       "the places of a block are mapped again");
	TAP_OK(!fake_stats(pool).vacant && !fake_stats(pool).idle && fake_valid(pool),
	       "nothing is vacant or idle");
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_end(pool, "serves others");
}

static void new_memory(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, PARTS * CHUNK + CHUNK);
	struct gm_block block = fake_alloc(pool, PARTS * CHUNK);
	gm_pool_vacate(pool, block.base, 2 * CHUNK);
	struct gm_block other = fake_alloc(pool, 3 * CHUNK);
	TAP_OK(other.base, "vacant places do not count against the limit");
	TAP_IS(physical(), PARTS * CHUNK + CHUNK, "physical memory stays below the limit");
	TAP_IS(gm_pool_occupy(pool, block.base, PARTS * CHUNK), CUDA_ERROR_OUT_OF_MEMORY,
	       "there is no memory for vacant places at the limit");
	TAP_OK(fake_stats(pool).vacant == 2 * CHUNK && fake_valid(pool),
	       "places without memory stay vacant");
	gm_pool_free(pool, other.base, NULL, NULL);
	TAP_IS(gm_pool_occupy(pool, block.base, PARTS * CHUNK), CUDA_SUCCESS,
	       "the places get memory when another block is freed");
	gm_pool_give_back(pool, 0, false);
	gm_pool_vacate(pool, block.base, CHUNK);
	gm_pool_give_back(pool, 0, false);
	TAP_IS(physical(), (PARTS - 1) * CHUNK, "the memory of a place can go to the driver");
	TAP_IS(gm_pool_occupy(pool, block.base, CHUNK), CUDA_SUCCESS, "the place gets new memory");
	TAP_OK(physical() == PARTS * CHUNK && fake_valid(pool),
	       "the memory in use is as much as before");
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_end(pool, "new memory");
}

/* Idle chunks of other sizes have to go first. */
static void exchanged(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 6 * CHUNK);
	struct gm_block block = fake_alloc(pool, 2 * CHUNK);
	gm_pool_vacate(pool, block.base, 2 * CHUNK);
	gm_pool_give_back(pool, 0, false);
	pool->config.chunk = 2 * CHUNK;
	gm_pool_free(pool, fake_alloc(pool, 6 * CHUNK).base, NULL, NULL);
	TAP_IS(fake_stats(pool).idle, 6 * CHUNK, "all memory is idle in longer chunks");
	TAP_IS(gm_pool_occupy(pool, block.base, 2 * CHUNK), CUDA_SUCCESS,
	       "places get memory in exchange for idle chunks of other sizes");
	TAP_OK(fake_valid(pool) && physical() <= 6 * CHUNK,
	       "an exchange of chunks stays within the limit");
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_end(pool, "exchanged");
}

static void freed(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, PARTS * CHUNK);
	struct gm_block second = fake_alloc(pool, CHUNK);
	gm_pool_vacate(pool, block.base + CHUNK, CHUNK);
	gm_pool_vacate(pool, block.base + 3 * CHUNK, CHUNK);
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_SUCCESS,
	       "a block with vacant places is freed");
	TAP_OK(fake_valid(pool) && !fake_stats(pool).vacant, "the places of a freed block end");
	TAP_IS(fake_stats(pool).idle, PARTS * CHUNK, "the other memory of a freed block is idle");
	TAP_IS(fake_stats(pool).mapped, (PARTS + 1) * CHUNK, "no more is mapped than there is");
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a second free is refused");
	TAP_OK(fake_alloc(pool, CHUNK).base && fake_valid(pool),
	       "the memory of a freed block serves others");
	gm_pool_vacate(pool, second.base, CHUNK);
	fake_end(pool, "a pool with a vacant place");
}

static void refused(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, CHUNK + CHUNK / 2);
	struct gm_block beside = fake_alloc(pool, CHUNK / 4), pinned = fake_alloc(pool, CHUNK);
	TAP_IS(gm_pool_vacate(pool, block.base + GM_MIB, CHUNK), 0, "a part of a chunk stays");
	TAP_IS(gm_pool_vacate(pool, block.base, CHUNK + CHUNK / 2), CHUNK,
	       "a chunk that another block shares stays");
	TAP_IS(gm_pool_vacate(pool, block.base, CHUNK), 0, "a vacant place has nothing to vacate");
	TAP_IS(gm_pool_vacate(pool, block.base, 64 * CHUNK), 0,
	       "nothing beyond the end of the block is vacated");
	TAP_IS(gm_pool_vacate(pool, 4096, CHUNK), 0, "nothing outside of the pool is vacated");
	gm_pool_pin(pool, pinned.base, 4096);
	TAP_IS(gm_pool_vacate(pool, pinned.base, CHUNK), 0, "a pinned block stays");
	TAP_IS(gm_pool_occupy(pool, 4096, CHUNK), CUDA_SUCCESS,
	       "nothing outside of the pool is vacant");
	TAP_IS(gm_pool_pin(pool, block.base, 8), CUDA_SUCCESS, "a block with a place is pinned");
	TAP_OK(!fake_stats(pool).vacant && fake_is_mapped(block.base),
	       "the place of a pinned block got memory before");
	gm_pool_free(pool, beside.base, NULL, NULL);
	TAP_IS(gm_pool_vacate(pool, beside.base, CHUNK / 4), 0, "a freed block has no place");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "refused");
}

/* --- a GPU that works until the host waits, and may not wait while `captures` --- */

static unsigned waits;
static bool captures;

static CUresult fence_ask(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return CUDA_SUCCESS;
}

static CUresult fence_wait(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg, (void)context, (void)native;
	*fenced = captures ? GM_FENCED_LATER : GM_FENCED_PASSED;
	waits += !captures;
	return CUDA_SUCCESS;
}

static void waited_for(void)
{
	static const struct gm_fence_ops fences = {.ask = fence_ask, .wait = fence_wait};
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.chunk = CHUNK,
					.defer = true,
					.retire = GM_GIB,
					.fences = &fences};
	fake_open(GM_GIB);
	gm_pool_create(&config, &pool);
	struct gm_block first = fake_alloc(pool, 2 * CHUNK), second = fake_alloc(pool, 2 * CHUNK);
	gm_pool_vacate(pool, first.base, CHUNK);
	gm_pool_vacate(pool, second.base, CHUNK);
	TAP_IS(gm_pool_free(pool, first.base, NULL, NULL), CUDA_SUCCESS,
	       "a block with a place is freed where frees are deferred");
	TAP_IS(waits, 1, "a free of a block with a place waits for its work");
	TAP_OK(!fake_stats(pool).retired && fake_valid(pool),
	       "a block with a place is not retired after the wait");
	captures = true;
	TAP_IS(gm_pool_free(pool, second.base, NULL, NULL), CUDA_SUCCESS,
	       "a block with a place is freed while nothing can wait");
	TAP_OK(!fake_stats(pool).vacant && fake_stats(pool).retired == 2 * CHUNK,
	       "a block freed without a wait got memory, and is retired");
	TAP_OK(waits == 1 && fake_valid(pool), "a free during a capture does not wait");
	captures = false;
	gm_pool_drain(pool);
	fake_end(pool, "waited for");
}

static void peers(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 2 * CHUNK);
	gm_pool_vacate(pool, block.base, CHUNK);
	TAP_IS(gm_pool_grant(pool, PEER), CUDA_SUCCESS, "a peer is granted access beside a place");
	TAP_IS(gm_pool_occupy(pool, block.base, CHUNK), CUDA_SUCCESS, "the place gets memory");
	TAP_IS(fake.n_access, 2, "the peer may use the memory of the place");
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_end(pool, "peers");
}

/* --- memory of the host --- */

static void hosted(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 3 * CHUNK);
	struct gm_block block = fake_alloc(pool, 2 * CHUNK);
	TAP_OK(gm_pool_occupy_host(pool, block.base, 2 * CHUNK) == CUDA_SUCCESS &&
		       !fake_stats(pool).hosted,
	       "a block without places needs no memory of the host");
	gm_pool_vacate(pool, block.base, 2 * CHUNK);
	struct gm_block other = fake_alloc(pool, 3 * CHUNK);
	TAP_OK(other.base && gm_pool_is_vacant(pool, block.base), "an access to a place faults");
	TAP_IS(gm_pool_occupy_host(pool, block.base, CHUNK), CUDA_SUCCESS,
	       "a place gets memory of the host at the limit");
	TAP_IS(fake.prop.location.type, 3, "memory of the host is made at a node of the host");
	TAP_OK(fake_is_mapped(block.base) && !fake_is_mapped(block.base + CHUNK),
	       "memory of the host is mapped at the place");
	TAP_OK(!gm_pool_is_vacant(pool, block.base) && gm_pool_is_vacant(pool, block.base + CHUNK),
	       "accesses to a place with memory of the host do not fault");
	TAP_OK(fake_stats(pool).hosted == CHUNK && fake_stats(pool).vacant == 2 * CHUNK,
	       "the place is counted as hosted, and as vacant still");
	TAP_OK(fake_stats(pool).mapped == 5 * CHUNK && fake_valid(pool), "the pool is valid");
	gm_pool_free(pool, other.base, NULL, NULL);
	TAP_IS(gm_pool_occupy(pool, block.base, CHUNK), CUDA_SUCCESS,
	       "a place with memory of the host succeeds to get memory");
	TAP_IS(fake_stats(pool).hosted, CHUNK, "a place with memory of the host keeps it");
	TAP_IS(gm_pool_vacate(pool, block.base, CHUNK), 0,
	       "a place with memory of the host has nothing to make idle");
	TAP_OK(!fake_stats(pool).hosted && gm_pool_is_vacant(pool, block.base) &&
		       !fake_is_mapped(block.base),
	       "a place that is vacated releases the memory of the host");
	TAP_IS(physical(), 3 * CHUNK, "the memory of the host returns to the driver");
	TAP_IS(gm_pool_occupy(pool, block.base, 2 * CHUNK), CUDA_SUCCESS,
	       "a vacated place gets memory of the device");
	TAP_OK(!fake_stats(pool).vacant && fake_valid(pool),
	       "a place with memory of the device is not vacant");
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_end(pool, "hosted");
}

static void hosted_until_the_end(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 2 * CHUNK), rest = fake_alloc(pool, CHUNK);
	gm_pool_vacate(pool, block.base, CHUNK);
	gm_pool_occupy_host(pool, block.base, CHUNK);
	TAP_IS(physical(), 4 * CHUNK, "memory of the host is one handle more");
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_SUCCESS,
	       "a block with memory of the host is freed");
	TAP_OK(!fake_stats(pool).hosted && !fake_stats(pool).vacant && physical() == 3 * CHUNK &&
		       fake_valid(pool),
	       "memory of the host ends with its block");
	gm_pool_vacate(pool, rest.base, CHUNK);
	gm_pool_occupy_host(pool, rest.base, CHUNK);
	fake_end(pool, "a pool with memory of the host");
}

static void hosted_for_peers(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 2 * CHUNK);
	gm_pool_vacate(pool, block.base, 2 * CHUNK);
	gm_pool_occupy_host(pool, block.base, CHUNK);
	gm_pool_give_back(pool, 0, false);
	const unsigned before = fake.calls[FAKE_ACCESS];
	TAP_IS(gm_pool_grant(pool, PEER), CUDA_SUCCESS, "a peer is granted access later");
	TAP_IS(fake.calls[FAKE_ACCESS] - before, 1,
	       "a grant opens the place with memory of the host alone");
	TAP_OK(fake.n_access == 1 && fake.access[0].location.id == PEER,
	       "a grant opens memory of the host for the peer");
	gm_pool_occupy_host(pool, block.base + CHUNK, CHUNK);
	TAP_OK(fake.calls[FAKE_ACCESS] - before == 2 && fake.n_access == 2,
	       "further memory of the host is open to the peer from the beginning");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "hosted for peers");
}

/* Each driver call of an occupy with memory of the host fails, and each of its release. */
static void hosted_faults(void)
{
	static const enum fake_call calls[] = {FAKE_CREATE, FAKE_MAP, FAKE_ACCESS};
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, CHUNK);
	gm_pool_vacate(pool, block.base, CHUNK);
	for (unsigned i = 0; i < 3; i++) {
		fake.fail[calls[i]] = 1;
		TAP_IS(gm_pool_occupy_host(pool, block.base, CHUNK), CUDA_ERROR_OUT_OF_MEMORY,
		       "%s fails: no memory of the host", fake_names[calls[i]]);
		TAP_OK(gm_pool_is_vacant(pool, block.base) && !fake_stats(pool).hosted &&
			       physical() == CHUNK && fake_valid(pool),
		       "the place is vacant as before the failure");
	}
	gm_pool_occupy_host(pool, block.base, CHUNK);
	fake.fail[FAKE_UNMAP] = 1;
	TAP_IS(gm_pool_vacate(pool, block.base, CHUNK), 0,
	       "a place whose unmap fails makes nothing idle");
	TAP_OK(!gm_pool_is_vacant(pool, block.base) && fake_stats(pool).hosted == CHUNK,
	       "the memory of the host stays when an unmap fails");
	fake.fail[FAKE_UNMAP] = 1;
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_ERROR_NOT_READY,
	       "a free fails that cannot end memory of the host");
	TAP_OK(fake_stats(pool).hosted == CHUNK && fake_valid(pool),
	       "a block lives whose free failed");
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_SUCCESS, "a later free succeeds");
	fake_end(pool, "hosted faults");
}

/* --- what lacks, and the end of a context --- */

static void lacks(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 4 * CHUNK);
	struct gm_block block = fake_alloc(pool, 3 * CHUNK);
	TAP_IS(gm_pool_lack(pool, 2 * CHUNK), CHUNK, "bytes that exceed the limit are lacking");
	TAP_IS(gm_pool_lack(pool, CHUNK), CHUNK,
	       "all bytes of a block may be lacking below the limit");
	TAP_IS(gm_pool_lack(pool, 1), GM_POOL_GRANULE, "whole granules are lacking");
	TAP_IS(gm_pool_lack(pool, CHUNK + 1), GM_POOL_GRANULE,
	       "whole granules are lacking beyond the limit, too");
	TAP_IS(gm_pool_lack(pool, 8 * CHUNK), 7 * CHUNK, "more than the block has can lack");
	gm_pool_vacate(pool, block.base, CHUNK);
	TAP_IS(gm_pool_lack(pool, 2 * CHUNK), 2 * CHUNK, "a vacant place makes room");
	TAP_IS(gm_pool_lack(pool, 3 * CHUNK), CHUNK, "a vacant place makes room of its size");
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_end(pool, "lacks");
}

static void context_gone(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
	struct gm_block first = fake_alloc(pool, 2 * CHUNK), second = fake_alloc(pool, CHUNK),
			other;
	struct gm_block third = fake_alloc(pool, CHUNK);
	gm_pool_alloc(pool, 2 * CHUNK, 2, &other);
	gm_pool_vacate(pool, first.base, CHUNK);
	gm_pool_vacate(pool, second.base, CHUNK);
	gm_pool_occupy_host(pool, second.base, CHUNK);
	gm_pool_vacate(pool, other.base, CHUNK);
	TAP_IS(gm_pool_context_gone(pool, 1), 3, "the end of a context frees its blocks");
	TAP_OK(fake_stats(pool).vacant == CHUNK && !fake_stats(pool).hosted,
	       "the places of an ended context end, with memory of the host, too");
	TAP_IS(gm_pool_free(pool, third.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "blocks without places end, too");
	TAP_OK(gm_pool_is_vacant(pool, other.base) && fake_valid(pool),
	       "a place of another context is vacant still");
	TAP_IS(gm_pool_occupy(pool, other.base, CHUNK), CUDA_SUCCESS,
	       "a place of another context gets memory");
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "a context ends once");
	TAP_IS(gm_pool_context_gone(pool, 2), 1, "the other context ends");
	TAP_OK(!fake_stats(pool).vacant && fake_stats(pool).live_blocks == 0 && fake_valid(pool),
	       "nothing of the two contexts remains");
	fake_end(pool, "context gone");
}

/* Each driver call of a vacate, an occupy and a free fails in turn, alone or with the next two. */
static void faults(void)
{
	for (unsigned more = 0; more < 3; more++)
		for (unsigned nth = 1; nth < 24; nth++) {
			struct gm_pool *pool = open_pool(GM_GIB, UINT64_MAX);
			struct gm_block block = fake_alloc(pool, PARTS * CHUNK);
			fake.fail_any = nth;
			fake.fail_more = more;
			gm_pool_vacate(pool, block.base, 3 * CHUNK);
			bool valid = fake_valid(pool);
			struct gm_block other = fake_alloc(pool, CHUNK);
			gm_pool_give_back(pool, 0, false);
			gm_pool_occupy(pool, block.base, PARTS * CHUNK);
			valid = valid && fake_valid(pool);
			fake.fail_any = fake.fail_more = 0;
			CUresult last = gm_pool_occupy(pool, block.base, PARTS * CHUNK);
			for (unsigned i = 0; i < PARTS; i++)
				valid = valid && fake_is_mapped(block.base + i * CHUNK);
			gm_pool_free(pool, other.base, NULL, NULL);
			gm_pool_free(pool, block.base, NULL, NULL);
			valid = valid && fake_valid(pool) && last == CUDA_SUCCESS;
			gm_pool_give_back(pool, 0, false);
			TAP_OK(valid && fake_stats(pool).mapped == 0,
			       "call %u fails, and %u maps after it", nth, more);
			gm_pool_destroy(pool);
		}
}

static void random_calls(void)
{
	enum { BLOCKS = 12 };
	struct gm_block b[BLOCKS] = {0};
	struct gm_pool *pool = open_pool(2 * GM_GIB, 24 * CHUNK);
	uint64_t seed = 88172645463325252u, vacated = 0, occupied = 0, most = 0;
	bool valid = true;
	for (unsigned i = 0; i < 20000 && valid; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		struct gm_block *at = &b[seed % BLOCKS];
		unsigned what = (unsigned)(seed >> 8) % 16;
		if (!at->base) {
			*at = fake_alloc(pool, 1 + (seed >> 16) % (4 * CHUNK));
		} else if (what < 7) {
			uint64_t from = (seed >> 20) % at->held / CHUNK * CHUNK;
			vacated += gm_pool_vacate(pool, at->base + from, at->held - from) > 0;
		} else if (what < 11) {
			occupied += gm_pool_occupy(pool, at->base, at->held) == CUDA_SUCCESS;
		} else if (what < 15) {
			gm_pool_free(pool, at->base, NULL, NULL);
			at->base = 0;
		} else {
			gm_pool_give_back(pool, 4 * CHUNK, false);
		}
		most = physical() > most ? physical() : most;
		valid = i % 16 || fake_valid(pool);
	}
	TAP_OK(valid && fake_valid(pool), "the pool is valid after 20,000 random calls");
	TAP_OK(vacated > 100 && occupied > 100, "%llu calls vacated, %llu occupied",
	       (unsigned long long)vacated, (unsigned long long)occupied);
	TAP_OK(most <= 24 * CHUNK, "physical memory stayed below the limit");
	for (unsigned i = 0; i < BLOCKS; i++)
		if (b[i].base)
			gm_pool_free(pool, b[i].base, NULL, NULL);
	TAP_IS(fake_stats(pool).vacant, 0, "no place is left without blocks");
	fake_end(pool, "random calls");
}

/* --- each thread vacates and occupies its own block, and allocates others --- */

enum { THREADS = 3, TURNS = 400 };

static void *thread_run(void *arg)
{
	struct gm_pool *pool = arg;
	struct gm_block mine = fake_alloc(pool, PARTS * CHUNK);
	uint64_t served = 0;
	for (unsigned i = 0; i < TURNS && mine.base; i++) {
		gm_pool_vacate(pool, mine.base + i % PARTS * CHUNK, (PARTS - i % PARTS) * CHUNK);
		struct gm_block other = fake_alloc(pool, (1 + i % 3) * CHUNK);
		served += other.base != 0;
		if (i % 50 == 0)
			gm_pool_give_back(pool, 0, false);
		if (other.base)
			gm_pool_free(pool, other.base, NULL, NULL);
		if (i % 7 == 0) {
			gm_pool_free(pool, mine.base, NULL, NULL);
			mine = fake_alloc(pool, PARTS * CHUNK);
		} else {
			gm_pool_occupy(pool, mine.base, PARTS * CHUNK);
		}
	}
	if (mine.base)
		gm_pool_free(pool, mine.base, NULL, NULL);
	return (void *)(uintptr_t)served;
}

static void threads(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, THREADS * (PARTS + 3) * CHUNK);
	pthread_t thread[THREADS];
	uintptr_t served = 0;
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, thread_run, pool);
	for (unsigned i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(thread[i], &result);
		served += (uintptr_t)result;
	}
	TAP_IS(served, THREADS * TURNS, "threads that vacate and occupy serve all allocations");
	TAP_OK(fake_valid(pool) && !fake_stats(pool).vacant,
	       "the pool is valid after threads that vacate and occupy");
	fake_end(pool, "threads");
}

int main(void)
{
	serves_others();
	new_memory();
	exchanged();
	freed();
	refused();
	waited_for();
	peers();
	hosted();
	hosted_until_the_end();
	hosted_for_peers();
	hosted_faults();
	lacks();
	context_gone();
	faults();
	random_calls();
	threads();
	return tap_done();
}
