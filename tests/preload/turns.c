/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three processes that each hold 60% of the device, and take turns: turns TURNS KILLS. A turn
 * checks all contents, writes others, and is over when the process is idle; it falls asleep for the
 * next. KILLS times one is killed at random; the other two go on, then a new one takes its place.
 * TEST_SEED repeats the choices.
 */
#include "program.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, BLOCKS = 4, IDLE_POLLS = 1000, GOES_ON = 2 };

/* From a process, after each turn. */
struct report {
	unsigned place, generation, slept;
};

/* --- a process --- */

static CUdeviceptr blocks[BLOCKS];
static size_t size;
static volatile sig_atomic_t ends;

static void end_soon(int signal)
{
	(void)signal;
	ends = 1;
}

/* As in sleeps.c: device memory is host memory here, and is unmapped during a sleep. */
static bool is_awake(void)
{
	int pipe_ends[2];
	if (pipe(pipe_ends) != 0)
		exit(1);
	bool readable = syscall(SYS_write, pipe_ends[1], blocks[BLOCKS - 1], 1) == 1;
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	return readable;
}

static void blocks_write(unsigned turn)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(cuMemsetD8_v2(blocks[i], (unsigned char)(turn * 7 + i), size));
}

static void blocks_check(unsigned turn, unsigned char *host)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		MUST(cuMemcpyDtoH_v2(host, blocks[i], size));
		if (host[0] == (unsigned char)(turn * 7 + i) &&
		    memcmp(host, host + 1, size - 1) == 0)
			continue;
		printf("turn %u: block %u has other contents\n", turn, i);
		exit(1);
	}
}

static bool falls_asleep(void)
{
	for (unsigned i = 0; i < IDLE_POLLS && !ends; i++) {
		if (!is_awake())
			return true;
		usleep(2000);
	}
	return false;
}

static int process_run(struct report report)
{
	size_t left, total;
	unsigned turn = 0;
	struct sigaction action = {.sa_handler = end_soon, .sa_flags = SA_RESTART};
	sigaction(SIGTERM, &action, NULL);
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemGetInfo_v2(&left, &total));
	size = total / 10 * 6 / BLOCKS;
	unsigned char *host = malloc(size);
	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(cuMemAlloc_v2(&blocks[i], size));
	blocks_write(turn);
	while (!ends && host) {
		blocks_check(turn, host);
		blocks_write(++turn);
		if (write(STDOUT_FILENO, &report, sizeof report) != sizeof report)
			return 1;
		report.slept += falls_asleep();
	}
	free(host);
	return 0;
}

/* --- the test --- */

static struct process {
	pid_t pid; /* 0: killed */
	unsigned generation, turns, slept, went_on;
} processes[PROCESSES];
static int reports;

static void fail(const char *what, unsigned place)
{
	printf("process %u %s\n", place, what);
	for (unsigned i = 0; i < PROCESSES; i++)
		if (processes[i].pid)
			kill(processes[i].pid, SIGKILL);
	exit(1);
}

static void process_start(unsigned place, int out)
{
	struct process *p = &processes[place];
	char number[16], generation[16];
	p->generation++;
	p->turns = p->slept = 0;
	snprintf(number, sizeof number, "%u", place);
	snprintf(generation, sizeof generation, "%u", p->generation);
	p->pid = fork();
	if (p->pid)
		return;
	dup2(out, STDOUT_FILENO);
	close(out);
	execl("/proc/self/exe", "turns", "process", number, generation, NULL);
	_exit(1);
}

/* False: none arrived in a while. */
static bool report_read(struct report *report)
{
	struct pollfd fd = {.fd = reports, .events = POLLIN};
	if (poll(&fd, 1, 100) <= 0)
		return false;
	if (read(reports, report, sizeof *report) != sizeof *report)
		fail("has written what is no report", report->place);
	return report->place < PROCESSES &&
	       processes[report->place].generation == report->generation &&
	       processes[report->place].pid;
}

static void processes_look(void)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		int status;
		if (processes[i].pid && waitpid(processes[i].pid, &status, WNOHANG) != 0) {
			processes[i].pid = 0;
			fail("has ended", i);
		}
	}
}

/* Returns the number of turns: 0 or 1. */
static unsigned turn_await(void)
{
	struct report report = {0};
	if (!report_read(&report)) {
		processes_look();
		return 0;
	}
	struct process *p = &processes[report.place];
	p->turns++;
	p->went_on++;
	p->slept = report.slept;
	return 1;
}

static void process_kill(unsigned place)
{
	struct process *p = &processes[place];
	usleep((useconds_t)(rand() % 60) * 1000);
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
	for (unsigned i = 0; i < PROCESSES; i++)
		processes[i].went_on = 0;
}

static bool others_went_on(unsigned killed)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		if (i != killed && processes[i].went_on < GOES_ON)
			return false;
	return true;
}

static bool each_slept(void)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		if (!processes[i].slept)
			return false;
	return true;
}

static void processes_end(void)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		int status;
		kill(processes[i].pid, SIGTERM);
		waitpid(processes[i].pid, &status, 0);
		processes[i].pid = 0;
		if (status != 0)
			fail("failed at its end", i);
	}
}

static int test_run(unsigned turns, unsigned kills)
{
	unsigned done = 0, killed = 0;
	int ends_of_pipe[2];
	const char *seed = getenv("TEST_SEED");
	srand(seed ? (unsigned)atoi(seed) : (unsigned)getpid());
	if (pipe(ends_of_pipe) != 0)
		return 1;
	reports = ends_of_pipe[0];
	for (unsigned i = 0; i < PROCESSES; i++)
		process_start(i, ends_of_pipe[1]);
	while (done < turns || killed < kills || !each_slept()) {
		done += turn_await();
		if (killed == kills || done < (killed + 1) * turns / (kills + 1))
			continue;
		unsigned place = (unsigned)rand() % PROCESSES;
		process_kill(place);
		while (!others_went_on(place))
			done += turn_await();
		process_start(place, ends_of_pipe[1]);
		killed++;
	}
	processes_end();
	printf("%u turns, %u killed\n", done, killed);
	return 0;
}

int main(int n, char **arguments)
{
	if (n == 4 && !strcmp(arguments[1], "process"))
		return process_run((struct report){.place = (unsigned)atoi(arguments[2]),
						   .generation = (unsigned)atoi(arguments[3])});
	return n == 3 ? test_run((unsigned)atoi(arguments[1]), (unsigned)atoi(arguments[2])) : 2;
}
