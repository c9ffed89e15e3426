/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The structures of the six Ouroboros policies, walked at rest: a queue holds the number of entries
 * that its access primitive counts, each page or chunk once; the number of queue chunks equals the
 * statistics, and drained ones are returned; empty chunks serve any size; footprints fall in the
 * order of the thesis.
 */
#include "tests/unit/heap_help.h"

enum { GRANULES = 24, LANES = 128, EACH = 40, ROUNDS = 3 };

struct work {
	struct fixture f;
	size_t size;
	void *address[LANES][EACH];
	uint64_t null;
	uint32_t owed;
	uint64_t at, skipped, found[2];
};

static void allocate(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (uint32_t i = 0; i < EACH; i++) {
		work->address[thread][i] = work->f.policy->malloc(&work->f.heap, work->size);
		if (!work->address[thread][i])
			test_count(&work->null);
		gm_simt_progress();
	}
}

static void release(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (uint32_t i = 0; i < EACH; i++) {
		work->f.policy->free(&work->f.heap, work->address[(thread * 7 + i) % LANES][i]);
		gm_simt_progress();
	}
}

static enum gm_ouro_kind kind_of(const struct gm_policy *policy)
{
	if (policy->name[5] == 's')
		return GM_OURO_S;
	return policy->name[6] == 'a' ? GM_OURO_VA : GM_OURO_VL;
}

static bool is_page(const struct gm_policy *policy)
{
	return policy->name[strlen(policy->name) - 1] == 'p';
}

/* Queue chunks that are linked or pointed to. */
static uint64_t count_queue_chunks(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
				   enum gm_ouro_kind kind)
{
	uint64_t n = 0;
	if (kind == GM_OURO_VA)
		for (uint32_t i = 0; i < queue->slots; i++)
			n += queue->slot[i] != 0;
	for (uint64_t link = queue->first; kind == GM_OURO_VL && link;
	     link = gm_ouro_vl_next(heap, queue, link))
		n++;
	return n;
}

struct tally {
	uint64_t entries, pages, wrong, queue_chunks, drained, promised;
};

/* Is the first queue chunk drained, though there is a next one? */
static bool is_left_behind(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
			   enum gm_ouro_kind kind)
{
	return kind == GM_OURO_VL && queue->first &&
	       gm_ouro_head(heap, (uint32_t)queue->first)->counts == GM_OURO_DRAINED &&
	       gm_ouro_vl_next(heap, queue, queue->first);
}

/* One entry: a page, or a chunk with free pages; `seen` has a bit a page of the heap. */
static void visit(struct work *work, const struct gm_ouro_queue *queue, uint64_t entry,
		  unsigned char *seen, struct tally *tally)
{
	bool page = is_page(work->f.policy);
	uint32_t chunk = (uint32_t)(page ? entry >> 9 : entry >> 4);
	struct gm_ouro_chunk *head = gm_ouro_head(&work->f.heap, chunk);
	uint64_t at = (uint64_t)chunk << 9 | (page ? entry & 511 : 0);
	if (chunk / GM_OURO_CHUNKS >= GRANULES || chunk % GM_OURO_CHUNKS < GM_OURO_HEADS ||
	    GM_OURO_Q(head->state) != queue->q + 1 || seen[at / 8] >> at % 8 & 1) {
		tally->wrong++;
		return;
	}
	seen[at / 8] |= (unsigned char)(1 << at % 8);
	tally->entries++;
	tally->pages += page ? 1 : (uint64_t)GM_OURO_COUNT(head->state);
	uint32_t bits = 0;
	for (unsigned w = 0; 32 * w < gm_ouro_pages(queue->q); w++)
		bits += gm_popc(head->mask[w]);
	if (!page &&
	    ((int32_t)bits != GM_OURO_COUNT(head->state) || !(head->state & GM_OURO_QUEUED)))
		tally->wrong++;
}

static struct tally walk(struct work *work)
{
	struct tally tally = {0};
	struct gm_heap *heap = &work->f.heap;
	enum gm_ouro_kind kind = kind_of(work->f.policy);
	unsigned char *seen = test_zeroed((size_t)GRANULES * GM_OURO_CHUNKS * 512 / 8);
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
		for (uint64_t at = queue->front; at < queue->back; at++) {
			uint32_t chunk;
			uint64_t *slot = gm_ouro_peek(heap, queue, kind, at, &chunk);
			if (!slot || *slot == 0)
				tally.wrong++;
			else if (*slot != GM_OURO_REMOVED)
				visit(work, queue, *slot, seen, &tally);
		}
		tally.drained += is_left_behind(heap, queue, kind);
		tally.queue_chunks += count_queue_chunks(heap, queue, kind);
		tally.promised += (uint64_t)GM_OURO_A(queue->sem.word);
		tally.wrong += GM_OURO_E(queue->sem.word) || (uint32_t)queue->parked;
	}
	free(seen);
	return tally;
}

static void check_walk(struct work *work, const char *when)
{
	const char *name = work->f.policy->name;
	struct tally tally = walk(work);
	struct gm_heap_stats stats = test_stats(&work->f);
	TAP_IS(tally.wrong, 0, "%s, %s: every entry is right, and there once", name, when);
	TAP_IS(tally.pages, tally.promised, "%s, %s: the queues have as many pages as promised",
	       name, when);
	TAP_IS(tally.queue_chunks, stats.queue_chunks, "%s, %s: the queue chunks are counted", name,
	       when);
	TAP_IS(tally.drained, 0, "%s, %s: no queue chunk is drained", name, when);
}

/* Bytes of the queues: the static part, and their part of the heap. */
static uint64_t exercise(struct work *work, const struct gm_policy *policy, uint32_t seed)
{
	bool queue_chunks = kind_of(policy) != GM_OURO_S;
	uint64_t live = 0;
	memset(work, 0, sizeof *work);
	test_open(&work->f, policy, GRANULES, GRANULES, seed);
	for (unsigned i = 0; i < ROUNDS; i++) {
		work->size = i == 1 ? 1000 : 60;
		TAP_OK(test_launch(&work->f, LANES / 32, LANES / 32, allocate, work),
		       "%s: lanes allocate to their end", policy->name);
		live = test_stats(&work->f).live_bytes;
		TAP_IS(live, (uint64_t)LANES * EACH * (i == 1 ? 1024 : 64),
		       "%s: all blocks are in use", policy->name);
		check_walk(work, "in use");
		TAP_OK(test_launch(&work->f, LANES / 32, LANES / 32, release, work),
		       "%s: lanes free to their end", policy->name);
		check_walk(work, "freed");
	}
	struct gm_heap_stats stats = test_stats(&work->f);
	TAP_IS(work->null, 0, "%s: no lane gets NULL", policy->name);
	TAP_IS(stats.live_bytes, 0, "%s: nothing is in use", policy->name);
	if (queue_chunks && is_page(policy))
		TAP_OK(stats.queue_recycled > 0, "%s: %lu queue chunks were drained", policy->name,
		       (unsigned long)stats.queue_recycled);
	TAP_IS(stats.chunks_recycled > 0, !is_page(policy), "%s: %lu chunks became any size's",
	       policy->name, (unsigned long)stats.chunks_recycled);
	test_close(&work->f);
	return policy->bytes(GRANULES) + stats.queue_chunks * GM_OURO_CHUNK;
}

/* A lane takes the entry of a chunk with a free page, as if it had unparked it. The lane then owes
 * the chunk the highest possible debt. */
static void owe(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	if (thread != 0)
		return;
	char *page = work->f.policy->malloc(heap, GM_OURO_CHUNK / 2);
	uint32_t chunk = (uint32_t)(((uintptr_t)page - heap->base) >> GM_OURO_CHUNK_SHIFT);
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[GM_OURO_QUEUES - 2];
	*(uint64_t *)(uintptr_t)head->place = GM_OURO_REMOVED;
	head->place = 0;
	if (work->owed & GM_OURO_SIGNAL)
		gm_add64(&queue->sem.word, 0 - gm_ouro_pages(queue->q) * GM_OURO_A1);
	gm_ouro_chunk_pay(heap, queue, kind_of(work->f.policy), chunk, work->owed);
}

static void check_owed(struct work *work, const struct gm_policy *policy, uint32_t seed,
		       uint32_t owed)
{
	memset(work, 0, sizeof *work);
	work->owed = owed;
	test_open(&work->f, policy, GRANULES, GRANULES, seed);
	TAP_OK(test_launch(&work->f, 1, 1, owe, work), "%s: debts are paid", policy->name);
	TAP_IS(walk(work).entries, 1, "%s: the chunk is queued again", policy->name);
	check_walk(work, "paid");
	test_close(&work->f);
}

/* A block of a whole chunk, which returns at once; and a queue with a removed second entry. */
static void alone(void *arg, uint32_t thread)
{
	struct work *work = arg;
	if (thread == 0)
		work->f.policy->free(&work->f.heap,
				     work->f.policy->malloc(&work->f.heap, GM_OURO_CHUNK));
}

static void leave_gap(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	enum gm_ouro_kind kind = kind_of(work->f.policy);
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[GM_OURO_QUEUES - 2];
	void *page[6];
	uint32_t chunk;
	if (thread != 0)
		return;
	for (unsigned i = 0; i < 6; i++)
		page[i] = work->f.policy->malloc(heap, GM_OURO_CHUNK / 2);
	for (unsigned i = 0; i < 6; i += 2)
		work->f.policy->free(heap, page[i]);
	work->at = queue->front + 1;
	*gm_ouro_peek(heap, queue, kind, work->at, &chunk) = GM_OURO_REMOVED;
	work->found[0] = gm_ouro_chunk_visit(heap, queue, kind, &work->at, 1, true);
	work->skipped = work->at - queue->front;
	work->found[1] = gm_ouro_chunk_visit(heap, queue, kind, &work->at, 1, true);
}

static void check_steps(struct work *work, const struct gm_policy *policy, uint32_t seed)
{
	const char *name = policy->name;
	const struct gm_ouro_queue *queue;
	memset(work, 0, sizeof *work);
	test_open(&work->f, policy, GRANULES, GRANULES, seed);
	queue = &gm_ouro_of(&work->f.heap)->queue[GM_OURO_QUEUES - 1];
	TAP_OK(test_launch(&work->f, 1, 1, alone, work), "%s: a block of a whole chunk", name);
	TAP_IS(queue->back, 0, "%s: a block of a whole chunk is never queued", name);
	TAP_IS(test_stats(&work->f).chunks_recycled, 1,
	       "%s: a block of a whole chunk returns its chunk", name);
	TAP_OK(test_launch(&work->f, 1, 1, leave_gap, work), "%s: an entry is removed", name);
	TAP_OK(!work->found[0] && work->skipped == 2,
	       "%s: a search continues behind the removed entry", name);
	TAP_IS(work->found[1] & GM_OURO_PAGES, 1,
	       "%s: a search finds a page behind the removed entry", name);
	test_close(&work->f);
}

int main(void)
{
	static struct work work;
	uint64_t bytes[2][3];
	uint32_t seed = test_seed();
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		const struct gm_policy *policy = &gm_policies[p];
		if (strncmp(policy->name, "ouro-", 5) == 0)
			bytes[is_page(policy)][kind_of(policy)] = exercise(&work, policy, seed);
		if (strncmp(policy->name, "ouro-", 5) != 0 || is_page(policy))
			continue;
		check_steps(&work, policy, seed);
		check_owed(&work, policy, seed, GM_OURO_END | GM_OURO_PLACE);
		check_owed(&work, policy, seed, GM_OURO_PLACE | GM_OURO_SIGNAL | GM_OURO_ADVANCE);
	}
	for (unsigned page = 0; page < 2; page++)
		TAP_OK(bytes[page][GM_OURO_S] > bytes[page][GM_OURO_VA] &&
			       bytes[page][GM_OURO_VA] > bytes[page][GM_OURO_VL],
		       "queues of %s: S takes %lu bytes, VA %lu, VL %lu", page ? "pages" : "chunks",
		       (unsigned long)bytes[page][0], (unsigned long)bytes[page][1],
		       (unsigned long)bytes[page][2]);
	return tap_done();
}
