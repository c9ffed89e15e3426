/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions asked in a process of its own: a driver may crash or hang, and gpumemstat must not. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "doctor.h"
#include "tool.h"

static void keep(struct gm_doctor *doctor, const struct gm_doctor_check *check)
{
	if (!gm_array_push(&doctor->checks, *check)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
}

/* Checks are shorter than PIPE_BUF, so each arrives whole. */
static void put(struct gm_doctor *doctor, const struct gm_doctor_check *check)
{
	_Static_assert(sizeof *check <= 4096, "atomic in a pipe");
	if (doctor->pipe < 0)
		keep(doctor, check);
	else if (write(doctor->pipe, check, sizeof *check) != (ssize_t)sizeof *check)
		_exit(GM_EXIT_FAILED); /* nobody listens any more */
}

void gm_doctor_say(struct gm_doctor *doctor, const char *name, enum gm_doctor_state state,
		   const char *remedy, const char *format, ...)
{
	struct gm_doctor_check check = {.state = state};
	va_list args;
	snprintf(check.name, sizeof check.name, "%s", name);
	snprintf(check.remedy, sizeof check.remedy, "%s", remedy);
	va_start(args, format);
	vsnprintf(check.text, sizeof check.text, format, args);
	va_end(args);
	put(doctor, &check);
}

void gm_doctor_step(struct gm_doctor *doctor, const char *what)
{
	gm_doctor_say(doctor, "", GM_DOCTOR_STEP, "", "%s", what);
}

static _Noreturn void answer(int pipe, void (*ask)(struct gm_doctor *doctor))
{
	const struct rlimit none = {0, 0};
	struct gm_doctor doctor = {.pipe = pipe};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	dup2(null, STDOUT_FILENO); /* a driver's words are no part of our output */
	ask(&doctor);
	_exit(GM_EXIT_OK);
}

/* Wait until there is something to read, or `until`. False: it was silent. */
static bool wait_for(int fd, uint64_t until)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	for (;;) {
		uint64_t now = gm_clock_ns(), left = until > now ? until - now : 0;
		int ms = left / 1000000 < INT32_MAX ? (int)((left + 999999) / 1000000) : INT32_MAX;
		int ready = poll(&poll_fd, 1, ms);
		if (ready > 0 || (ready < 0 && errno != EINTR))
			return true;
		if (ready == 0 && gm_clock_ns() >= until)
			return false;
	}
}

/* Take over what is said; `step` becomes the last one that was begun. False: it was silent. */
static bool listen_to(struct gm_doctor *doctor, int fd, uint64_t timeout,
		      struct gm_doctor_check *step)
{
	struct gm_doctor_check check;
	for (;;) {
		if (!wait_for(fd, gm_clock_ns() + timeout))
			return false;
		ssize_t n = read(fd, &check, sizeof check);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof check)
			return true;
		if (check.state == GM_DOCTOR_STEP)
			*step = check;
		else
			keep(doctor, &check);
	}
}

void gm_doctor_apart(struct gm_doctor *doctor, const char *name, uint64_t timeout,
		     void (*ask)(struct gm_doctor *doctor))
{
	struct gm_doctor_check step = {.text = "its start"};
	int ends[2], status = 0;
	char time[32];
	fflush(NULL);
	pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
	if (pid == 0)
		answer(ends[1], ask);
	if (pid < 0) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "", "cannot start a process: %s",
			      strerror(errno));
		return;
	}
	close(ends[1]);
	bool silent = !listen_to(doctor, ends[0], timeout, &step);
	close(ends[0]);
	if (silent)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (silent)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "Is it held up by another process, or broken? dmesg may say more; "
			      "--timeout waits longer.",
			      "no answer in %s from %s", gm_time_format(timeout, time, sizeof time),
			      step.text);
	else if (WIFSIGNALED(status))
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Install the driver anew.",
			      "the driver crashed in %s (%s)", step.text,
			      strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != GM_EXIT_OK)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Install the driver anew.",
			      "the driver ended the process in %s", step.text);
}
