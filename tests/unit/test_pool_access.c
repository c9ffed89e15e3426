/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are granted access while a chunk is being mapped or unmapped: afterwards it is open to
 * them. */
#include "pool/internal.h"
#include "pool/vacant.h"
#include "pool_fake.h"

#define PEER 1

static struct gm_pool *pool;
static CUdevice coming; /* peer granted at the next hooked driver call; 0: none */
static struct {
	CUdeviceptr base;
	bool open; /* to PEER */
} chunks[64];
static unsigned n_chunks;

static void peer_comes(void)
{
	CUdevice device = coming;
	coming = 0;
	if (device)
		TAP_IS(gm_pool_grant(pool, device), CUDA_SUCCESS, "a peer comes meanwhile");
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset,
		    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	peer_comes();
	return fake_map(address, size, offset, handle, flags);
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	peer_comes();
	return fake_unmap(address, size);
}

static CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	CUresult result = fake_access(address, size, desc, n);
	unsigned at = 0;
	while (at < n_chunks && chunks[at].base != address)
		at++;
	if (at == 64)
		return CUDA_ERROR_UNKNOWN;
	n_chunks += at == n_chunks;
	chunks[at].base = address;
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
		if (desc[i].location.id == PEER)
			chunks[at].open = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return result;
}

static bool is_open(CUdeviceptr base)
{
	for (unsigned i = 0; i < n_chunks; i++)
		if (chunks[i].base == base)
			return chunks[i].open;
	return false;
}

static bool all_open(void)
{
	for (const struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after)
		for (unsigned i = 0; i < n_chunks; i++)
			if (chunks[i].base == chunk->base && !chunks[i].open)
				return false;
	return pool->n_chunks > 0;
}

static void start(void)
{
	pool = fake_pool(GM_GIB, UINT64_MAX);
	n_chunks = coming = 0;
	memset(chunks, 0, sizeof chunks);
	fake_driver.cuMemMap = map;
	fake_driver.cuMemUnmap = unmap;
	fake_driver.cuMemSetAccess = set_access;
}

static void during_growth(void)
{
	start();
	coming = PEER;
	TAP_OK(fake_alloc(pool, 8 * GM_MIB).base, "a block is served while a peer comes");
	TAP_OK(all_open() && fake_valid(pool), "the chunk made while a peer comes is open to it");
	fake_end(pool, "during growth");
}

/* The driver refuses the second change of access: the whole mapping is undone. */
static void refused(void)
{
	start();
	coming = PEER;
	fake.with = CUDA_ERROR_UNKNOWN;
	fake.fail[FAKE_ACCESS] = 2; /* first access for its own device, then for the peer */
	TAP_OK(!fake_alloc(pool, 32 * GM_MIB).base, "a block whose access is refused fails");
	TAP_IS(fake.calls[FAKE_UNMAP], 1, "the mapping of a refused block is undone");
	TAP_OK(fake_valid(pool) && pool->n_chunks == 0, "the pool is valid");
	TAP_OK(fake_alloc(pool, 32 * GM_MIB).base && all_open(),
	       "the next block after a refused one is served");
	fake_end(pool, "refused");
}

/* The peer is granted while the chunk is being unmapped, and then the driver refuses to unmap
 * it. */
static void during_give_back(void)
{
	start();
	struct gm_block block = fake_alloc(pool, 8 * GM_MIB);
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_SUCCESS,
	       "a block is freed, and all is idle");
	coming = PEER;
	fake.fail[FAKE_UNMAP] = 1;
	TAP_IS(gm_pool_give_back(pool, 0, false), 0, "the driver unmaps nothing");
	TAP_OK(all_open() && fake_valid(pool), "the chunk that stays is open to the peer");
	TAP_OK(gm_pool_give_back(pool, 0, false) > 0, "the chunk is unmapped by a later release");
	fake_end(pool, "during give back");
}

static void during_the_end_of_a_loan(void)
{
	const CUdeviceptr at = (CUdeviceptr)1 << 46;
	start();
	TAP_IS(gm_pool_lend(pool, at, 8 * GM_MIB), CUDA_SUCCESS,
	       "memory is lent before a peer comes");
	fake_driver.cuMemUnmap = fake_unmap; /* the peer comes when the chunk is mapped again */
	coming = PEER;
	TAP_OK(gm_pool_take_back(pool, at, 8 * GM_MIB) == CUDA_SUCCESS && !coming,
	       "a loan ends while a peer comes");
	TAP_OK(all_open() && fake_valid(pool),
	       "the chunk of a loan that ended is open to the peer");
	fake_end(pool, "during the end of a loan");
}

/* The chunk is at neither place while the peer is granted. */
static void during_a_shift(void)
{
	bool moved = false;
	start();
	struct gm_block to = fake_alloc(pool, 8 * GM_MIB);
	gm_pool_vacate(pool, to.base, 8 * GM_MIB);
	struct gm_block from = fake_alloc(pool, 8 * GM_MIB);
	coming = PEER;
	gm_pool_shift(pool, &from.base, &to.base, 1, &moved);
	TAP_OK(moved && !coming, "memory moves to a vacant place while a peer comes");
	TAP_OK(is_open(to.base) && fake_valid(pool),
	       "the place with the memory is open to the peer");
	fake_end(pool, "during a shift");
}

/* --- while contents leave and return --- */

static char store;
static char calls[16]; /* of the mover, in their order */

static void called(char call)
{
	size_t n = strlen(calls);
	if (n + 1 < sizeof calls)
		calls[n] = call;
}

static void *contents_out(void *arg, CUdeviceptr at, uint64_t size)
{
	(void)arg, (void)at, (void)size;
	called('o');
	return &store;
}

static bool contents_in(void *arg, CUdeviceptr at, uint64_t size, void *from)
{
	(void)arg, (void)at, (void)size, (void)from;
	called('i');
	return true;
}

static bool contents_finish(void *arg, void *from)
{
	(void)arg, (void)from;
	called('f');
	return true;
}

static void contents_drop(void *arg, void *from, uint64_t size)
{
	(void)arg, (void)from, (void)size;
}

static const struct gm_mover mover = {contents_out, contents_in, contents_finish, contents_drop,
				      NULL};

static CUresult release(CUmemGenericAllocationHandle handle)
{
	peer_comes();
	return fake_release(handle);
}

static void copies_overlap(void)
{
	start();
	for (unsigned i = 0; i < 3; i++)
		fake_alloc(pool, 8 * GM_MIB);
	memset(calls, 0, sizeof calls);
	TAP_OK(gm_pool_send(pool, &mover).result == CUDA_SUCCESS && !strcmp(calls, "oofoff"),
	       "the next chunk's copy begins before the wait for the one before: %s", calls);
	memset(calls, 0, sizeof calls);
	TAP_OK(gm_pool_fetch(pool, &mover).result == CUDA_SUCCESS && !strcmp(calls, "iififf"),
	       "the way back overlaps copies, too: %s", calls);
	fake_end(pool, "copies that overlap");
}

/* The peer is granted at a driver call while the chunk is unmapped. */
static void during_a_move(const char *when, bool back)
{
	start();
	fake_driver.cuMemRelease = release;
	TAP_OK(fake_alloc(pool, 8 * GM_MIB).base, "%s: a block is served", when);
	if (!back)
		coming = PEER;
	TAP_IS(gm_pool_send(pool, &mover).result, CUDA_SUCCESS, "%s: the block's chunk leaves",
	       when);
	if (back)
		coming = PEER;
	TAP_IS(gm_pool_fetch(pool, &mover).result, CUDA_SUCCESS, "%s: the chunk returns", when);
	TAP_OK(!coming && all_open() && fake_valid(pool), "%s: the chunk is open to the peer",
	       when);
	fake_end(pool, when);
}

/* The driver keeps the mapping: the chunk stays, and is opened. */
static void during_a_failed_move(void)
{
	start();
	TAP_OK(fake_alloc(pool, 8 * GM_MIB).base, "a block is served before a failed move");
	coming = PEER;
	fake.fail[FAKE_UNMAP] = 1;
	TAP_OK(gm_pool_send(pool, &mover).result != CUDA_SUCCESS,
	       "a chunk that the driver keeps cannot leave");
	TAP_OK(all_open() && fake_valid(pool),
	       "a chunk that stays is open to a peer that came meanwhile");
	fake_end(pool, "during a failed move");
}

/* The access that was missed cannot be set: the return is not complete, and the next one is. */
static void after_a_move_refused(void)
{
	start();
	fake_driver.cuMemRelease = release;
	TAP_OK(fake_alloc(pool, 8 * GM_MIB).base, "a block is served before a peer comes");
	TAP_IS(gm_pool_send(pool, &mover).result, CUDA_SUCCESS,
	       "a chunk leaves before a peer comes");
	coming = PEER;
	fake.with = CUDA_ERROR_UNKNOWN;
	fake.fail[FAKE_ACCESS] = 2;
	TAP_OK(gm_pool_fetch(pool, &mover).result != CUDA_SUCCESS && fake_valid(pool),
	       "a peer that came meanwhile is refused: the return fails");
	TAP_OK(gm_pool_fetch(pool, &mover).result == CUDA_SUCCESS && all_open() && fake_valid(pool),
	       "the next return opens the chunk to the peer");
	fake_end(pool, "after a move");
}

static void too_many(void)
{
	start();
	for (CUdevice device = 1; device <= GM_PEERS; device++)
		if (gm_pool_grant(pool, device) != CUDA_SUCCESS)
			TAP_OK(false, "peer %d is granted", device);
	TAP_IS(gm_pool_grant(pool, GM_PEERS + 1), CUDA_ERROR_NOT_SUPPORTED,
	       "one peer too many is refused");
	TAP_IS(gm_pool_grant(pool, GM_PEERS), CUDA_SUCCESS,
	       "a peer that is there already is granted");
	TAP_OK(fake_alloc(pool, GM_MIB).base && fake_valid(pool),
	       "the pool goes on after a refused peer");
	fake_end(pool, "too many");
}

int main(void)
{
	copies_overlap();
	during_growth();
	refused();
	during_give_back();
	during_the_end_of_a_loan();
	during_a_shift();
	during_a_move("a chunk that leaves", false);
	during_a_move("a chunk that returns", true);
	during_a_failed_move();
	after_a_move_refused();
	too_many();
	return tap_done();
}
