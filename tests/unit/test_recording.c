/* SPDX-License-Identifier: BSD-3-Clause */
/* Recordings without a preload: requests and answers, two files, where texts go; on a file system
 * whose files must not be mapped, too. */
#include "log/file.h"
#include "log/recording.h"
#include "log_help.h"

#define PAIRS 300000 /* 2 records each: more than two segments */

struct visit {
	void (*each)(void *arg, const struct gm_record *live);
	void *arg;
};

/* The blocks of before are those that the program has at first. */
static void live_visit(void *arg, const struct gm_record *live)
{
	const struct visit *visit = arg;
	struct gm_record record = *live;
	record.stack = record.id <= 50 ? GM_STACK_BEFORE : 0;
	visit->each(visit->arg, &record);
}

static void walk(void (*each)(void *arg, const struct gm_record *live), void *arg)
{
	struct visit visit = {each, arg};
	help_walk(live_visit, &visit);
}

static struct gm_page_request *request(void)
{
	return &gm_count_shown->parts.request;
}

/* Ask as another process does. False: the request is not the one that was taken. */
static bool ask(uint64_t number, enum gm_request what, enum gm_recording_state expected)
{
	enum gm_recording_state state;
	enum gm_request taken;
	atomic_store(&request()->asked, number << GM_REQUEST_SHIFT | what);
	atomic_store(&request()->wake, 1);
	return gm_recording_is_due() && gm_recording_take(&taken, &state) && taken == what &&
	       state == expected && !gm_recording_is_due();
}

static bool answer(uint64_t number, enum gm_answer is)
{
	gm_recording_answer(is, 7);
	return atomic_load(gm_request_answer(request(), number)) ==
	       (number << GM_REQUEST_SHIFT | 7 << 8 | is);
}

static bool events_begin(uint64_t number)
{
	if (!ask(number, GM_REQUEST_EVENTS, GM_RECORDING_NONE) || gm_recording_open() != 0)
		return false;
	gm_recording_begin();
	gm_recording_checkpoint();
	return answer(number, GM_ANSWER_BEGUN) && gm_log_wants(GM_RECORD_ALLOCATE);
}

static bool events_end(uint64_t number)
{
	if (!ask(number, GM_REQUEST_SMALL, GM_RECORDING_ON))
		return false;
	gm_recording_stop();
	return gm_recording_end() && answer(number, GM_ANSWER_ENDED) &&
	       !gm_log_wants(GM_RECORD_ALLOCATE) && gm_log_wants(GM_RECORD_SAMPLE);
}

static void takeover_put(const char *text)
{
	const struct gm_record record = {
		.string = gm_log_string(text), .device = 0, .kind = GM_RECORD_TAKEOVER, .size = 1};
	gm_log_put(&record);
}

/* The file has a sample that is newer than its copy of the counters. */
static bool reads_while_written(void)
{
	struct gm_log_file *file = NULL;
	char why[256];
	help_allocate(0, 2000);
	help_sample(0, 0, GM_RECORD_SAMPLE);
	const bool read = gm_log_read_open("log.events", &file, why, sizeof why) &&
			  gm_log_read_check(file, why, sizeof why);
	gm_log_read_close(file);
	help_free(0, help_of[0].n - 1);
	return read;
}

static int record_twice(void *arg)
{
	enum gm_recording_state state;
	enum gm_request taken;
	gm_file_force_memory = arg != NULL;
	help_config.walk = walk;
	gm_counters_open();
	if (!gm_log_open(&help_config) || gm_log_sequence() != 0)
		return 1;
	gm_recording_enable();
	help_map(0, GM_GIB);
	for (unsigned i = 0; i < 50; i++)
		help_allocate(0, 1000 + i);
	gm_log_string("of before");
	if (gm_recording_is_due() || gm_recording_take(&taken, &state))
		return 2;
	if (!events_begin(1))
		return 3;
	if (!arg && !reads_while_written()) /* else nothing is in the file yet */
		return 7;
	const uint64_t first = gm_log_sequence();
	gm_log_string("of the recording alone");
	takeover_put("of both");
	help_free(0, 0);
	for (unsigned i = 0; i < PAIRS; i++) {
		help_allocate(0, 1 + i % 100);
		help_free(0, help_of[0].n - 1);
		gm_log_poll();
	}
	if (gm_log_sequence() <= first || !events_end(2))
		return 4;
	help_allocate(0, 77777);
	takeover_put("of the recording alone"); /* now the small log needs it as well */
	if (!events_begin(3) || gm_log_sequence() <= first)
		return 5;
	help_allocate(0, 88888);
	gm_log_close();
	return gm_recording_is_due() ? 6 : 0;
}

static bool has_string(const struct gm_log_file *file, const char *text)
{
	const char *found = "";
	for (uint32_t i = 1; i < 10 && strcmp(found, text) != 0; i++) {
		found = gm_log_read_string(file, i);
		found = found ? found : "";
	}
	return strcmp(found, text) == 0;
}

/* Blocks of a size that are born, or were there before. */
static unsigned sized(struct gm_log_file *file, uint64_t size, enum gm_record_kind kind)
{
	struct gm_log_entry entry;
	unsigned n = 0;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry))
		n += entry.record.kind == kind && entry.record.size == size;
	return n;
}

static void files_check(const char *where)
{
	struct gm_log_file *small = help_open("log"), *one = help_open("log.events"),
			   *two = help_open("log.events.1");
	if (!small || !one || !two)
		return;
	const struct gm_log_about *about = gm_log_read_about(one);
	TAP_OK(about->recording && about->ended && !about->closed && !about->running &&
		       !about->complete && about->since_known,
	       "%s: the first recording was ended", where);
	TAP_OK(help_check(one) && help_check(two) && help_check(small),
	       "%s: no log contradicts itself", where);
	TAP_OK(has_string(one, "of before") && has_string(one, "of the recording alone") &&
		       has_string(one, "of both"),
	       "%s: the last segments have all texts", where);
	TAP_IS(sized(one, 1049, GM_RECORD_LIVE) > 0, true,
	       "%s: the first recording has the blocks of before", where);
	TAP_IS(sized(one, 77777, GM_RECORD_ALLOCATE), 0,
	       "%s: the first recording has nothing from after its end", where);
	about = gm_log_read_about(two);
	TAP_OK(about->recording && about->closed && !about->ended,
	       "%s: the second recording was closed as the process ended", where);
	TAP_IS(sized(two, 88888, GM_RECORD_ALLOCATE), 1, "%s: the second recording has its event",
	       where);
	TAP_IS(sized(two, 1 + (PAIRS - 1) % 100, GM_RECORD_ALLOCATE), 0,
	       "%s: the second recording has no event of the first", where);
	about = gm_log_read_about(small);
	TAP_OK(!about->recording && about->closed && about->dropped == 0,
	       "%s: the small log was closed, and lost nothing", where);
	TAP_OK(has_string(small, "of before") && has_string(small, "of both") &&
		       has_string(small, "of the recording alone"),
	       "%s: the small log has the texts of its records", where);
	gm_log_read_close(small);
	gm_log_read_close(one);
	gm_log_read_close(two);
}

/* 64 KiB of texts. */
static bool texts_have_numbers(char first)
{
	char text[1025];
	memset(text, 'x', sizeof text - 1);
	text[1024] = 0;
	text[0] = first;
	for (unsigned i = 0; i < 64; i++) {
		text[1] = (char)('0' + i);
		if (!gm_log_string(text))
			return false;
	}
	return true;
}

static int texts(void *arg)
{
	(void)arg;
	help_config.walk = walk;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	gm_recording_enable();
	if (texts_have_numbers('a'))
		return 2;
	if (!events_begin(1) || !texts_have_numbers('b'))
		return 3;
	gm_log_close();
	return 0;
}

int main(void)
{
	static int unmapped;
	help_begin();
	TAP_IS(help_child("GPUMEM_LOG=small GPUMEM_LOG_LIMIT=32M", record_twice, NULL), 0,
	       "mapped: two recordings are made");
	files_check("mapped");
	unlink("log");
	unlink("log.events");
	unlink("log.events.1");
	TAP_IS(help_child("GPUMEM_LOG=small GPUMEM_LOG_LIMIT=32M", record_twice, &unmapped), 0,
	       "written: two recordings are made");
	files_check("written");
	TAP_IS(help_child("GPUMEM_LOG=small GPUMEM_LOG_LIMIT=32M", texts, NULL), 0,
	       "a recording has texts beyond those of a small log");
	return tap_done();
}
