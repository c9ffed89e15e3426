/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of a log: its own size, the disk, the small log's one segment. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "base/msg.h"
#include "log/file.h"
#include "log/segment.h"
#include "log/strings.h"
#include "log_help.h"

/* --- rotation --- */

#define TURNS 700000 /* 2 records each: five segments and more */

static int write_much(void *arg)
{
	(void)arg;
	help_config.walk = help_walk;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	help_map(0, GM_GIB);
	for (unsigned i = 0; i < 50; i++) /* alive until the end */
		help_allocate(0, 1000 + i);
	uint32_t mark = gm_log_string("said once, at the very start");
	for (unsigned i = 0; i < TURNS; i++) {
		help_allocate(0, 1 + i % 100);
		help_free(0, help_of[0].n - 1);
		gm_log_poll();
	}
	struct gm_record record = {.string = mark, .device = 255, .kind = GM_RECORD_MARK};
	gm_log_put(&record);
	gm_log_close();
	return 0;
}

/* Live blocks at the end, computed from LIVE, ALLOCATE and FREE alone; their ids are small. */
static unsigned live_by_events(struct gm_log_file *file, uint64_t *events)
{
	static unsigned char born[TURNS + 100];
	struct gm_log_entry entry;
	unsigned live = 0;
	memset(born, 0, sizeof born);
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		*events += r->kind == GM_RECORD_ALLOCATE || r->kind == GM_RECORD_FREE;
		if (r->id >= sizeof born)
			continue;
		if (r->kind == GM_RECORD_ALLOCATE || r->kind == GM_RECORD_LIVE)
			born[r->id] |= 1;
		if (r->kind == GM_RECORD_FREE)
			born[r->id] |= 2;
	}
	for (size_t i = 0; i < sizeof born; i++)
		live += born[i] == 1;
	return live;
}

static const char *text_of_mark(struct gm_log_file *file)
{
	struct gm_log_entry entry;
	const char *text = NULL;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry))
		if (entry.record.kind == GM_RECORD_MARK)
			text = gm_log_read_string(file, entry.record.string);
	return text;
}

static void test_rotation(const char *limit, bool whole)
{
	char knobs[100];
	struct stat st;
	uint64_t events = 0;
	snprintf(knobs, sizeof knobs, "GPUMEM_LOG=events GPUMEM_LOG_LIMIT=%s", limit);
	TAP_IS(help_child(knobs, write_much, NULL), 0, "a log of at most %s is written", limit);
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	const struct gm_log_about *about = gm_log_read_about(file);
	uint64_t written = gm_log_read_counter(file, 0, GM_C_log_records);
	TAP_OK(!stat("log", &st) && (uint64_t)st.st_size <= (whole ? 256 : 32) * GM_MIB,
	       "the log stays within its limit");
	TAP_OK(about->closed && about->torn == 0, "the log is closed, without a torn record");
	TAP_OK(whole == about->complete && whole == (about->dropped == 0),
	       whole ? "nothing was dropped" : "the log says that something was dropped");
	TAP_IS(about->records + about->dropped, written, "dropped records were counted");
	TAP_IS(live_by_events(file, &events), 50, "the remaining records give the live blocks");
	if (whole)
		TAP_IS(events, 2 * TURNS + 50, "every event is there in a log without limit");
	TAP_STR(text_of_mark(file), "said once, at the very start",
		"strings outlive their segment");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_allocate_calls), TURNS + 50,
	       "the counters are whole in a log with a limit");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

/* --- a full disk --- */

static atomic_int signals;

static void on_signal(int signal)
{
	(void)signal;
	signals++;
}

/* Write past a limit of the file size; the program does not see SIGXFSZ. */
static int write_to_limit(void *arg)
{
	struct rlimit limit = {*(uint64_t *)arg, *(uint64_t *)arg};
	sigset_t before, after, pending;
	signal(SIGXFSZ, on_signal);
	setrlimit(RLIMIT_FSIZE, &limit);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return signals ? 3 : 1;
	help_map(0, GM_GIB);
	for (unsigned i = 0; i < 600000; i++) {
		help_allocate(0, 8);
		help_free(0, 0);
		gm_log_poll();
	}
	gm_log_close();
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	sigpending(&pending);
	bool same = true;
	for (int i = 1; i < 64; i++)
		same &= sigismember(&before, i) == sigismember(&after, i);
	return signals || sigismember(&pending, SIGXFSZ) || !same ? 3 : 0;
}

static void test_file_limit(uint64_t limit)
{
	TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_VERBOSE=0", write_to_limit, &limit), 0,
	       "a limit of %ju MiB ends the log, not the program, without a signal",
	       (uintmax_t)(limit / GM_MIB));
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	const struct gm_log_about *about = gm_log_read_about(file);
	TAP_OK(about->dropped > 0 && !about->complete, "the log is marked as incomplete");
	TAP_IS(about->records + about->dropped, 1200001, "every record is there or counted");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_allocate_calls), 600000,
	       "the counters of a full log go on");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

static int say_to_file(void *arg)
{
	int fd = open("said", O_CREAT | O_WRONLY | O_APPEND, 0600);
	dup2(fd, 2);
	gm_msg_follow();
	return write_to_limit(arg);
}

static void test_one_line(void)
{
	char text[1024] = "";
	unsigned lines = 0;
	uint64_t limit = 20 * GM_MIB;
	help_child("GPUMEM_LOG=events", say_to_file, &limit);
	int fd = open("said", O_RDONLY);
	TAP_OK(read(fd, text, sizeof text - 1) > 0 && strstr(text, "File too large"),
	       "the line names the reason for a full file");
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	TAP_IS(lines, 1, "the reason is printed once");
	close(fd);
	unlink("log");
}

static int begin_at_limit(void *arg)
{
	return write_to_limit(arg) == 1 ? 0 : 1;
}

/* Run in a private mount, where that is allowed. */
static int write_to_full_disk(void *arg)
{
	(void)arg;
	mkdir("disk", 0700);
	if (unshare(CLONE_NEWNS) || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "disk", "tmpfs", 0, "size=40m"))
		return 77;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	help_map(0, GM_GIB);
	for (unsigned i = 0; i < 600000; i++) {
		help_allocate(0, 8);
		help_free(0, 0);
		gm_log_poll();
	}
	gm_log_close();
	struct gm_log_file *file;
	char why[256] = "";
	if (!gm_log_read_open("disk/log", &file, why, sizeof why) || !help_check(file))
		return 2;
	const struct gm_log_about *about = gm_log_read_about(file);
	bool right = about->dropped && about->records + about->dropped == 1200001;
	gm_log_read_close(file);
	return right ? 0 : 3;
}

static void test_full_disk(void)
{
	int status = help_child("GPUMEM_LOG=events GPUMEM_LOG_NAME=disk/log GPUMEM_VERBOSE=0",
				write_to_full_disk, NULL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		TAP_OK(true, "a full disk # SKIP mounting is not allowed here");
	else
		TAP_IS(status, 0, "a full disk ends the log, not the program");
}

/* --- the small log --- */

#define SAMPLES 20000

static int write_samples(void *arg)
{
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	help_map(0, GM_MIB);
	help_map(1, GM_MIB);
	for (uint64_t i = 1; i <= SAMPLES; i++) {
		help_sample(0, i * 1000, GM_RECORD_SAMPLE);
		if (i % 100 == 0)
			help_sample(1, i * 1000, GM_RECORD_SAMPLE);
		if (i % 8000 == 0)
			help_sample(0, i * 1000 + 1, GM_RECORD_OUT_OF_MEMORY);
	}
	gm_log_string("after all those samples");
	gm_log_close();
	return 0;
}

static void test_thinning(void)
{
	struct stat st;
	struct gm_log_entry entry;
	uint64_t last[2] = {0}, step[2] = {0}, n[2] = {0}, uneven[2] = {0}, snapshots = 0;
	TAP_IS(help_child("GPUMEM_LOG=small", write_samples, NULL), 0,
	       "20,000 samples are written");
	TAP_OK(!stat("log", &st) && st.st_size <= (off_t)GM_MIB, "20,000 samples fit into 1 MiB");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		unsigned d = r->device % 2;
		snapshots += r->kind == GM_RECORD_OUT_OF_MEMORY;
		if (r->kind != GM_RECORD_SAMPLE)
			continue;
		if (!step[d])
			step[d] = r->time;
		else if (r->time - last[d] != step[d] && r->time != SAMPLES * 1000)
			uneven[d]++;
		last[d] = r->time;
		n[d]++;
	}
	TAP_OK(n[0] > 1000 && n[1] > 10, "many samples of two devices are kept");
	printf("# %ju of %d, and %ju of %d\n", (uintmax_t)n[0], SAMPLES, (uintmax_t)n[1],
	       SAMPLES / 100);
	TAP_OK(uneven[0] == 0 && uneven[1] == 0, "samples are kept at even distances");
	TAP_OK(last[0] == SAMPLES * 1000 && last[1] == SAMPLES * 1000, "the last sample is kept");
	TAP_IS(snapshots, 2, "snapshots are not thinned out");
	TAP_STR(gm_log_read_string(file, 1), "after all those samples",
		"strings are not thinned out");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_samples), SAMPLES, "all samples were counted");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_sampled_ns), (SAMPLES - 1) * 1000,
	       "the samples were counted over the whole time");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

static int write_snapshots(void *arg)
{
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	for (uint64_t i = 1; i <= 5000; i++)
		help_sample(0, i, GM_RECORD_OUT_OF_MEMORY);
	help_sample(0, 6000, GM_RECORD_SAMPLE);
	gm_log_close();
	return 0;
}

static void test_snapshots(void)
{
	TAP_IS(help_child("GPUMEM_LOG=small", write_snapshots, NULL), 0,
	       "5,000 snapshots are written");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	const struct gm_log_about *about = gm_log_read_about(file);
	TAP_OK(about->records > 250, "the first hundreds of snapshots are there");
	TAP_IS(about->records + about->dropped, 5001, "the other snapshots are counted");
	gm_log_read_close(file);
	unlink("log");
}

#define CONTEXTS 5000

static int write_contexts(void *arg)
{
	const struct gm_heap_sample heap = {.heap = 1};
	struct gm_record sample = {.flags = GM_RECORD_LAST, .kind = GM_RECORD_HEAP_SAMPLE};
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	for (uint64_t i = 1; i <= CONTEXTS; i++) {
		const struct gm_record takeover = {.id = i, .kind = GM_RECORD_TAKEOVER};
		gm_counter_add(0, GM_C_takeovers, 1);
		gm_log_put(&takeover);
		gm_log_put_heap(&sample, &heap);
	}
	sample.flags = 0;
	gm_log_put_heap(&sample, &heap); /* not the last of its heap: for event logs only */
	help_sample(0, 1, GM_RECORD_OUT_OF_MEMORY);
	gm_log_close();
	return 0;
}

/* Frequent records of contexts leave room for rare records. */
static void test_contexts(void)
{
	struct gm_log_entry entry;
	unsigned takeovers = 0, heaps = 0, snapshots = 0;
	TAP_IS(help_child("GPUMEM_LOG=small", write_contexts, NULL), 0,
	       "5,000 contexts are written");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	while (gm_log_read_next(file, &entry)) {
		takeovers += entry.record.kind == GM_RECORD_TAKEOVER;
		heaps += entry.record.kind == GM_RECORD_HEAP_SAMPLE;
		snapshots += entry.record.kind == GM_RECORD_OUT_OF_MEMORY;
	}
	TAP_OK(takeovers > 50 && takeovers < CONTEXTS && heaps > 50,
	       "some takeovers and heaps are there");
	TAP_IS(snapshots, 1, "a rare record after frequent ones is kept");
	TAP_IS(gm_log_read_about(file)->dropped, 0, "no record counts as dropped");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_takeovers), CONTEXTS,
	       "all takeovers were counted");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

static void test_file_systems(void)
{
	TAP_STR(gm_file_unmappable(0x6969), "nfs", "files on NFS are not mapped");
	TAP_STR(gm_file_unmappable(0xff534d42), "cifs", "files on CIFS are not mapped");
	TAP_OK(!gm_file_unmappable(0xef53), "files on ext4 are mapped");
}

/* --- strings --- */

static int forget_strings(void *arg)
{
	size_t length;
	(void)arg;
	gm_strings_forget();
	return gm_strings_text(1, &length) ? 1 : 0;
}

static void test_strings(void)
{
	bool fresh;
	size_t length;
	gm_strings_limit(20);
	TAP_IS(gm_strings_number("0123456789", 10, &fresh), 1, "a string gets the number 1");
	TAP_OK(fresh && gm_strings_number("0123456789", 10, &fresh) == 1 && !fresh,
	       "a string gets its number once");
	TAP_IS(gm_strings_number("01234567890", 11, &fresh), 0,
	       "a string past the limit gets no number");
	TAP_IS(gm_strings_number("abcdefghijklm", 10, &fresh), 2,
	       "a string at the limit gets its number");
	TAP_STR(gm_strings_text(2, &length), "abcdefghij", "a string at the limit is cut");
	TAP_OK(!gm_strings_text(3, &length) && !gm_strings_text(0, &length),
	       "other numbers have no text");
	TAP_IS(help_child("", forget_strings, NULL), 0, "a forked child forgets the strings");
}

/* --- a writer that stays in a segment --- */

static void test_stuck_writer(void)
{
	static struct gm_segment segment;
	uint64_t writers;
	gm_segment_enter(&segment);
	TAP_OK(!gm_segment_drain(&segment, false), "a writer that stays inside is waited for");
	TAP_OK(!gm_segment_drain(&segment, true), "the wait has patience, but is not endless");
	TAP_IS(gm_segment_records(&segment, &writers), 0,
	       "the record of a stuck writer is not finished");
	TAP_IS(writers, 1, "one writer is inside a segment");
	gm_segment_leave(&segment, 1);
	TAP_OK(gm_segment_drain(&segment, false), "after its end the writer has left");
	TAP_IS(gm_segment_records(&segment, &writers), 1,
	       "the record of a writer is finished when it has left");
	gm_segment_enter(&segment); /* finds that another segment is current */
	TAP_IS(gm_segment_forget_records(&segment), 1, "a record is forgotten once");
	TAP_IS(gm_segment_records(&segment, &writers), 0, "a forgotten record stays forgotten");
	TAP_IS(writers, 1, "a late writer is inside");
	gm_segment_leave(&segment, 0);
	TAP_OK(gm_segment_drain(&segment, false) && !gm_segment_records(&segment, NULL),
	       "a late writer without a record leaves none");
}

int main(void)
{
	static const char *const ways[] = {"mapped", "written"};
	help_begin();
	for (unsigned i = 0; i < 2; i++) {
		uint64_t nothing = 128 * GM_KIB;
		printf("# logs that are %s\n", ways[i]);
		gm_file_force_memory = i;
		test_rotation("256M", true);
		test_rotation("32M", false);
		test_file_limit(20 * GM_MIB);
		TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_VERBOSE=0", begin_at_limit, &nothing),
		       0, "no space for a beginning: no log, and no signal");
		TAP_OK(access("log", F_OK), "nothing is left behind");
		test_thinning();
		test_snapshots();
	}
	gm_file_force_memory = false;
	test_stuck_writer();
	test_one_line();
	test_full_disk();
	test_contexts();
	test_file_systems();
	test_strings();
	return tap_done();
}
