/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of malloc in kernels, read back: bodies of other lengths, and contradictions. */
#include <sys/mman.h>

#include "log/format.h"
#include "log_help.h"

static uint64_t site_live = 48; /* bytes of a call whose peak is 48 */

/* A context; its heap, which grew once, was refused once, and was read. */
static void write_heap(void)
{
	const struct gm_heap_sample heap = {.heap = 1, .growth_ns = 5000, .live = {[32] = 7}};
	struct gm_record r = {.size = 2 * GM_MIB, .kind = GM_RECORD_MAP};
	help_map(0, 4 * GM_MIB);
	gm_log_put(&r);
	gm_counter_add(0, GM_C_lent, 2 * GM_MIB);
	gm_counter_add(0, GM_C_map_calls, 1);
	gm_counter_add(0, GM_C_map_bytes, 2 * GM_MIB);
	gm_counter_add(0, GM_C_heap_mapped, GM_MIB);
	gm_counter_add(0, GM_C_heap_mapped_peak, GM_MIB);
	gm_counter_add(0, GM_C_heap_growths, 1);
	gm_counter_add(0, GM_C_heap_growths_64us, 1);
	gm_counter_add(0, GM_C_heap_growth_bytes, GM_MIB);
	gm_counter_add(0, GM_C_heap_growth_ns, 5000);
	gm_counter_add(0, GM_C_heap_growth_longest, 5000);
	gm_counter_add(0, GM_C_heap_refused, 1);
	gm_counter_add(0, GM_C_heap_samples, 1);
	gm_counter_add(0, GM_C_heap_live, 7);
	gm_counter_add(0, GM_C_heap_live_peak, 7);
	gm_counter_add(0, GM_C_takeovers, 1);
	r = (struct gm_record){.size = GM_MIB, .kind = GM_RECORD_GROW};
	gm_log_put(&r);
	r.status = 2;
	gm_log_put(&r);
	r = (struct gm_record){.kind = GM_RECORD_TAKEOVER};
	gm_log_put(&r);
	r.size = 5; /* the takeover of another context failed: it keeps the driver's malloc */
	gm_log_put(&r);
	r = (struct gm_record){.id = 3, .kind = GM_RECORD_SITE};
	gm_log_put(&r);
	r = (struct gm_record){
		.id = 3, .address = site_live, .held = 48, .kind = GM_RECORD_SITE_BLOCKS};
	gm_log_put(&r);
	r = (struct gm_record){.address = 7, .kind = GM_RECORD_HEAP_SAMPLE};
	gm_log_put_heap(&r, &heap);
	r.flags = GM_RECORD_LAST;
	gm_log_put_heap(&r, &heap);
}

struct slip {
	enum gm_counter counter;
	uint64_t by;
	const char *is; /* subject of the contradiction; NULL: there is none */
};

static int write_slip(void *arg)
{
	const struct slip *slip = arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	site_live += slip->counter == GM_C_takeovers_native && !slip->by;
	write_heap();
	gm_counter_add(0, slip->counter, slip->by);
	gm_log_close();
	return 0;
}

static void finds_contradictions(void)
{
	static struct slip slips[] = {
		{GM_C_heap_live, 0, NULL},
		{GM_C_takeovers, 1, "1 TAKEOVER events, but takeovers is 2"},
		{GM_C_takeovers_native, 9, NULL},
		{GM_C_takeovers_native, 0,
		 "call 3 of malloc in kernels has 49 bytes, above their peak, which is 48"},
		{GM_C_heap_growths, 1, "1 GROW events, but heap_growths is 2"},
		{GM_C_heap_growth_bytes, 1,
		 "bytes of GROW events, but heap_growth_bytes is 1048577"},
		{GM_C_heap_refused, 1, "1 GROW events that were refused, but heap_refused is 2"},
		{GM_C_heap_refused_limit, 2,
		 "heap_refused_limit is 2, above heap_refused, which is 1"},
		{GM_C_heap_samples, 1, "1 HEAP_SAMPLE events, but heap_samples is 2"},
		{GM_C_heap_growths_4ms, 1, "2 growths by time, above heap_growths, which is 1"},
		{GM_C_heap_growth_longest, 1, "heap_growth_longest is 5001, above heap_growth_ns"},
		{GM_C_heap_live, 1, "heap_live is 8, above heap_live_peak, which is 7"},
		{GM_C_heap_mapped, 1, "heap_mapped is 1048577, above heap_mapped_peak"},
		{GM_C_lent, 0 - 3 * GM_MIB / 2, "mapped + lent"},
	};
	char why[256];
	for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
		*why = '\0';
		help_child("GPUMEM_LOG=events", write_slip, &slips[i]);
		struct gm_log_file *file = help_open("log");
		if (!file)
			return;
		bool good = gm_log_read_check(file, why, sizeof why);
		TAP_OK(good ? !slips[i].is : slips[i].is && strstr(why, slips[i].is),
		       "%s by %jd: %s", gm_counter_table[slips[i].counter].name,
		       (intmax_t)slips[i].by, good ? "adds up" : why);
		gm_log_read_close(file);
		unlink("log");
	}
}

/* Write `length` into the first body of a HEAP_SAMPLE in the file. */
static bool set_length(uint32_t length)
{
	struct stat st;
	int fd = open("log", O_RDWR);
	if (fd < 0 || fstat(fd, &st))
		return false;
	char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return false;
	struct gm_record *slot =
		(struct gm_record *)(bytes + ((struct gm_segment_head *)bytes)->slots_offset);
	while (slot->kind != GM_RECORD_HEAP_SAMPLE)
		slot++;
	memcpy(slot + 1, &length, sizeof length);
	return munmap(bytes, (size_t)st.st_size) == 0;
}

static void reads_other_lengths(void)
{
	static const struct {
		uint32_t length;
		bool reads, sizes;
	} lengths[] = {{sizeof(struct gm_heap_sample), true, true},
		       {sizeof(struct gm_heap_sample) + 100, true, true}, /* of a later version */
		       {UINT32_MAX, true, true},
		       {offsetof(struct gm_heap_sample, live), true, false},
		       {4, true, false},
		       {3, false, false},
		       {0, false, false}};
	struct slip none = {GM_C_heap_live, 0, NULL};
	help_child("GPUMEM_LOG=events GPUMEM_LOG_EVENTS=heap", write_slip, &none);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct gm_log_entry entry = {0};
		struct gm_heap_sample heap = {0};
		unsigned n = 0;
		TAP_OK(set_length(lengths[i].length), "a body of %u bytes", lengths[i].length);
		struct gm_log_file *file = help_open("log");
		if (!file)
			return;
		while (gm_log_read_next(file, &entry))
			if (entry.heap && !n++)
				heap = *entry.heap;
		TAP_IS(n, lengths[i].reads ? 2 : 1, "the body is read, or is torn");
		TAP_IS(gm_log_read_about(file)->torn, !lengths[i].reads, "a torn body is counted");
		if (lengths[i].reads)
			TAP_IS(heap.live[32], lengths[i].sizes ? 7 : 0,
			       "a short body is read as far as it goes");
		gm_log_read_close(file);
	}
	unlink("log");
}

int main(void)
{
	help_begin();
	finds_contradictions();
	reads_other_lengths();
	return tap_done();
}
