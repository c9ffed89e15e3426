/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded requests through the pool, with the default configuration, on an accounting driver
 * without memory. The training step must use the memory it maps. The packing problems of
 * MiniMalloc, for which a perfect packing is known to exist, must be solved with at most a
 * twentieth more memory. The files are in the folder that GPUMEM_TEST_DATA names.
 */
#include "base/array.h"
#include "pool_fake.h"

#define DEVICE (141 * GM_GIB)
#define UNIT (64 * GM_KIB) /* one unit of a MiniMalloc size */
#define LINE 256

/* A block, made at `from` and freed at `to`; at equal times frees come first. */
struct life {
	uint64_t from, to, size;
	CUdeviceptr base;
};

struct event {
	uint64_t time;
	bool frees;
	size_t life;
};

struct trace {
	GM_ARRAY(struct life) lives;
	GM_ARRAY(struct event) events;
	uint64_t peak; /* most live bytes at any time */
};

static int in_order(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->frees != y->frees)
		return x->frees ? -1 : 1;
	return x->life < y->life ? -1 : x->life > y->life;
}

/* Build the ordered requests from the lives; false: the trace is empty. */
static bool order(struct trace *trace)
{
	uint64_t live = 0;
	for (size_t i = 0; i < trace->lives.n; i++) {
		const struct life *life = &trace->lives.at[i];
		struct event made = {life->from, false, i}, freed = {life->to, true, i};
		if (!gm_array_push(&trace->events, made) ||
		    (life->to != UINT64_MAX && !gm_array_push(&trace->events, freed)))
			return false;
	}
	if (!trace->events.n)
		return false;
	qsort(trace->events.at, trace->events.n, sizeof *trace->events.at, in_order);
	for (size_t i = 0; i < trace->events.n; i++) {
		const struct event *event = &trace->events.at[i];
		live += event->frees ? -trace->lives.at[event->life].size
				     : trace->lives.at[event->life].size;
		trace->peak = live > trace->peak ? live : trace->peak;
	}
	return true;
}

static void forget(struct trace *trace)
{
	gm_array_free(&trace->lives);
	gm_array_free(&trace->events);
}

/* id,lower,upper,size */
static bool read_minimalloc(const char *path, struct trace *trace)
{
	char line[LINE];
	FILE *file = fopen(path, "r");
	bool good = file && fgets(line, sizeof line, file);
	while (good && fgets(line, sizeof line, file)) {
		struct life life = {0};
		good = sscanf(line, "%*u,%" SCNu64 ",%" SCNu64 ",%" SCNu64, &life.from, &life.to,
			      &life.size) == 3;
		life.size *= UNIT;
		good = good && gm_array_push(&trace->lives, life);
	}
	if (file)
		fclose(file);
	return good && order(trace);
}

/* The life that began last at `address`, an address in the trace. */
static struct life *find(struct trace *trace, uint64_t address)
{
	for (size_t i = trace->lives.n; i-- > 0;)
		if (trace->lives.at[i].base == address)
			return &trace->lives.at[i];
	return NULL;
}

/* Format: Thread,Time,Action,Pointer,Size,Stream; the line number serves as the time. */
static bool read_rmm(const char *path, struct trace *trace)
{
	char line[LINE], command[LINE + 32];
	snprintf(command, sizeof command, "gzip -dc '%s'", path);
	FILE *file = popen(command, "r");
	bool good = file && fgets(line, sizeof line, file);
	for (uint64_t at = 1; good && fgets(line, sizeof line, file); at++) {
		char action[16] = "";
		struct life life = {.from = at, .to = UINT64_MAX}, *old;
		uint64_t address;
		good = sscanf(line, "%*u,%*[^,],%15[^,],%" SCNx64 ",%" SCNu64, action, &address,
			      &life.size) == 3;
		old = good ? find(trace, address) : NULL;
		if (strcmp(action, "free") == 0 && old)
			old->to = at, old->base = 0;
		life.base = address;
		if (strcmp(action, "allocate") == 0)
			good = gm_array_push(&trace->lives, life);
	}
	if (file && pclose(file) != 0)
		good = false;
	return good && order(trace);
}

/* True: every request was served. */
static bool play(struct gm_pool *pool, struct trace *trace)
{
	for (size_t i = 0; i < trace->events.n; i++) {
		const struct event *event = &trace->events.at[i];
		struct life *life = &trace->lives.at[event->life];
		if (event->frees) {
			gm_pool_free(pool, life->base, NULL, NULL);
			continue;
		}
		life->base = fake_alloc(pool, life->size).base;
		if (life->base)
			continue;
		struct gm_pool_stats s = fake_stats(pool);
		printf("# event %zu of %zu: %" PRIu64 " MiB refused; mapped %" PRIu64
		       ", idle %" PRIu64 ", unreclaimable %" PRIu64 "\n",
		       i, trace->events.n, life->size / GM_MIB, s.mapped / GM_MIB, s.idle / GM_MIB,
		       s.unreclaimable / GM_MIB);
		return false;
	}
	return true;
}

static void tell(const struct gm_pool *pool, const struct trace *trace)
{
	struct gm_pool_stats s = fake_stats(pool);
	printf("# peak %" PRIu64 " MiB of %" PRIu64 " mapped (%.4f); %u handles created, %u "
	       "mapped, %u released, %zu requests\n",
	       trace->peak / GM_MIB, s.mapped_peak / GM_MIB,
	       (double)trace->peak / (double)s.mapped_peak, fake.calls[FAKE_CREATE],
	       fake.calls[FAKE_MAP], fake.calls[FAKE_RELEASE], trace->lives.n);
}

static void training(const char *data)
{
	char path[LINE];
	struct trace trace = {0};
	snprintf(path, sizeof path, "%s/traces/training_step.csv.gz", data);
	if (!TAP_OK(read_rmm(path, &trace), "the trace %s is read", path))
		return;
	struct gm_pool *pool = fake_pool(DEVICE, UINT64_MAX);
	TAP_OK(play(pool, &trace), "training step: every request is served");
	TAP_OK((double)trace.peak >= 0.95 * (double)fake_stats(pool).mapped_peak,
	       "the program requested 95%% of the mapped peak or more");
	TAP_OK(fake_valid(pool), "the pool is valid");
	tell(pool, &trace);
	fake_end(pool, "training step");
	forget(&trace);
}

static void minimalloc(const char *data, char letter)
{
	char path[LINE];
	struct trace trace = {0};
	snprintf(path, sizeof path, "%s/minimalloc/%c.1048576.csv", data, letter);
	if (!TAP_OK(read_minimalloc(path, &trace), "the trace %s is read", path))
		return;
	struct gm_pool *pool = fake_pool(DEVICE, trace.peak / 100 * 105);
	TAP_OK(play(pool, &trace), "%c: every request is served a twentieth above the optimum",
	       letter);
	TAP_OK(fake_valid(pool), "the pool is valid");
	tell(pool, &trace);
	fake_end(pool, "MiniMalloc");
	forget(&trace);
}

int main(void)
{
	const char *data = getenv("GPUMEM_TEST_DATA");
	if (!data)
		TAP_SKIP_ALL("GPUMEM_TEST_DATA is not set");
	training(data);
	for (char letter = 'A'; letter <= 'K'; letter++)
		minimalloc(data, letter);
	return tap_done();
}
