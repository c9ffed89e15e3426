/* SPDX-License-Identifier: BSD-3-Clause */
/* Stacks and objects of a log that is held in memory, and of a longer one that is read in
 * passes. */
#include "log/load.h"
#include "log_help.h"

enum { DEEP = GM_FRAMES_MOST, PAIRS = 700000 /* more than GM_LOAD_HELD segments hold */ };

static struct gm_frame frame_of(unsigned i)
{
	return (struct gm_frame){.object = i % 2 ? GM_FRAME_PYTHON : 1, .line = i, .place = i * 7};
}

static void put_stack(uint32_t number, unsigned n)
{
	struct gm_frame frames[DEEP + 1];
	struct gm_record record = {
		.size = n, .held = GM_STACK_CUT, .id = number, .kind = GM_RECORD_STACK};
	for (unsigned i = 0; i < n; i++)
		frames[i] = frame_of(i);
	gm_log_put_body(&record, frames, n * sizeof *frames);
}

static void put_object(uint32_t number, const char *path, unsigned n)
{
	uint8_t id[64];
	struct gm_record record = {.address = 0x1000,
				   .size = 0x2000,
				   .held = n,
				   .id = number,
				   .string = gm_log_string(path),
				   .kind = GM_RECORD_OBJECT};
	memset(id, 0xab, sizeof id);
	gm_log_put_body(&record, id, n);
}

static int write_stacks(void *arg)
{
	const unsigned *pairs = arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	put_object(1, "/lib/one.so", 20);
	put_object(2, "/lib/two.so", GM_BUILD_ID_MOST);
	put_stack(3, 0); /* numbers may be in any order */
	put_stack(1, 1);
	put_stack(2, DEEP);
	help_map(0, 64 * GM_MIB);
	for (unsigned i = 0; i < *pairs; i++) {
		help_allocate(0, 512);
		help_free(0, 0);
	}
	help_allocate(0, 1000);
	help_sample(0, 0, GM_RECORD_SAMPLE);
	put_stack(2, DEEP); /* written again, as for another segment */
	put_object(1, "/lib/one.so", 20);
	gm_log_close();
	return 0;
}

static void check_stack(const struct gm_log_file *file, uint32_t number, unsigned n)
{
	const struct gm_log_stack *stack = gm_log_read_stack(file, number);
	bool same = stack && stack->n == n && stack->flags == GM_STACK_CUT;
	for (unsigned i = 0; same && i < n; i++) {
		struct gm_frame frame = frame_of(i);
		same = !memcmp(&stack->frames[i], &frame, sizeof frame);
	}
	TAP_OK(same, "a stack of %u frames is read as it was written", n);
}

static void check_things(const struct gm_log_file *file)
{
	const struct gm_log_object *object = gm_log_read_object(file, 2);
	check_stack(file, 1, 1);
	check_stack(file, 2, DEEP);
	check_stack(file, 3, 0);
	TAP_OK(!gm_log_read_stack(file, 4) && !gm_log_read_stack(file, 0),
	       "other stacks do not exist");
	TAP_OK(object && object->address == 0x1000 && object->size == 0x2000 &&
		       object->id_length == GM_BUILD_ID_MOST && object->id[31] == 0xab,
	       "an object is read as it was written");
	TAP_STR(object ? gm_log_read_string(file, object->path) : "", "/lib/two.so",
		"an object has its path");
	TAP_OK(!gm_log_read_object(file, 3), "a third there is not");
}

struct sums {
	uint64_t n, ids, samples, segments;
};

static struct sums sums_of(struct gm_log_file *file)
{
	struct gm_log_entry entry;
	struct sums sums = {0};
	while (gm_log_read_next(file, &entry)) {
		sums.n++;
		sums.ids += entry.record.id * (entry.record.kind + 1u);
		sums.samples += entry.sample ? entry.sample->mapped : 0;
		if (entry.segment + (uint64_t)1 > sums.segments)
			sums.segments = entry.segment + (uint64_t)1;
	}
	return sums;
}

static void test_things(unsigned pairs, bool passed)
{
	unlink("log");
	TAP_IS(help_child("GPUMEM_LOG=events", write_stacks, &pairs), 0,
	       "%u pairs of blocks and stacks are written", pairs);
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	check_things(file);
	TAP_OK(help_check(file), "the log is consistent");
	const struct sums first = sums_of(file);
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	TAP_OK(gm_log_read_next(file, &entry), "a pass may end early");
	gm_log_read_rewind(file); /* LeakSanitizer checks that this frees the stacks and objects
				   * that were read */
	const struct sums second = sums_of(file);
	TAP_OK(!memcmp(&first, &second, sizeof first), "each whole pass has the same entries");
	TAP_IS(first.n, 2 * (uint64_t)pairs + 3,
	       "a rewind without stacks and objects reads the same records");
	TAP_IS(first.samples, 64 * GM_MIB, "a rewind reads the sample");
	TAP_OK((first.segments > GM_LOAD_HELD) == passed && first.segments > 0,
	       "the log has %u segments", (unsigned)first.segments);
	check_things(file);
	TAP_IS(gm_log_read_about(file)->since, gm_log_read_about(file)->start,
	       "no event was dropped");
	gm_log_read_close(file);
}

/* Numbers of the record that contradict the format, or its body. */
static int write_wrong(void *arg)
{
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	put_stack(1, DEEP + 1);
	put_stack(0, 1);
	put_object(7, "x", GM_BUILD_ID_MOST + 1);
	const struct gm_record short_one = {.size = 90, .id = 3, .kind = GM_RECORD_STACK};
	gm_log_put_body(&short_one, &short_one, 16);
	gm_log_close();
	return 0;
}

static void test_wrong(void)
{
	unlink("log");
	TAP_IS(help_child("GPUMEM_LOG=events", write_wrong, NULL), 0,
	       "a log with impossible stacks");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	TAP_IS(gm_log_read_about(file)->torn, 4, "all impossible stacks are counted as torn");
	TAP_OK(!gm_log_read_stack(file, 1) && !gm_log_read_stack(file, 3) &&
		       !gm_log_read_object(file, 7),
	       "no impossible stack is read");
	gm_log_read_close(file);
}

/* Events written after the log was opened are not read. */
static int read_growing(void *arg)
{
	struct gm_log_file *file;
	char why[256];
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	help_map(0, 64 * GM_MIB);
	help_allocate(0, 1000);
	help_sample(0, 0, GM_RECORD_SAMPLE);
	put_stack(1, 1);
	if (!gm_log_read_open("log", &file, why, sizeof why))
		return 2;
	const struct sums first = sums_of(file);
	for (unsigned i = 0; i < 100; i++)
		help_allocate(0, 100 + i);
	put_stack(2, 1);
	gm_log_read_rewind(file);
	const struct sums second = sums_of(file);
	if (!gm_log_read_check(file, why, sizeof why))
		return 3;
	if (!gm_log_read_stack(file, 1) || gm_log_read_stack(file, 2))
		return 4;
	return first.n == 3 && !memcmp(&first, &second, sizeof first) ? 0 : 5;
}

int main(void)
{
	help_begin();
	test_things(10, false);
	test_things(PAIRS, true);
	test_wrong();
	unlink("log");
	TAP_IS(help_child("GPUMEM_LOG=events", read_growing, NULL), 0,
	       "a log ends where it did when it was opened");
	return tap_done();
}
