/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that libgpumem-core keeps for streams: cut for smaller requests, merged again, bounded.
 * Prints results, never an address: alone and preloaded it must print the same. Usage: cuts CASE...
 */
#include "../preload/program.h"

#include "../preload/steer.h"
#include "api/gpumem.h"
#include "holds.h"

#define BIG (64 * MIB)

static CUdeviceptr take(size_t size, CUstream stream)
{
	return (CUdeviceptr)gpumem_cupy_malloc(stream, size, 0);
}

static void give(CUdeviceptr block, CUstream stream)
{
	gpumem_cupy_free(stream, (void *)block, 0);
}

static void yes(const char *what, bool is)
{
	printf("%s: %s\n", what, is ? "yes" : "no");
}

static struct gpumem_stats stats(void)
{
	struct gpumem_stats s = {.size = sizeof s};
	MUST((CUresult)gpumem_stats(0, &s));
	return s;
}

static CUstream stream_new(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static unsigned waits(void)
{
	return gm_sim_calls("cuEventSynchronize") + gm_sim_calls("cuCtxSynchronize");
}

static void cut(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUdeviceptr block = take(BIG, s), part[4];
	gm_sim_hold(s);
	give(block, s);
	CUdeviceptr other = take(BIG / 4, t);
	yes("another stream gets a part before the first is through",
	    other >= block && other < block + BIG);
	CUdeviceptr little = take(2 * MIB, s);
	yes("cut for a request of a thirtieth", little >= block && little < block + BIG);
	for (int i = 0; i < 4; i++) {
		part[i] = take(BIG / 4, s);
		printf("part %d of the block: %s\n", i,
		       part[i] == block + i * BIG / 4 ? "yes" : "no");
	}
	printf("%llu blocks, %llu bytes kept\n", (unsigned long long)stats().live_blocks,
	       (unsigned long long)stats().kept);
	give(part[1], s);
	give(part[1], s);
	give(part[2], s);
	printf("%llu bytes kept\n", (unsigned long long)stats().kept);
	yes("two neighbours are one part", take(BIG / 2, s) == part[1]);
	give(part[1], s);
	give(part[3], s);
	give(part[0], s);
	yes("and all the block again", take(BIG, s) == block);
	gm_sim_release(s, -1u);
	give(block, s);
	give(other, t);
	give(little, s);
	gpumem_trim();
	printf("%llu bytes are left\n", (unsigned long long)stats().mapped);
}

/* Neighbours that two streams have freed are merged only after both have completed. */
static void cut_apart(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUdeviceptr block = take(BIG, s), part[4];
	give(block, s);
	for (int i = 0; i < 4; i++)
		part[i] = take(BIG / 4, s);
	gm_sim_hold(s);
	gm_sim_hold(t);
	give(part[1], t);
	give(part[0], s);
	CUdeviceptr half = take(BIG / 2, s);
	yes("both are one for the first stream", half == part[0]);
	yes("its own part: at once", take(BIG / 4, s) == part[0]);
	give(part[0], s);
	gm_sim_release(s, -1u);
	gm_sim_release(t, -1u);
	give(half, s);
	give(part[2], s);
	give(part[3], t);
	gpumem_trim();
	printf("%llu bytes are left\n", (unsigned long long)stats().mapped);
}

/* The block stays while a part of it is in use. */
static void cut_kept(void)
{
	CUstream s = stream_new();
	CUdeviceptr block = take(BIG, s);
	give(block, s);
	CUdeviceptr part = take(BIG / 4, s);
	MUST(cuMemsetD8(part, 0x22, BIG / 4));
	gpumem_trim();
	yes("a part in use is there after trimming", part == block && holds(part, 0x22));
	give(part, s);
	gpumem_trim();
	printf("%llu blocks, %llu bytes are left\n", (unsigned long long)stats().live_blocks,
	       (unsigned long long)stats().mapped);
}

/* Run with SIM_MEMORY=8G. */
static void bound(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUdeviceptr block[8], live;
	for (int i = 0; i < 8; i++)
		block[i] = take(BIG + (size_t)i * MIB, s);
	gm_sim_hold(s);
	unsigned before = waits();
	for (int i = 0; i < 8; i++)
		give(block[i], s);
	yes("a free waits", waits() != before);
	yes("all is kept while the stream is busy", stats().kept > 8 * (uint64_t)BIG);
	gm_sim_release(s, -1u);
	live = take(2048 * MIB, t);
	yes("128 MiB are kept at most then", stats().kept <= 128 * MIB);
	for (int i = 0; i < 8; i++)
		block[i] = take(BIG + (size_t)i * MIB, s);
	for (int i = 0; i < 8; i++)
		give(block[i], s);
	yes("an eighth of what is in use", stats().kept > 128 * MIB && stats().kept <= 256 * MIB);
	give(live, t);
}

#define LIVE 24

struct live {
	CUdeviceptr at;
	size_t size;
	CUstream stream;
};

static bool overlaps(const struct live *live, int n)
{
	for (int i = 0; i < LIVE; i++)
		if (i != n && live[i].at && live[i].at < live[n].at + live[n].size &&
		    live[n].at < live[i].at + live[i].size)
			return true;
	return false;
}

/* Any sizes, and streams that are held now and then. */
static void soak(void)
{
	struct live live[LIVE] = {0};
	CUstream stream[3];
	unsigned overlapping = 0, random = 1, held = 3;
	for (int i = 0; i < 3; i++)
		stream[i] = stream_new();
	for (int turn = 0; turn < 6000; turn++) {
		random = random * 1103515245 + 12345;
		unsigned draw = random >> 8;
		struct live *l = &live[draw % LIVE];
		if (turn % 100 == 0) {
			if (held < 3)
				gm_sim_release(stream[held], -1u);
			held = draw / 64 % 4;
			if (held < 3)
				gm_sim_hold(stream[held]);
		}
		if (l->at) {
			give(l->at, l->stream);
			l->at = 0;
			continue;
		}
		l->stream = stream[draw / 32 % 3];
		l->size = ((size_t)64 << 10 << draw / 128 % 10) + draw % 5000;
		l->at = take(l->size, l->stream);
		overlapping += l->at && overlaps(live, (int)(l - live));
	}
	if (held < 3)
		gm_sim_release(stream[held], -1u);
	for (int i = 0; i < LIVE; i++)
		give(live[i].at, live[i].stream);
	gpumem_trim();
	printf("%u blocks overlap; %llu bytes are left\n", overlapping,
	       (unsigned long long)stats().mapped);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"cut", cut},	  {"cut_kept", cut_kept}, {"cut_apart", cut_apart},
		{"bound", bound}, {"soak", soak},
	};
	MUST(cuInit(0));
	use_device(0);
	for (int i = 1; i < argc; i++)
		for (size_t j = 0; j < sizeof cases / sizeof *cases; j++)
			if (strcmp(argv[i], cases[j].name) == 0)
				cases[j].run();
	return 0;
}
