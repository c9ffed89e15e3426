/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of gpumemstat over a log made from the input. Byte 0 selects the command, byte 1 the
 * kind of log (enum shape); slots of 64 bytes follow. A slot of a kind in enum patch changes the
 * log's head, description or counters; the other slots are its records.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "log/format.h"
#include "log/page.h"

int gm_tool_main(int argc, char **argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

#define START 1000000000000 /* as mklog's, so that its records fit */

enum {
	SLOTS_OFFSET = 294912,
	SLOTS_MOST = 1000,
	TEXT = 1024,
	WORDS = 5,
	PREFIX = 2,
	MANY_SEGMENTS = 6
};
enum shape { CLOSED = 1, SMALL = 2, TWO = 4, LATE = 8, MANY = 16 };
/* HEAD: offset, value, bytes; TEXT: offset, then bytes; COUNTER: row, column, value. */
enum patch { PATCH_HEAD = 201, PATCH_TEXT = 202, PATCH_COUNTER = 203 };

#define PICKLE "--format=pytorch"

static const char *const commands[][WORDS] = {
	{"live"},
	{"live", "--at=peak", "--json"},
	{"live", "--at=oom"},
	{"live", "--at=2s", "--by=size"},
	{"live", "--at=1s..3s"},
	{"live", "--by=context", "--json"},
	{"leaks"},
	{"leaks", "--json", "--by=size"},
	{"hist"},
	{"hist", "--json"},
	{"map"},
	{"map", "--json", "--at=peak"},
	{"map", "--at=oom", "-n", "3"},
	{"frag"},
	{"summary"},
	{"summary", "--json"},
	{"check", "--no-leaks", "--max=live_blocks=1"},
	{"summary", "-v"},
	{"report", "--output=-"},
	{"export", "--format=csv"},
	{"export", "--format=openmetrics"},
	{"export", "--format=prometheus"},
	{"export", "--format=chrome"},
	{"export", PICKLE},
	{"plot"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int log_fd, out_fd;
static FILE *errors;

static void fuzz_open(void)
{
	log_fd = memfd_create("log", 0);
	out_fd = memfd_create("out", 0);
	errors = fopen("/dev/null", "w");
	FUZZ_CHECK(log_fd >= 0 && out_fd >= 0 && errors);
}

static void bytes_put(const void *from, size_t n, size_t offset)
{
	FUZZ_CHECK(pwrite(log_fd, from, n, (off_t)offset) == (ssize_t)n);
}

/* --- the log --- */

static void segment_put(struct gm_segment_head head, unsigned number, const char *text,
			const struct gm_record *slots, size_t n)
{
	const size_t at = number * head.size;
	head.sequence += number;
	bytes_put(&head, sizeof head, at);
	bytes_put(text, TEXT, at + GM_TEXT_OFFSET);
	bytes_put(slots, n * sizeof *slots, at + SLOTS_OFFSET);
}

static size_t text_make(char text[TEXT])
{
	static const char words[] =
		"host=node7\0program=fuzzed\0command=fuzzed 1\0job=\0mode=pool\0"
		"device=00112233445566778899aabbccddeeff 8589934592 GPU\0"
		"device=10112233445566778899aabbccddeeff 8589934592 GPU\0hook=cuMemAlloc_v2\0"
		"knob=GPUMEM_LOG=events (environment)";
	memset(text, 0, TEXT);
	memcpy(text, words, sizeof words);
	return sizeof words;
}

static void patch(const struct gm_record *r, struct gm_segment_head *head, char text[TEXT],
		  struct gm_counter_page *page)
{
	const char *bytes = (const char *)r;
	if (r->kind == PATCH_HEAD) {
		const size_t n = r->size % 9, at = r->time % (sizeof *head - 8);
		memcpy((char *)head + at, &r->address, n);
	} else if (r->kind == PATCH_TEXT) {
		memcpy(text + r->time % (TEXT - GM_SLOT_SIZE), bytes + 8, 55);
	} else {
		page->value[r->time % GM_PAGE_ROWS][r->size % GM_COUNTER_COUNT] = r->address;
	}
}

static bool is_patch(const struct gm_record *r)
{
	return r->kind >= PATCH_HEAD && r->kind <= PATCH_COUNTER;
}

static struct gm_segment_head head_of(unsigned shape)
{
	return (struct gm_segment_head){
		.magic = GM_FORMAT_MAGIC,
		.version = GM_FORMAT_VERSION,
		.slot_size = GM_SLOT_SIZE,
		.sequence = shape & LATE ? 5 : 1,
		.size = GM_SEGMENT_SMALL, /* the fastest to read */
		.text_offset = GM_TEXT_OFFSET,
		.live_offset = GM_PAGE_OFFSET,
		.slots_offset = SLOTS_OFFSET,
		.level = shape & SMALL ? GM_LEVEL_SMALL : GM_LEVEL_EVENTS,
		.kept = UINT32_MAX,
		.pid = 4711,
		.rank = -1,
		.driver_version = 13000,
		.start = START,
		.start_wall = 1700000000000000000,
		.begun = START,
		.live_known = 1,
	};
}

static void log_make(unsigned shape, const struct gm_record *slots, size_t n)
{
	static struct gm_counter_page page;
	static struct gm_record kept[SLOTS_MOST];
	struct gm_segment_head head = head_of(shape);
	char text[TEXT];
	size_t n_kept = 0, segments = shape & MANY ? MANY_SEGMENTS : shape & TWO ? 2 : 1;
	head.text_size = (uint32_t)text_make(text);
	memset(&page, 0, sizeof page);
	gm_counters_describe(&page.head, GM_PAGE_WHOLE);
	page.head.closed = shape & CLOSED;
	page.head.last = START + 5000000000;
	page.head.sequence = head.sequence + segments - 1;
	for (unsigned row = 1; row <= 2; row++) {
		page.value[row][GM_C_allocate_calls] = page.value[row][GM_C_map_calls] = 1;
		page.value[row][GM_C_mapped_peak] = 64 * GM_MIB;
	}
	for (size_t i = 0; i < n; i++)
		if (is_patch(&slots[i]))
			patch(&slots[i], &head, text, &page);
		else
			kept[n_kept++] = slots[i];
	FUZZ_CHECK(ftruncate(log_fd, 0) == 0);
	if (head.size != GM_SEGMENT_SMALL)
		segments = 1;
	for (size_t s = 0; s < segments; s++)
		segment_put(head, (unsigned)s, text, kept + s * n_kept / segments,
			    (s + 1) * n_kept / segments - s * n_kept / segments);
	bytes_put(&page, sizeof page, GM_PAGE_OFFSET);
}

/* --- the command --- */

/* No byte of a log may control a terminal; a pickle, which is binary, is not shown on one. Returns
 * the length. */
static off_t output_check(bool text)
{
	static char out[1 << 16];
	off_t at = 0;
	for (ssize_t n; (n = pread(out_fd, out, sizeof out, at)) > 0; at += n)
		for (ssize_t i = 0; i < n; i++) {
			const unsigned char c = (unsigned char)out[i];
			FUZZ_CHECK(!text || ((c >= ' ' || c == '\n' || c == '\t') && c != 0x7f));
		}
	return at;
}

static void command_run(const char *const words[WORDS])
{
	char path[64], *argv[WORDS + 3] = {(char *)"gpumemstat"};
	int argc = 1;
	FILE *was = stderr, *stdout_was = stdout;
	for (size_t i = 0; i < WORDS && words[i]; i++)
		argv[argc++] = (char *)words[i];
	snprintf(path, sizeof path, "/proc/self/fd/%d", log_fd);
	argv[argc++] = path;
	FUZZ_CHECK(ftruncate(out_fd, 0) == 0 && lseek(out_fd, 0, SEEK_SET) == 0);
	FILE *out = fdopen(dup(out_fd), "w");
	FUZZ_CHECK(out);
	stderr = errors;
	stdout = out;
	const int status = gm_tool_main(argc, argv);
	stdout = stdout_was;
	stderr = was;
	fclose(out);
	FUZZ_CHECK(status == 0 || status == 1 || status == 3);
	const bool text = !words[1] || strcmp(words[1], PICKLE) != 0;
	FUZZ_CHECK(output_check(text) > 0 || status == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gm_record slots[SLOTS_MOST];
	size_t n = size < PREFIX ? 0 : (size - PREFIX) / sizeof *slots;
	if (!errors)
		fuzz_open();
	if (size < PREFIX)
		return 0;
	n = n < SLOTS_MOST ? n : SLOTS_MOST;
	memcpy(slots, data + PREFIX, n * sizeof *slots);
	log_make(data[1], slots, n);
	command_run(commands[data[0] % COMMANDS]);
	return 0;
}

/* --- changes that keep slots whole --- */

static unsigned number_next(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Replace a number of the record by another one of it, or by one at a limit of integers. */
static void field_change(struct gm_record *r, const struct gm_record *other, unsigned *state)
{
	static const size_t sizes[] = {8, 8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 1, 1};
	const uint64_t values[] = {0,
				   1,
				   2,
				   UINT64_MAX,
				   (uint64_t)1 << 63,
				   INT64_MAX,
				   UINT32_MAX,
				   GM_FRAMES_MOST,
				   GM_FRAMES_MOST + 1,
				   GM_BUILD_ID_MOST + 1,
				   GM_STRING_MAX + 1,
				   4000000000,
				   number_next(state)};
	size_t field = number_next(state) % (sizeof sizes / sizeof *sizes), at = 0;
	for (size_t i = 0; i < field; i++)
		at += sizes[i];
	const uint64_t value = values[number_next(state) % (sizeof values / sizeof *values)];
	const void *from = number_next(state) % 2 ? (const char *)other + at : (const char *)&value;
	memcpy((char *)r + at, from, sizes[field]);
}

static void kind_change(struct gm_record *r, unsigned *state)
{
	static const uint8_t others[] = {GM_RECORD_MORE, PATCH_HEAD, PATCH_TEXT, PATCH_COUNTER};
	const unsigned kind = number_next(state) % (GM_RECORD_TABLE + 1 + sizeof others);
	r->kind = kind <= GM_RECORD_TABLE ? (uint8_t)kind : others[kind - GM_RECORD_TABLE - 1];
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
	static struct gm_record slots[SLOTS_MOST + 1];
	size_t n = size < PREFIX ? 0 : (size - PREFIX) / sizeof *slots;
	unsigned state = seed;
	const size_t room = most < PREFIX ? 0 : (most - PREFIX) / sizeof *slots;
	if (n < 1 || n > SLOTS_MOST || number_next(&state) % 4 == 0)
		return LLVMFuzzerMutate(data, size, most);
	memcpy(slots, data + PREFIX, n * sizeof *slots);
	const size_t i = number_next(&state) % n, j = number_next(&state) % n;
	switch (number_next(&state) % 8) {
	case 0:
		data[0] = (uint8_t)(number_next(&state) % COMMANDS);
		break;
	case 1:
		data[1] = (uint8_t)(number_next(&state) % 32);
		break;
	case 2:
		kind_change(&slots[i], &state);
		break;
	case 3:
		slots[i] = slots[j];
		break;
	case 4:
		if (n < SLOTS_MOST && n < room) {
			memmove(&slots[i + 1], &slots[i], (n++ - i) * sizeof *slots);
			slots[i] = slots[j];
		}
		break;
	case 5:
		memmove(&slots[i], &slots[i + 1], (--n - i) * sizeof *slots);
		break;
	default:
		field_change(&slots[i], &slots[j], &state);
	}
	memcpy(data + PREFIX, slots, n * sizeof *slots);
	return PREFIX + n * sizeof *slots;
}
