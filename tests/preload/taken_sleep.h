/* SPDX-License-Identifier: BSD-3-Clause */
/* A part of taken.c: the device's free memory, and heaps that sleep with their process. */
/* The free memory by the hook's answer, or by the driver's. */
static size_t free_now(bool driver)
{
	size_t have, total;
	CUresult (*ask)(size_t *, size_t *) = cuMemGetInfo_v2;
	if (driver)
		ask = (CUresult(*)(size_t *, size_t *))gm_sim_symbol(NULL, "cuMemGetInfo_v2");
	MUST(ask(&have, &total));
	return have;
}

static bool comes_back(size_t want, bool driver)
{
	for (unsigned i = 0; i < TRIES && free_now(driver) < want; i++)
		usleep(1000);
	return free_now(driver) >= want;
}

enum { SLEEPERS = 24, SLEEPS = 10 };

static size_t sleeper_size(unsigned i)
{
	return i % 3 * (size_t)700000 + 1000 + i;
}

/* Put to sleep by the tool $TOOL. Returns true if the driver has the heap's memory. */
static bool self_sleep(size_t heap)
{
	char command[4200];
	size_t had = free_now(true);
	snprintf(command, sizeof command, "\"$TOOL\" sleep %d >/dev/null", (int)getpid());
	bool asleep = system(command) == 0 && free_now(true) >= had + heap;
	usleep(3000); /* time for trims that must not happen */
	return asleep;
}

static size_t sleeper_wrong(CUmodule module, void *block, size_t size)
{
	size_t wrong = 0, *out = &wrong;
	launch(module, "wrong", (void *[]){&out, &block, &size});
	return wrong;
}

/* Blocks of kernels keep addresses and bytes across sleeps, among allocations and frees; then the
 * context ends asleep, and its heap with it. */
static void sleeps(void)
{
	CUcontext other = create(0), context = create(0);
	CUmodule module = load();
	void *blocks[SLEEPERS];
	unsigned asleep = 0, own = 0;
	size_t wrong = 0, heap = 0;
	for (unsigned i = 0; i < SLEEPERS; i++) {
		blocks[i] = get(module, sleeper_size(i));
		own += is_own(blocks[i]);
		heap += sleeper_size(i);
	}
	for (unsigned n = 0; n < SLEEPS; n++) {
		asleep += self_sleep(heap);
		for (unsigned i = 0; i < SLEEPERS; i++)
			wrong += sleeper_wrong(module, blocks[i], sleeper_size(i));
		for (unsigned i = n % 3; i < SLEEPERS; i += 3) {
			drop(module, blocks[i]);
			blocks[i] = get(module, sleeper_size(i));
		}
	}
	printf("%u of its own, asleep %u times, %zu wrong\n", own, asleep, wrong);
	asleep = self_sleep(heap);
	size_t had = free_now(true);
	MUST(cuCtxDestroy(context));
	MUST(cuCtxSetCurrent(other));
	printf("%s, %s\n", asleep ? "ends asleep" : "ends awake",
	       free_now(true) >= had ? "and stays so" : "and is awake");
	printf("%s\n", is_own(get(load(), 100)) ? "goes on" : "is gone");
	MUST(cuCtxDestroy(other));
}
