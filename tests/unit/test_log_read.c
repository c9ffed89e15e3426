/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader trusts no input: every changed number is found, and none makes it crash. */
#include "log/format.h"
#include "log/frag.h"
#include "log_help.h"

#define BLOCKS 300

/* A run on both devices, with failures, the driver's memory, and a context that ends. */
static int write_run(void *arg)
{
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	for (unsigned d = 0; d < 2; d++) {
		help_map(d, 4 * GM_MIB);
		for (unsigned i = 0; i < BLOCKS; i++) {
			help_allocate(d, 100 + i);
			if (i % 3 == 0)
				help_free(d, i / 7 % help_of[d].n);
			if (i % 50 == 0)
				help_sample(d, 0, GM_RECORD_SAMPLE);
		}
		help_sample(d, 0, GM_RECORD_OUT_OF_MEMORY);
		struct gm_record failed = {
			.size = GM_GIB, .device = (uint8_t)d, .kind = GM_RECORD_ALLOCATE_FAILED};
		gm_counter_add(d, GM_C_allocate_calls, 1);
		gm_counter_add(d, GM_C_allocate_failed, 1);
		gm_log_put(&failed);
		struct gm_record driver = {.size = GM_MIB,
					   .id = ++help_ids,
					   .flags = GM_RECORD_DRIVER,
					   .device = (uint8_t)d,
					   .kind = GM_RECORD_ALLOCATE};
		gm_counter_add(d, GM_C_allocate_calls, 1);
		gm_counter_add(d, GM_C_allocate_driver, 1);
		gm_log_put(&driver);
		driver.kind = GM_RECORD_FREE;
		gm_counter_add(d, GM_C_free_driver, 1);
		gm_log_put(&driver);
		gm_log_string(d ? "one string" : "another string");
		help_sample(d, 0, GM_RECORD_SAMPLE);
	}
	gm_log_close();
	return 0;
}

static char *bytes; /* of the good log */
static size_t length;

static void slurp(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		exit(1);
	length = (size_t)st.st_size;
	free(bytes);
	bytes = aligned_alloc(GM_PAGE_OFFSET, gm_round_up(length, GM_PAGE_OFFSET));
	if (read(fd, bytes, length) != (ssize_t)length)
		exit(1);
	close(fd);
}

static void spill(const char *path, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (write(fd, bytes, n) != (ssize_t)n)
		exit(1);
	close(fd);
}

/* Read all that a tool could ask for. True if the file could be opened and its numbers add up. */
static bool read_all(const char *path, char *why, size_t n)
{
	struct gm_log_file *file;
	struct gm_log_entry entry;
	volatile uint64_t sum = 0;
	if (!gm_log_read_open(path, &file, why, n))
		return false;
	const struct gm_log_about *about = gm_log_read_about(file);
	sum += strlen(about->host) + strlen(about->program) + strlen(about->command) +
	       strlen(about->job) + strlen(about->mode) + strlen(about->level);
	for (unsigned i = 0; i < about->n_devices; i++)
		sum += strlen(about->devices[i].name);
	for (unsigned i = 0; i < about->n_hooks; i++)
		sum += strlen(about->hooks[i]);
	for (unsigned i = 0; i < about->n_knobs; i++)
		sum += strlen(about->knobs[i]);
	while (gm_log_read_next(file, &entry)) {
		const char *text = gm_log_read_string(file, entry.record.string);
		sum += entry.sample ? entry.sample->mapped : entry.record.size;
		sum += text ? strlen(text) : 0;
	}
	(void)sum; /* clang: set but not used */
	bool ok = gm_log_read_check(file, why, n);
	gm_log_read_close(file);
	return ok;
}

static uint64_t *value_at(unsigned row, enum gm_counter counter)
{
	struct gm_counter_page *page = (struct gm_counter_page *)(bytes + GM_PAGE_OFFSET);
	return (uint64_t *)&page->value[row][counter];
}

/* Change one number, check the file, and restore the number. */
static bool is_found(uint64_t *number, uint64_t value, char *why, size_t n)
{
	uint64_t before = *number;
	*number = value;
	spill("bad", length);
	*number = before;
	return !read_all("bad", why, n);
}

static void test_counters(void)
{
	static const enum gm_counter checked[] = {
		GM_C_allocate_calls,
		GM_C_allocate_pool,
		GM_C_allocate_driver,
		GM_C_allocate_failed,
		GM_C_allocate_bytes,
		GM_C_free_calls,
		GM_C_free_driver,
		GM_C_free_context,
		GM_C_free_bytes,
		GM_C_requested,
		GM_C_handed_out,
		GM_C_mapped,
		GM_C_idle,
		GM_C_retired,
		GM_C_lent,
		GM_C_live_blocks,
		GM_C_map_calls,
		GM_C_map_bytes,
		GM_C_unmap_calls,
		GM_C_unmap_bytes,
		GM_C_samples,
	};
	static const enum gm_counter peaks[] = {GM_C_requested_peak,	 GM_C_mapped_peak,
						GM_C_internal_peak,	 GM_C_external_peak,
						GM_C_unreclaimable_peak, GM_C_external_remap_peak,
						GM_C_requested_peak_time};
	char why[256];
	for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
		uint64_t *number = value_at(1 + i % 2, checked[i]);
		TAP_OK(is_found(number, *number + 1, why, sizeof why), "%s too high is found",
		       gm_counter_table[checked[i]].name);
		printf("# %s\n", why);
		TAP_OK(is_found(number, *number - 1, why, sizeof why),
		       "a number that is too low is found");
	}
	for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
		TAP_OK(is_found(value_at(2, peaks[i]), 0, why, sizeof why), "%s too low is found",
		       gm_counter_table[peaks[i]].name);
		printf("# %s\n", why);
	}
	uint64_t *records = value_at(0, GM_C_log_records);
	TAP_OK(is_found(records, *records + 1, why, sizeof why), "a wrong log_records is found");
	TAP_OK(strstr(why, " records, but log_records is ") != NULL,
	       "the finding names the two numbers");
}

static struct gm_parts *parts_at(char *of)
{
	return &((struct gm_counter_live *)(of + GM_PAGE_OFFSET))->parts;
}

static bool same_counters(const struct gm_log_file *a, const struct gm_log_file *b)
{
	for (unsigned device = 0; device < 3; device++)
		for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
			if (gm_log_read_counter(a, device, i) != gm_log_read_counter(b, device, i))
				return false;
	return true;
}

/* The parts of the counters: a wrong value is found, meaningless rows are skipped. */
static void test_parts(void)
{
	char why[256] = "";
	struct gm_parts *parts = parts_at(bytes);
	unsigned in_use = 0, found = 0;
	for (unsigned i = 0; i < GM_PART_ROWS && parts->of[i].row; i++, in_use++)
		for (unsigned place = 0; place < GM_PART_PLACES; place++) {
			uint64_t *part = (uint64_t *)&parts->of[i].part[place];
			found += *part && is_found(part, *part + 1, why, sizeof why);
		}
	TAP_IS(in_use, 2, "the run counted on two devices");
	TAP_IS(found, 2 * 5, "each of the five parts on each device is one of the sums");
	uint64_t *row = (uint64_t *)&parts->of[0].row, mine = *row;
	TAP_OK(is_found(row, 0, why, sizeof why), "a row that is left out is found");
	TAP_OK(is_found(row, 3, why, sizeof why), "a row of another device is found");
	TAP_OK(is_found(row, UINT64_MAX, why, sizeof why), "a row of no device is found");
	parts->of[2].row = GM_PAGE_ROWS + 1;
	parts->of[2].part[0] = 1000;
	parts->of[3].row = mine;
	parts->of[3].part[GM_PART_PLACES - 1] = 1000; /* a place without a counter */
	spill("bad", length);
	memset(&parts->of[2], 0, 2 * sizeof parts->of[2]);
	TAP_OK(read_all("bad", why, sizeof why), "rows and places of no counter count nothing");
}

/* Version 1 had no parts: a live counter holds the full value. */
static void test_version_1(void)
{
	static const char *const names[] = {"log", "old"};
	struct gm_log_file *file[2];
	char *good = malloc(length), why[256] = "";
	struct gm_segment_head *head = (struct gm_segment_head *)bytes;
	struct gm_counter_live *live = (struct gm_counter_live *)(bytes + GM_PAGE_OFFSET);
	memcpy(good, bytes, length);
	spill("log", length);
	for (unsigned i = 0; i < GM_PART_ROWS; i++)
		for (unsigned place = 0; live->parts.of[i].row && place < GM_PART_PLACES; place++) {
			unsigned row = (unsigned)live->parts.of[i].row - 1;
			unsigned counter = live->parts.counter[row != 0][place];
			if (counter)
				live->page.value[row][counter - 1] += live->parts.of[i].part[place];
		}
	memset(&live->parts, 0xff, sizeof live->parts); /* contents without meaning in this
							 * version */
	head->version = live->page.head.version = 1;
	spill("old", length);
	for (unsigned i = 0; i < 2; i++)
		file[i] = help_open(names[i]);
	TAP_OK(file[0] && file[1] && same_counters(file[0], file[1]),
	       "a log of version 1 has the same counters");
	TAP_OK(file[1] && help_check(file[1]), "the numbers of a log of version 1 add up");
	gm_log_read_close(file[1]);
	spill("old", GM_PAGE_OFFSET + sizeof live->page);
	file[1] = help_open("old");
	TAP_OK(file[0] && file[1] && same_counters(file[0], file[1]),
	       "a log that ends right behind its counters has them");
	for (unsigned i = 0; i < 2; i++)
		gm_log_read_close(file[i]);
	spill("bad", GM_PAGE_OFFSET + sizeof live->page - 1);
	TAP_OK(!read_all("bad", why, sizeof why), "a log that ends within its counters has none");
	TAP_STR(why, "its counters cannot be read", "the message for cut counters says so");
	live->page.head.version = 3;
	spill("bad", length);
	TAP_OK(!read_all("bad", why, sizeof why), "counters of a version to come are not guessed");
	TAP_STR(why, "its counters cannot be read",
		"the message for counters of a version to come says so");
	memcpy(bytes, good, length);
	spill("bad", GM_PAGE_OFFSET + offsetof(struct gm_counter_live, parts) + 1000);
	TAP_OK(!read_all("bad", why, sizeof why), "counters without their parts are refused");
	free(good);
}

/* The first slot of a kind in the good log. */
static struct gm_record *slot_of(unsigned kind)
{
	const struct gm_segment_head *head = (const struct gm_segment_head *)bytes;
	struct gm_record *slot = (struct gm_record *)(bytes + head->slots_offset);
	while ((char *)(slot + 1) <= bytes + length && slot->kind != kind)
		slot++;
	return slot;
}

/* The same for a number in the body of a record, which lies in pieces of 63 bytes. */
static bool is_changed_found(struct gm_record *record, size_t offset, uint32_t value)
{
	char why[256] = "", *number[4], before[4];
	for (size_t i = 0; i < 4; i++) {
		number[i] = (char *)(record + 1 + (offset + i) / 63) + (offset + i) % 63;
		before[i] = *number[i];
		*number[i] = (char)(value >> 8 * i);
	}
	spill("bad", length);
	for (size_t i = 0; i < 4; i++)
		*number[i] = before[i];
	bool found = !read_all("bad", why, sizeof why);
	printf("# %s\n", why);
	return found;
}

/* A log of a version without runs of idle memory, and one of a later version. */
static void test_other_lengths(void)
{
	static const struct {
		enum gm_record_kind kind;
		uint64_t held;
		bool reads, bins;
	} lengths[] = {{GM_RECORD_SAMPLE, 0, true, false},
		       {GM_RECORD_SAMPLE, GM_SAMPLE_SHORT, true, false},
		       {GM_RECORD_SAMPLE, GM_SAMPLE_SHORT - 1, false, false},
		       {GM_RECORD_SAMPLE, GM_SAMPLE_POOL, true, true},
		       {GM_RECORD_OUT_OF_MEMORY, GM_SAMPLE_POOL, true, true},
		       {GM_RECORD_OUT_OF_MEMORY, sizeof(struct gm_sample), true, true},
		       {GM_RECORD_OUT_OF_MEMORY, 4096, true, true}};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct gm_record *sample = slot_of(lengths[i].kind);
		struct gm_log_entry entry = {0};
		const uint64_t held = sample->held;
		sample->held = lengths[i].held;
		spill("other", length);
		struct gm_log_file *file = help_open("other");
		while (gm_log_read_next(file, &entry) && entry.record.time != sample->time)
			;
		bool read = entry.sample && entry.record.time == sample->time;
		TAP_IS(read, lengths[i].reads, "a sample of %ju bytes", (uintmax_t)lengths[i].held);
		TAP_IS(gm_log_read_about(file)->torn, !lengths[i].reads,
		       "a sample is torn, or not");
		if (read)
			TAP_OK(entry.sample->mapped &&
				       gm_frag_has_bins(entry.sample) == lengths[i].bins,
			       "a sample has its runs by size, or not");
		gm_log_read_close(file);
		sample->held = held;
	}
}

static void test_records(void)
{
	static const struct {
		unsigned kind;
		size_t offset;
		const char *what;
	} fields[] = {
		{GM_RECORD_ALLOCATE, offsetof(struct gm_record, size), "the size of a block"},
		{GM_RECORD_ALLOCATE, offsetof(struct gm_record, id), "the id of a block"},
		{GM_RECORD_FREE, offsetof(struct gm_record, id), "the id of a free"},
		{GM_RECORD_MAP, offsetof(struct gm_record, size), "the size of a chunk"},
	};
	char why[256];
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		uint64_t *number = (uint64_t *)((char *)slot_of(fields[i].kind) + fields[i].offset);
		TAP_OK(is_found(number, *number + 100000, why, sizeof why), "%s is found",
		       fields[i].what);
		printf("# %s\n", why);
	}
	struct gm_record *sample = slot_of(GM_RECORD_SAMPLE);
	for (unsigned i = 0; i < 7; i++) { /* requested ... largest_idle, without lent */
		uint64_t *number = (uint64_t *)(sample + 1) + i;
		if (i != 5)
			TAP_OK(is_found(number, *number + (1ull << 40), why, sizeof why),
			       "number %u of a sample is found", i);
	}
	static const struct {
		size_t offset;
		uint32_t value;
		const char *what;
	} bins[] = {
		{offsetof(struct gm_sample, idle_runs), 3, "one run too many"},
		{offsetof(struct gm_sample, idle_units), 1, "two runs in the space of one"},
		{offsetof(struct gm_sample, idle_units), 1 << 30, "runs longer than idle"},
	};
	for (size_t i = 0; i < sizeof bins / sizeof *bins; i++)
		TAP_OK(is_changed_found(sample, bins[i].offset, bins[i].value), "%s", bins[i].what);
	uint8_t kind = sample->kind;
	sample->kind = 0;
	spill("bad", length);
	sample->kind = kind;
	struct gm_log_file *file = help_open("bad");
	TAP_OK(file && gm_log_read_about(file)->torn == 1 && !gm_log_read_about(file)->complete,
	       "a torn record is seen, and skipped");
	gm_log_read_close(file);
}

static void test_refusals(void)
{
	char why[256] = "";
	struct gm_log_file *file;
	struct gm_segment_head *head = (struct gm_segment_head *)bytes;
	TAP_OK(!gm_log_read_open("none", &file, why, sizeof why),
	       "a file that is not there is refused");
	TAP_STR(why, "no such file", "a missing file is named");
	TAP_OK(!gm_log_read_open(".", &file, why, sizeof why), "a folder is refused");
	TAP_STR(why, "a folder, not a gpumem log", "a folder is no log");
	TAP_OK(!gm_log_read_open("/dev/null", &file, why, sizeof why), "a device is refused");
	TAP_STR(why, "a pipe or a device, not a gpumem log", "a device is no log");
	spill("bad", 0);
	TAP_OK(!gm_log_read_open("bad", &file, why, sizeof why), "an empty file is refused");
	TAP_STR(why, "empty: no gpumem log, or its process was killed as it began",
		"an empty file is no log");
	head->version = 3;
	spill("bad", length);
	head->version = GM_FORMAT_VERSION;
	TAP_OK(!gm_log_read_open("bad", &file, why, sizeof why),
	       "a log of a version to come is refused");
	TAP_STR(why, "version 3 of the format, this gpumemstat reads 1 to 2",
		"a later version is named");
	spill("bad", 100);
	TAP_OK(!gm_log_read_open("bad", &file, why, sizeof why),
	       "a log with half a head is refused");
	TAP_STR(why, "segment 1 at 0x0: cut within its head", "half a head is named");
	head->text_size = 1u << 31;
	spill("bad", length);
	head->text_size = 100;
	TAP_OK(!gm_log_read_open("bad", &file, why, sizeof why),
	       "a log with a description out of bounds is refused");
	TAP_STR(why, "segment 1 at 0x0: its description is out of bounds",
		"a description out of bounds is named");
	spill("bad", length);
	TAP_OK(gm_log_read_open("bad", &file, why, sizeof why),
	       "a log that is cut in a word is read");
	gm_log_read_close(file);
}

/* Every kind of place: within the head, the description, the counters, and each slot's bytes. */
static void test_cuts(void)
{
	char why[256];
	unsigned tried = 0, adding_up = 0;
	for (size_t n = 0; n < length; n += n < 300	 ? 7
					    : n < 4096	 ? 509
					    : n < 140000 ? 4093
							 : 977) {
		spill("bad", n);
		adding_up += read_all("bad", why, sizeof why);
		tried++;
	}
	TAP_IS(adding_up, 0, "%u cut files are read as far as they go, and known to be cut", tried);
	spill("bad", length - 1);
	TAP_OK(!read_all("bad", why, sizeof why), "a log with one byte less is refused");
	TAP_OK(strstr(why, "it was cut") != NULL, "a missing byte is named: %s", why);
}

static void test_flips(void)
{
	const struct gm_segment_head *head = (const struct gm_segment_head *)bytes;
	char *good = malloc(length), why[256];
	uint64_t seed = 88172645463325252u, slots = head->slots_offset;
	unsigned found = 0;
	memcpy(good, bytes, length);
	for (unsigned i = 0; i < 2000; i++) {
		for (unsigned k = 0; k < 1 + i % 20; k++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			/* a third each in the head, the counters, and the records, which are most
			 * of the file */
			size_t at = k % 3 == 0	 ? seed % sizeof *head
				    : k % 3 == 1 ? GM_PAGE_OFFSET + seed % 2048
						 : slots + seed % (length - slots);
			bytes[at] ^= (char)(1 << (seed >> 40) % 8);
		}
		spill("bad", length);
		found += !read_all("bad", why, sizeof why);
		memcpy(bytes, good, length);
	}
	TAP_OK(found > 1000,
	       "files with flipped bits are read without harm; %u of 2000 do not add up", found);
	free(good);
}

/* A string, and a sample, with slots that would continue past the end of the file. */
static void test_overruns(void)
{
	char why[256];
	struct gm_record *string = slot_of(GM_RECORD_STRING);
	uint64_t size = string->size;
	static const uint64_t sizes[] = {64, 4096, 4097, UINT32_MAX, UINT64_MAX};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		string->size = sizes[i];
		spill("bad", length);
		struct gm_log_file *file = help_open("bad");
		TAP_OK(file && !gm_log_read_string(file, 1) && gm_log_read_string(file, 2),
		       "a string of %ju bytes that are not there is left out", (uintmax_t)sizes[i]);
		gm_log_read_close(file);
	}
	string->size = size;
	struct gm_record *last = (struct gm_record *)(bytes + length) - 1;
	struct gm_record before = *last;
	last->kind = GM_RECORD_SAMPLE;
	spill("bad", length);
	*last = before;
	TAP_OK(!read_all("bad", why, sizeof why), "a sample in the last slot");
}

static int wait_open(void *arg)
{
	(void)arg;
	gm_counters_open();
	return gm_log_open(&help_config) ? 0 : 1; /* not closed: as if killed */
}

static void test_tolerance(void)
{
	char why[256];
	help_child("GPUMEM_LOG=events GPUMEM_LOG_NAME=killed", wait_open, NULL);
	slurp("killed");
	uint64_t *calls = value_at(1, GM_C_allocate_calls),
		 *left = value_at(1, GM_C_allocate_bytes);
	*left = 1000;
	*calls = 256;
	spill("bad", length);
	TAP_OK(read_all("bad", why, sizeof why), "killed: 256 calls in flight are possible");
	*calls = 257;
	spill("bad", length);
	TAP_OK(!read_all("bad", why, sizeof why), "257 are not: %s", why);
}

int main(void)
{
	char why[256] = "";
	help_begin();
	TAP_IS(help_child("GPUMEM_LOG=events", write_run, NULL), 0, "a good log is written");
	TAP_OK(read_all("log", why, sizeof why), "a good log adds up");
	printf("# %s\n", why);
	slurp("log");
	test_counters();
	test_parts();
	test_version_1();
	test_records();
	test_other_lengths();
	test_refusals();
	slurp("log");
	test_overruns();
	test_cuts();
	test_flips();
	test_tolerance();
	free(bytes);
	return tap_done();
}
