/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The destination of messages, and that they do not disturb the program. `stderr CASE [FILE]`
 * brings descriptor 2 into some state, calls cuInit, which reports a bad knob, and then asks for
 * more memory than there is, which is reported, too.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "program.h"

static const char *file;

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void become(int fd, int number)
{
	need(fd >= 0 && dup2(fd, number) == number, "dup2");
	if (fd != number)
		close(fd);
}

static int made(void)
{
	return open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
}

/* --- before cuInit --- */

static void no_reader(void)
{
	int ends[2];
	need(pipe(ends) == 0, "pipe");
	close(ends[0]);
	become(ends[1], 2);
}

static void full(void)
{
	static const char bytes[4096];
	int ends[2];
	need(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "pipe");
	while (write(ends[1], bytes, sizeof bytes) > 0)
		;
	need(fcntl(ends[1], F_SETFL, 0) == 0, "fcntl");
	become(ends[1], 2);
}

static void limit(void)
{
	const struct rlimit full = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
	become(made(), 2);
	need(lseek(2, 4096, SEEK_SET) == 4096 && setrlimit(RLIMIT_FSIZE, &full) == 0, "limit");
}

/* In the background of a terminal that stops background writers. */
static void background(void)
{
	struct termios how;
	int status, terminal = posix_openpt(O_RDWR | O_NOCTTY);
	need(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0, "a terminal");
	const char *name = ptsname(terminal);
	pid_t leader = fork();
	if (leader) {
		need(waitpid(leader, &status, 0) == leader, "waitpid");
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	setsid();
	int fd = open(name, O_RDWR);
	need(fd >= 0 && tcgetattr(fd, &how) == 0, name);
	how.c_lflag |= TOSTOP;
	need(tcsetattr(fd, TCSANOW, &how) == 0, "tcsetattr");
	pid_t job = fork();
	if (job) {
		need(waitpid(job, &status, WUNTRACED) == job, "waitpid");
		if (WIFSTOPPED(status)) {
			printf("stopped by signal %d\n", WSTOPSIG(status));
			kill(job, SIGKILL);
		}
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	setpgid(0, 0);
	become(fd, 2);
}

/* A thread of ours may have a descriptor for a moment, as any thread may. */
static void opened(void)
{
	int fd;
	for (unsigned i = 0; (fd = made()) != 2 && i < 10000; i++) {
		close(fd);
		usleep(1000);
	}
	if (fd != 2)
		printf("descriptor 2 was not free\n");
}

static void redirected(void)
{
	become(made(), 2);
}

static void closed(void)
{
	close(2);
	need(open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) == 2, "open");
}

/* --- after cuInit --- */

static void both(void)
{
	become(made(), 2);
	need(dup2(2, 1) == 1, "dup2");
}

static void reopened(void)
{
	close(2);
	opened();
}

static const struct {
	const char *name;
	void (*before)(void), (*after)(void);
} cases[] = {
	{"plain", NULL, NULL},
	{"no_reader", no_reader, NULL},
	{"full", full, NULL},
	{"limit", limit, NULL},
	{"background", background, NULL},
	{"opened", opened, NULL},
	{"redirected", redirected, NULL},
	{"closed", closed, NULL},
	{"then_opened", NULL, opened},
	{"then_both", NULL, both},
	{"then_reopened", NULL, reopened},
};

static void signals(void)
{
	sigset_t mask, pending;
	need(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigpending(&pending) == 0, "signals");
	for (int i = 1; i < 32; i++)
		if (sigismember(&mask, i) || sigismember(&pending, i))
			printf("signal %d stayed blocked or pending\n", i);
}

int main(int argc, char **argv)
{
	CUdeviceptr p;
	size_t have, total;
	unsigned which = 0;
	alarm(300); /* no endless wait */
	for (unsigned i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			which = i;
	file = argc > 2 ? argv[2] : "";
	if (cases[which].before)
		cases[which].before();
	MUST(cuInit(0));
	use_device(0);
	printf("%s: goes on\n", cases[which].name);
	fflush(stdout);
	if (cases[which].after)
		cases[which].after();
	MUST(cuMemGetInfo_v2(&have, &total));
	bool refused = cuMemAlloc_v2(&p, 2 * total) == CUDA_ERROR_OUT_OF_MEMORY;
	signals();
#ifdef GM_TESTS_COVERAGE_H /* a coverage build writes its counters at exit */
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
#endif
	return refused ? 0 : 3;
}
