/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of arraylist, its memory on the device and the CPU's result, and a line for each run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/program.h"
#include "programs/list/list.h"

struct options {
	struct pr_list way;
	uint64_t items, rounds, most, group, reads, heap;
};

struct result {
	struct list_work after;
	double total_ms, read_ms, finish_ms;
};

struct session {
	struct options options;
	struct list_work work; /* as it is before a run */
	struct list_work *on_device;
	uint64_t found, checksum; /* on the CPU */
};

static const char *const way_names[LIST_WAYS] = {"fixed", "bump",  "malloc",
						 "item",  "group", "group-bump"};

static struct session session;

static const struct pr_option options[] = {
	{"way", 'w', PR_NAMES, "LIST", "all", &session.options.way, 0, LIST_WAYS, way_names,
	 "fixed, bump, malloc, item, group, group-bump"},
	{"items", 'n', PR_NUMBER, "N", "16384", &session.options.items, 1, 16000000, NULL,
	 "work-items, 1 to 16M"},
	{"rounds", 0, PR_NUMBER, "N", "10", &session.options.rounds, 1, 1000, NULL,
	 "requests of each"},
	{"most", 0, PR_NUMBER, "N", "2", &session.options.most, 1, 1024, NULL,
	 "objects of 4 bytes of a request, 1 to 1024"},
	{"group", 0, PR_NUMBER, "N", "256", &session.options.group, 1, LIST_GROUP_MOST, NULL,
	 "items of a group, 1 to 1024"},
	{"reads", 0, PR_NUMBER, "N", "65536", &session.options.reads, 1, 1u << 31, NULL,
	 "most positions that are read"},
	PR_HEAP(&session.options.heap, "256Mi"),
	{0}};

static void check(void)
{
	const struct options *o = &session.options;
	if (o->items * o->rounds * o->most > UINT64_C(1) << 31)
		pr_fail(2, "--items, --rounds and --most: their product is at most 2Gi");
}

static void reference(struct session *s)
{
	const struct options *o = &s->options;
	for (uint32_t i = 0; i < o->items; i++)
		for (uint32_t round = 0; round < o->rounds; round++) {
			uint32_t count = list_request(i, round, (uint32_t)o->most);
			for (uint32_t k = 0; k < count; k++)
				s->checksum += list_digest(list_value(i, round, k));
			s->found += count;
		}
}

static void session_open(struct session *s)
{
	struct list_work *w = &s->work;
	const struct options *o = &s->options;
	uint64_t requests = o->items * o->rounds;
	w->items = (uint32_t)o->items;
	w->rounds = (uint32_t)o->rounds;
	w->most = (uint32_t)o->most;
	if (pr_asked.verify)
		reference(s);
	w->kept = pr_take(requests * sizeof *w->kept);
	/* The most objects of all; of the list's blocks also headers, and as many bytes as aligned.
	 */
	uint64_t blocks = (o->items + o->group - 1) / o->group * o->rounds;
	w->space_bytes = requests * o->most * sizeof(uint32_t) +
			 blocks * (sizeof(struct list_block) + sizeof(uint32_t));
	w->space = pr_take(w->space_bytes);
	s->on_device = pr_take(sizeof *w);
}

static void session_close(struct session *s)
{
	PR_MUST(cudaFree(s->work.kept));
	PR_MUST(cudaFree(s->work.space));
	PR_MUST(cudaFree(s->on_device));
}

static void run(struct session *s, enum list_way way, struct result *out)
{
	const struct options *o = &s->options;
	struct list_work *after = &out->after;
	PR_MUST(cudaMemcpy(s->on_device, &s->work, sizeof s->work, cudaMemcpyHostToDevice));
	double begin = pr_now_ms();
	PR_MUST(list_kernel_grow(s->on_device, s->work.items, (uint32_t)o->group, way));
	PR_MUST(cudaDeviceSynchronize());
	out->total_ms = pr_now_ms() - begin;
	PR_MUST(cudaMemcpy(after, s->on_device, sizeof *after, cudaMemcpyDeviceToHost));
	if (after->lacking)
		pr_fail(1, "%llu blocks had no memory: natively a larger --heap is needed",
			after->lacking);
	/* Positions, or requests where there is no list. */
	uint64_t count = after->list.count ? after->list.count : o->items * o->rounds;
	uint64_t stride = (count + o->reads - 1) / o->reads;
	uint32_t reads = (uint32_t)((count + stride - 1) / stride);
	begin = pr_now_ms();
	PR_MUST(list_kernel_read(s->on_device, reads, (uint32_t)stride, way));
	PR_MUST(cudaDeviceSynchronize());
	out->read_ms = pr_now_ms() - begin;
	begin = pr_now_ms();
	PR_MUST(list_kernel_clear(s->on_device, s->work.items, (uint32_t)stride, way));
	PR_MUST(cudaDeviceSynchronize());
	out->finish_ms = pr_now_ms() - begin;
	PR_MUST(cudaMemcpy(after, s->on_device, sizeof *after, cudaMemcpyDeviceToHost));
	if (way == LIST_FIXED)
		after->bytes = o->items * o->rounds * o->most * sizeof(uint32_t);
}

/* What differs; NULL: nothing. */
static const char *difference(const struct session *s, const struct list_work *a)
{
	if (a->found != s->found || a->checksum != s->checksum)
		return "the objects differ from the CPU's";
	if (a->read_found != a->some_found || a->read_checksum != a->some_checksum)
		return "what positions read differs from the objects that are there";
	if (a->list.count && a->list.count != a->found)
		return "the list has not as many objects as positions";
	return NULL;
}

static unsigned report(const struct session *s, enum list_way way, const struct result *r)
{
	const char *wrong = difference(s, &r->after);
	printf("arraylist way=%s items=%" PRIu64 " objects=%llu checksum=%016llx", way_names[way],
	       s->options.items, r->after.found, r->after.checksum);
	pr_line_verified(!wrong);
	if (!pr_asked.untimed)
		printf(" allocated=%llu held_bytes=%llu reads=%llu total_ms=%.6g read_ms=%.6g "
		       "finish_ms=%.6g",
		       r->after.allocated, r->after.bytes, r->after.read_found, r->total_ms,
		       r->read_ms, r->finish_ms);
	return pr_line_end(!wrong, "%s: %s", way_names[way], wrong);
}

static unsigned way_run(void *arg, uint64_t way)
{
	struct session *s = arg;
	struct result result = {0};
	run(s, (enum list_way)way, &result);
	return report(s, (enum list_way)way, &result);
}

static unsigned ways_run(void)
{
	PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, session.options.heap));
	session_open(&session);
	unsigned wrong = pr_each(&session.options.way, way_run, &session);
	session_close(&session);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "arraylist",
	.about = "a list of equal objects that work-items let grow.",
	.options = options,
	.check = check,
	.run = ways_run,
};
