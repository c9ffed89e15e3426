/* SPDX-License-Identifier: BSD-3-Clause */
/* Round trips through the log: every kind, many threads, killed writers, forks, names. */
#include <pthread.h>

#include "base/escape.h"
#include "base/thread.h"
#include "log/file.h"
#include "log_help.h"

/* Every field of every kind with a value of its own. */
static struct gm_record record_of(unsigned kind)
{
	return (struct gm_record){.time = 1000000 + kind,
				  .address = 0x7f0000000000 + kind,
				  .size = 100 + kind,
				  .held = 512 + kind,
				  .id = 7000 + kind,
				  .context = 30 + kind,
				  .duration = 40 + kind,
				  .hook = (uint16_t)(1 + kind % 2),
				  .status = (uint16_t)kind,
				  .flags = GM_RECORD_ASYNC | GM_RECORD_CONTEXT_GONE,
				  .device = (uint8_t)(kind % 2),
				  .kind = (uint8_t)kind};
}

static const char long_text[] = "a text of more than one slot: void foo::bar<int, (anonymous "
				"namespace)::baz>(float*, unsigned "
				"long), and it goes on, with \xc3\xa4, a tab\tand the end";

static const struct gm_heap_sample heap = {
	.chunks = 3,
	.heap = 0x7e0000000000,
	.growth_longest = 77,
	.growths = {1, 2, 3, 4, 5, 6},
	.live = {[0] = 10, [GM_HEAP_BINS - 1] = UINT32_MAX},
};

/* Does the sample equal the written one, with its length filled in? */
static bool is_heap(const struct gm_heap_sample *sample)
{
	struct gm_heap_sample want = heap;
	want.length = sizeof want;
	return sample && !memcmp(sample, &want, sizeof want);
}

static int write_kinds(void *arg)
{
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	for (unsigned kind = 1; kind <= GM_RECORD_TAKEOVER; kind++) {
		struct gm_record record = record_of(kind);
		if (kind == GM_RECORD_SAMPLE || kind == GM_RECORD_OUT_OF_MEMORY) {
			struct gm_sample sample = help_state(0);
			sample.limit = kind;
			sample.requested = 5;
			sample.handed_out = sample.mapped = 10;
			gm_log_put_sample(&record, &sample);
		} else if (kind == GM_RECORD_HEAP_SAMPLE) {
			gm_log_put_heap(&record, &heap);
		} else if (kind != GM_RECORD_STRING) {
			record.string = kind == GM_RECORD_MARK ? gm_log_string(long_text) : 0;
			gm_log_put(&record);
		}
	}
	bool same = gm_log_string("short") == gm_log_string("short") &&
		    gm_log_string("short") != gm_log_string(long_text);
	errno = 77;
	gm_log_close();
	gm_log_close();
	return same && errno == 77 ? 0 : 2;
}

static void test_kinds(void)
{
	TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_LOG_EVENTS=all", write_kinds, NULL), 0,
	       "a log of every kind is written");
	struct gm_log_file *file = help_open("log");
	struct gm_log_entry entry;
	unsigned kind = 0;
	if (!file)
		return;
	while (gm_log_read_next(file, &entry)) {
		do
			kind++;
		while (kind == GM_RECORD_STRING);
		struct gm_record want = record_of(kind);
		want.thread = entry.record.thread;
		want.string = entry.record.string;
		bool has = kind == GM_RECORD_SAMPLE || kind == GM_RECORD_OUT_OF_MEMORY;
		want.held = !has		       ? want.held
			    : kind == GM_RECORD_SAMPLE ? GM_SAMPLE_POOL
						       : sizeof(struct gm_sample);
		TAP_OK(!memcmp(&want, &entry.record, sizeof want), "kind %u comes back whole",
		       kind);
		TAP_OK(has ? entry.sample && entry.sample->limit == kind &&
				       entry.sample->mapped == 10
			   : !entry.sample,
		       "a record has its sample, if its kind has one");
		TAP_OK(kind == GM_RECORD_HEAP_SAMPLE ? is_heap(entry.heap) : !entry.heap,
		       "a record has its figures of a heap, if its kind has them");
		if (kind == GM_RECORD_MARK)
			TAP_STR(gm_log_read_string(file, entry.record.string), long_text,
				"a record has its text");
	}
	TAP_IS(kind, GM_RECORD_TAKEOVER, "all kinds come back");
	TAP_STR(gm_log_read_string(file, 2), "short", "a string by its number");
	TAP_OK(!gm_log_read_string(file, 3) && !gm_log_read_string(file, 0),
	       "no other number has a string");
	gm_log_read_rewind(file);
	TAP_OK(gm_log_read_next(file, &entry) && entry.record.kind == 1,
	       "records are read again from the start");
	gm_log_read_close(file);
	unlink("log");
}

static int write_about(void *arg)
{
	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("SLURM_PROCID", "0", 1);
	setenv("OMPI_COMM_WORLD_RANK", "3", 1);
	return write_kinds(arg);
}

static void test_about(void)
{
	char host[256], name[64], link[300];
	uint64_t before = gm_clock_ns();
	help_child("GPUMEM_LOG=small GPUMEM_LOG_NAME=%e.%j.%r.%%", write_about, NULL);
	struct gm_log_file *file = help_open("test_log.4711.3.%");
	if (!file)
		return;
	const struct gm_log_about *about = gm_log_read_about(file);
	gethostname(host, sizeof host);
	TAP_STR(about->host, host, "the host is logged");
	TAP_STR(about->program, "test_log", "the program is logged");
	TAP_OK(strstr(about->command, "test_log") != NULL, "the command is logged");
	TAP_STR(about->job, "4711", "the job is logged");
	TAP_IS(about->rank, 3, "the rank is logged");
	TAP_STR(about->mode, "pool", "the mode is logged");
	TAP_STR(about->level, "small", "the level is logged");
	TAP_IS(about->driver_version, 13000, "the driver's version is logged");
	TAP_OK(about->start >= before && about->end >= about->start && about->end <= gm_clock_ns(),
	       "the clock times are in order");
	TAP_OK(about->start_wall > 1500000000000000000u, "the wall clock is logged");
	TAP_OK(about->closed && !about->running, "a closed log is closed, not running");
	TAP_IS(about->n_devices, 2, "the devices are logged");
	TAP_STR(about->devices[0].name, "Simulated one", "a device's name is logged");
	TAP_OK(about->devices[0].uuid[3] == 255 && about->devices[1].total == 16 * GM_GIB,
	       "a device's UUID and memory are logged");
	TAP_OK(about->n_hooks == 2 && !strcmp(about->hooks[1], "cuMemFree_v2"),
	       "the hooks are logged");
	bool found = false;
	for (unsigned i = 0; i < about->n_knobs; i++)
		found |= !strcmp(about->knobs[i], "GPUMEM_LOG=small (environment)");
	TAP_OK(found, "the knobs are logged");
	gm_log_read_close(file);
	snprintf(link, sizeof link, "%s/folder/", help_folder);
	mkdir("folder", 0700);
	snprintf(name, sizeof name, "GPUMEM_LOG=small GPUMEM_LOG_NAME=folder/");
	help_child(name, write_kinds, NULL);
	DIR *dir = opendir("folder");
	unsigned n = 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		n += !strncmp(entry->d_name, "gpumem.", 7) && strstr(entry->d_name, ".gml");
	closedir(dir);
	TAP_IS(n, 1, "a name that ends in / is a folder");
}

static void test_names(void)
{
	char out[32];
	struct gm_file_words words = {"ho/st", "", "prog", 12, -1};
	TAP_OK(gm_file_name(out, sizeof out, "%h.%p.%r.%j.%e", "x", &words), "a name is expanded");
	TAP_STR(out, "ho_st.12.0.0.prog", "words have no slash, and 0 stands for no rank and job");
	TAP_OK(gm_file_name(out, sizeof out, "d/", "%p.gml", &words), "a folder is expanded");
	TAP_STR(out, "d/12.gml", "a folder gets the default name");
	TAP_OK(gm_file_name(out, sizeof out, "%%p%", "x", &words), "a percent sign is expanded");
	TAP_STR(out, "%p%", "two percent signs give one, and a final one stays");
	TAP_OK(!gm_file_name(out, 8, "%p345678", "x", &words),
	       "a name that is too long is refused");
}

#define THREADS 64
#define EACH 10000
static pthread_barrier_t barrier;

static void *put_many(void *arg)
{
	uint64_t me = (uintptr_t)arg;
	pthread_barrier_wait(&barrier);
	for (uint64_t i = 0; i < EACH; i++) {
		struct gm_record record = {.address = me,
					   .size = i,
					   .id = me * EACH + i,
					   .held = ~(me * EACH + i),
					   .kind = GM_RECORD_COPY};
		gm_log_put(&record);
	}
	return NULL;
}

static int write_threads(void *arg)
{
	pthread_t threads[THREADS];
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, put_many, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	gm_log_close();
	return 0;
}

static void test_threads(const char *knobs)
{
	static unsigned char seen[THREADS * EACH];
	unsigned good = 0, double_ones = 0, disorder = 0;
	uint64_t last = 0;
	struct gm_log_entry entry;
	memset(seen, 0, sizeof seen);
	TAP_IS(help_child(knobs, write_threads, NULL), 0, "64 threads write at once");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		if (r->id >= THREADS * EACH || r->held != ~r->id ||
		    r->id != r->address * EACH + r->size)
			continue;
		good++;
		double_ones += seen[r->id]++;
		disorder += r->time < last;
		last = r->time;
	}
	TAP_IS(good, THREADS * EACH, "every record is found");
	TAP_IS(double_ones, 0, "every record is found once");
	TAP_IS(disorder, 0, "records are in order of time");
	const struct gm_log_about *about = gm_log_read_about(file);
	TAP_OK(about->dropped == 0 && about->torn == 0 && about->complete, "no record is missing");
	TAP_IS(gm_log_read_counter(file, 0, GM_C_log_records), THREADS * EACH,
	       "all records are counted");
	TAP_OK(help_check(file), "the numbers add up");
	gm_log_read_close(file);
	unlink("log");
}

static off_t length(void)
{
	struct stat st;
	return stat("log", &st) ? 0 : st.st_size;
}

/* Fills a segment and most of the next one. Returns 0 if the file grew only in polls, while a
 * segment was nearly full. */
static int write_two(void *arg)
{
	unsigned grown_at[2], n = 0;
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	off_t was = length(), now;
	for (unsigned i = 0; i < 3000000 && n < 2; i++, was = now) {
		struct gm_record record = {.kind = GM_RECORD_COPY, .id = i};
		gm_log_put(&record);
		if (length() != was)
			return 2;
		gm_log_poll();
		if ((now = length()) > was)
			grown_at[n++] = i;
	}
	gm_log_close();
	return n < 2 ? 3 : grown_at[0] < (grown_at[1] - grown_at[0]) / 2 ? 4 : 0;
}

static void test_spare(void)
{
	TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_LOG_EVENTS=all", write_two, NULL), 0,
	       "polls make room for the next records, shortly before it is needed");
	unlink("log");
}

/* Allocate and free for ever; tell the parent after a while. */
static int write_until_killed(void *arg)
{
	int tell = *(int *)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	help_map(0, 64 * GM_MIB);
	for (unsigned i = 0;; i++) {
		help_allocate(0, 100 + i % 1000);
		if (help_of[0].n > 100)
			help_free(0, i % 100);
		if (i == 50000 && write(tell, "x", 1) != 1)
			return 1;
		gm_log_poll();
	}
}

static void test_kill(void)
{
	int tell[2];
	char byte;
	struct gm_log_entry entry;
	uint64_t allocated = 0;
	if (pipe(tell))
		return;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("GPUMEM_LOG", "events", 1);
		setenv("GPUMEM_LOG_NAME", "log", 1);
		_exit(write_until_killed(&tell[1]));
	}
	TAP_IS(read(tell[0], &byte, 1), 1, "a child writes a log until it is killed");
	struct gm_log_file *file = help_open("log");
	if (file) {
		const struct gm_log_about *about = gm_log_read_about(file);
		TAP_OK(about->running && !about->closed, "the log is seen to run");
		TAP_OK(gm_log_read_counter(file, 0, GM_C_allocate_calls) >= 50000,
		       "the counters of a running log can be read");
		TAP_OK(help_check(file),
		       "the numbers of a running log add up, but for calls in flight");
		gm_log_read_close(file);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	file = help_open("log");
	if (!file)
		return;
	const struct gm_log_about *about = gm_log_read_about(file);
	while (gm_log_read_next(file, &entry))
		allocated += entry.record.kind == GM_RECORD_ALLOCATE;
	uint64_t calls = gm_log_read_counter(file, 0, GM_C_allocate_calls);
	TAP_OK(!about->running && !about->closed, "killed: neither running nor closed");
	if (!about->dropped)
		TAP_OK(calls == allocated || calls == allocated + 1,
		       "every event up to the end is there");
	TAP_OK(help_check(file), "the numbers of a killed log add up");
	gm_log_read_close(file);
	unlink("log");
	close(tell[0]);
	close(tell[1]);
}

/* How many descriptors of this process are of the file. */
static unsigned descriptors_of(const char *name)
{
	unsigned n = 0;
	struct stat of, is;
	DIR *folder = opendir("/proc/self/fd");
	if (stat(name, &of) != 0)
		return 0;
	for (struct dirent *e; folder && (e = readdir(folder));)
		n += fstat(atoi(e->d_name), &is) == 0 && is.st_dev == of.st_dev &&
		     is.st_ino == of.st_ino;
	if (folder)
		closedir(folder);
	return n;
}

/* A forked child drops the log, gives its file up, and can open its own. */
static int write_and_fork(void *arg)
{
	int status;
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config) || descriptors_of("log") != 1)
		return 1;
	help_map(0, GM_MIB);
	help_allocate(0, 1000);
	pid_t pid = fork();
	if (pid == 0) {
		gm_thread_forget();
		gm_log_forget();
		gm_counters_forget();
		help_allocate(0, 2000);
		if (gm_log_path() || gm_log_wants(GM_RECORD_ALLOCATE) || descriptors_of("log"))
			_exit(1);
		memset(help_of, 0, sizeof help_of);
		gm_counters_forget();
		gm_counters_open();
		if (!gm_log_open(&help_config) || !gm_log_wants(GM_RECORD_ALLOCATE))
			_exit(2);
		help_map(0, GM_MIB);
		help_allocate(0, 3000);
		gm_log_close();
		_exit(strcmp(gm_log_path(), "log.1") ? 3 : 0);
	}
	waitpid(pid, &status, 0);
	help_allocate(0, 4000);
	gm_log_close();
	return WEXITSTATUS(status);
}

static void test_fork(const char *knobs)
{
	static const uint64_t sizes[2][2] = {{1000, 4000}, {3000, 0}};
	TAP_IS(help_child(knobs, write_and_fork, NULL), 0, "a program forks while it logs");
	for (unsigned i = 0; i < 2; i++) {
		struct gm_log_file *file = help_open(i ? "log.1" : "log");
		struct gm_log_entry entry;
		unsigned n = 0, good = 0;
		if (!file)
			return;
		while (gm_log_read_next(file, &entry))
			if (entry.record.kind == GM_RECORD_ALLOCATE)
				good += n < 2 && entry.record.size == sizes[i][n++];
		TAP_IS(good, i ? 1 : 2, "%s has its own events, no others",
		       i ? "the child" : "the parent");
		TAP_OK(n == good && help_check(file), "the events agree with the counters");
		gm_log_read_close(file);
		unlink(i ? "log.1" : "log");
	}
}

static void test_files(void)
{
	struct stat st;
	char text[8] = "";
	umask(0);
	help_child("GPUMEM_LOG=small", write_kinds, NULL);
	TAP_OK(!stat("log", &st) && (st.st_mode & 07777) == 0600,
	       "a log is readable by its owner only");
	TAP_OK(st.st_size <= (off_t)GM_MIB, "a small log has at most 1 MiB");
	help_child("GPUMEM_LOG=small", write_kinds, NULL);
	TAP_OK(!access("log.1", F_OK), "a second log of the name gets another one");
	unlink("log");
	unlink("log.1");
	int fd = open("precious", O_CREAT | O_RDWR, 0600);
	TAP_IS(write(fd, "gold", 4), 4, "a file is written");
	TAP_OK(!symlink("precious", "log"), "a link to it has the name of the log");
	help_child("GPUMEM_LOG=events", write_kinds, NULL);
	TAP_OK(pread(fd, text, sizeof text, 0) == 4 && !strcmp(text, "gold"),
	       "the link is not followed");
	TAP_OK(!access("log.1", F_OK), "the log gets another name");
	unlink("log");
	unlink("log.1");
	close(fd);
	TAP_IS(help_child("GPUMEM_LOG=small GPUMEM_LOG_NAME=no/such/folder/x GPUMEM_VERBOSE=0",
			  write_kinds, NULL),
	       256, "a log that cannot be written is refused, and the program goes on");
	TAP_IS(help_child("GPUMEM_LOG=off", write_kinds, NULL), 512, "off: no strings are kept");
	TAP_OK(access("log", F_OK), "off: there is no file");
}

/* The program closes our descriptor and opens its own file under that number. */
static int write_over_closed(void *arg)
{
	int mine = open("precious", O_RDWR);
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	for (int fd = 3; fd < 1024; fd++)
		if (fd != mine && close(fd) == 0)
			dup2(mine, fd);
	for (unsigned i = 0; i < 600000; i++) {
		struct gm_record record = {.kind = GM_RECORD_COPY, .id = i};
		gm_log_put(&record);
		gm_log_poll();
	}
	gm_log_close();
	return 0;
}

static void test_closed(void)
{
	struct stat st;
	TAP_IS(help_child("GPUMEM_LOG=events GPUMEM_LOG_EVENTS=all", write_over_closed, NULL), 0,
	       "a program closes all descriptors and uses them again");
	TAP_OK(!stat("precious", &st) && st.st_size == 4, "the program's files do not change");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	TAP_IS(gm_log_read_about(file)->records, 600000, "the log is complete");
	TAP_OK(help_check(file), "the numbers of the log add up");
	gm_log_read_close(file);
	unlink("log");
}

static void test_escape(void)
{
	char out[64];
	gm_escape("a\x1b[31m\n\t\\\x7f\xc3\xa4\xff\xe2\x80\xae.", out, sizeof out);
	TAP_STR(out, "a\\x1b[31m\\n\\t\\\\\\x7f\xc3\xa4\\xff\\xe2\\x80\\xae.",
		"control characters are escaped");
	TAP_IS(gm_escape("ab\x01", out, 5), 6, "the complete length is returned");
	TAP_STR(out, "ab", "no escape is cut");
	TAP_IS(gm_escape("abc", NULL, 0), 3, "the length alone is returned without a buffer");
}

int main(void)
{
	static const char *const memory_or_not[] = {"mapped", "written"};
	static const char *const all = "GPUMEM_LOG=events GPUMEM_LOG_EVENTS=all";
	help_begin();
	test_names();
	for (unsigned i = 0; i < 2; i++) {
		printf("# logs that are %s\n", memory_or_not[i]);
		gm_file_force_memory = i;
		test_kinds();
		test_threads(all);
		test_fork(all);
	}
	gm_file_force_memory = false;
	test_about();
	test_spare();
	test_kill();
	test_files();
	test_closed();
	test_escape();
	return tap_done();
}
