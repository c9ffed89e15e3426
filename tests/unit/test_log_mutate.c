/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On any damaged log the reader neither crashes nor stays silent. A failing seed is printed; by
 * hand, `test_log_mutate FROM TO` tries other seeds.
 */
#include <sys/mman.h>

#include "../mutate.h"
#include "log_help.h"

enum { SEEDS = 2000, EACH = 500 };

/* A few records of each kind, written as in test_log_read; `arg`: not closed. */
static int write_some(void *arg)
{
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	for (unsigned d = 0; d < 2; d++) {
		help_map(d, 4 * GM_MIB);
		for (unsigned i = 0; i < 100; i++) {
			help_allocate(d, 100 + i);
			if (i % 3 == 0)
				help_free(d, i % help_of[d].n);
			if (i % 10 == 0)
				help_sample(d, 0, GM_RECORD_SAMPLE);
		}
		help_sample(d, 0, GM_RECORD_OUT_OF_MEMORY);
		const struct gm_record held = {.address = 3,
					       .size = 3 * GM_MIB,
					       .held = GM_MIB,
					       .id = 1,
					       .stack = d,
					       .device = (uint8_t)d,
					       .kind = GM_RECORD_HELD};
		gm_log_put(&held);
		const struct gm_record heap = {.flags = GM_RECORD_LAST,
					       .device = (uint8_t)d,
					       .kind = GM_RECORD_HEAP_SAMPLE};
		gm_log_put_heap(&heap, &(struct gm_heap_sample){.heap = d});
		const struct gm_frame frames[5] = {{1, 0, 0x1234}, {GM_FRAME_PYTHON, 7, 1}};
		const struct gm_record stack = {
			.size = 5, .held = GM_STACK_C_ONLY, .id = d + 1, .kind = GM_RECORD_STACK};
		const struct gm_record object = {.address = 1,
						 .size = 2,
						 .held = 20,
						 .id = d + 1,
						 .string = 1,
						 .kind = GM_RECORD_OBJECT};
		gm_log_put_body(&stack, frames, sizeof frames);
		gm_log_put_body(&object, frames, 20);
		gm_log_string(d ? "a string of more than 63 bytes, which takes two slots, not one"
				: "\033]0;a title\007");
	}
	if (!arg)
		gm_log_close();
	return 0;
}

static char *slurp(const char *path, size_t *n)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	char *bytes = calloc(1, MUTATE_ROOM);
	ssize_t got = -1;
	if (fd >= 0 && bytes && !fstat(fd, &st))
		got = read(fd, bytes, MUTATE_ROOM);
	if (got <= 0)
		exit(99);
	/* In a log that was not closed, the rest of a segment is empty. */
	while (got > (ssize_t)GM_SLOT_SIZE && !bytes[got - 1])
		got--;
	*n = (size_t)gm_round_up((uint64_t)got, GM_SLOT_SIZE);
	close(fd);
	return bytes;
}

/* Sum over the contents of the stack and the object with this number. */
static size_t things_sum(const struct gm_log_file *file, uint32_t number)
{
	const struct gm_log_stack *stack = gm_log_read_stack(file, number);
	const struct gm_log_object *object = gm_log_read_object(file, number);
	size_t sum = 0;
	for (uint32_t i = 0; stack && i < stack->n; i++)
		sum += stack->frames[i].place + stack->frames[i].line;
	for (uint32_t i = 0; object && i < object->id_length; i++)
		sum += object->id[i];
	return sum;
}

/* An inconsistency in the reader's results for the file; NULL: none. */
static const char *harm(const char *path)
{
	struct gm_log_file *file;
	struct gm_log_entry entry;
	char why[256] = "";
	uint64_t entries[2] = {0}, last = 0;
	const char *wrong = NULL;
	if (!gm_log_read_open(path, &file, why, sizeof why))
		return *why ? NULL : "refused without a reason";
	const struct gm_log_about *about = gm_log_read_about(file);
	volatile size_t sum = strlen(about->host) + strlen(about->program) + strlen(about->job) +
			      strlen(about->command) + strlen(about->mode);
	for (unsigned i = 0; i < about->n_devices; i++)
		sum += strlen(about->devices[i].name);
	for (unsigned i = 0; i < about->n_hooks; i++)
		sum += strlen(about->hooks[i]);
	for (unsigned i = 0; i < about->n_knobs; i++)
		sum += strlen(about->knobs[i]);
	if (about->end < about->start)
		wrong = "it ends before it starts";
	for (unsigned pass = 0; pass < 2; pass++, last = 0) {
		gm_log_read_rewind(file);
		for (; gm_log_read_next(file, &entry); entries[pass]++) {
			const struct gm_record *r = &entry.record;
			const char *text = gm_log_read_string(file, r->string);
			bool samples =
				r->kind == GM_RECORD_SAMPLE || r->kind == GM_RECORD_OUT_OF_MEMORY;
			sum += text ? strlen(text) : 0;
			if (r->time < last)
				wrong = "not in order of time";
			if (samples != (entry.sample != NULL))
				wrong = "a sample too many or too few";
			if ((r->kind == GM_RECORD_HEAP_SAMPLE) != (entry.heap != NULL))
				wrong = "figures of a heap too many or too few";
			last = r->time;
		}
	}
	if (entries[0] != entries[1] || entries[0] > about->records)
		wrong = "records come and go";
	if (!gm_log_read_check(file, why, sizeof why) && !*why)
		wrong = "contradicts itself without a reason";
	sum += things_sum(file, 1) + things_sum(file, 2);
	(void)sum; /* clang: set but not used */
	gm_log_read_close(file);
	return wrong;
}

struct job {
	const char *good;
	size_t n;
	uint64_t from, to;
	volatile uint64_t *at; /* the current seed, shared with the parent */
};

static int try_seeds(void *arg)
{
	const struct job *job = arg;
	struct mutate m = {.bytes = malloc(MUTATE_ROOM)};
	for (uint64_t seed = job->from; seed < job->to; seed++) {
		*job->at = seed;
		mutate(&m, job->good, job->n, seed);
		int fd = open("bad", O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, m.bytes, m.n) != (ssize_t)m.n || close(fd))
			return 98;
		const char *wrong = harm("bad");
		if (wrong) {
			printf("# %s\n", wrong);
			fflush(stdout);
			return 1;
		}
	}
	free(m.bytes);
	return 0;
}

static void test_seeds(const char *path, uint64_t from, uint64_t to)
{
	struct job job = {.at = mmap(NULL, sizeof *job.at, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
	char *good = slurp(path, &job.n);
	job.good = good;
	TAP_OK(!harm(path), "%s, undamaged, of %zu bytes", path, job.n);
	for (job.from = from; job.from < to; job.from = job.to) {
		job.to = job.from + EACH < to ? job.from + EACH : to;
		int status = help_child("", try_seeds, &job);
		if (!TAP_IS(status, 0, "%s damaged by seeds %ju to %ju", path, (uintmax_t)job.from,
			    (uintmax_t)job.to - 1))
			printf("# seed %ju\n", (uintmax_t)*job.at);
	}
	free(good);
	munmap((void *)job.at, sizeof *job.at);
}

int main(int argc, char **argv)
{
	uint64_t from = argc > 2 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t to = argc > 2 ? strtoull(argv[2], NULL, 10) : from + SEEDS;
	static int killed = 1;
	help_begin();
	TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_LOG_NAME=events", write_some, NULL), 0,
	       "a log of events is written");
	TAP_IS(help_child("GPUMEM_LOG=small GPUMEM_LOG_NAME=small", write_some, NULL), 0,
	       "a small log is written");
	TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_LOG_NAME=killed", write_some, &killed), 0,
	       "a log that is not closed is written");
	test_seeds("events", from, to);
	test_seeds("small", from, to);
	test_seeds("killed", from, to);
	return tap_done();
}
