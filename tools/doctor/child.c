/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks in a child process: a driver may crash or hang, and gpumemstat must not. */
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
#include "tools/doctor/doctor.h"
#include "tools/tool.h"

static void check_keep(struct gm_doctor *doctor, const struct gm_doctor_check *check)
{
	if (!gm_array_push(&doctor->checks, *check)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
}

/* A check is shorter than PIPE_BUF, so its write is atomic. */
static void check_put(struct gm_doctor *doctor, const struct gm_doctor_check *check)
{
	_Static_assert(sizeof *check <= 4096, "atomic in a pipe");
	if (doctor->pipe < 0)
		check_keep(doctor, check);
	else if (write(doctor->pipe, check, sizeof *check) != (ssize_t)sizeof *check)
		_exit(GM_EXIT_FAILED); /* the parent has ended */
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
	check_put(doctor, &check);
}

void gm_doctor_step(struct gm_doctor *doctor, const char *text)
{
	gm_doctor_say(doctor, "", GM_DOCTOR_STEP, "", "%s", text);
}

static _Noreturn void child_answer(int pipe, void (*run)(struct gm_doctor *doctor))
{
	const struct rlimit none = {0, 0};
	struct gm_doctor doctor = {.pipe = pipe};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	dup2(null, STDOUT_FILENO); /* a driver may print */
	run(&doctor);
	_exit(GM_EXIT_OK);
}

/* Wait until the pipe is readable. False: the time `until` came first. */
static bool pipe_wait(int fd, uint64_t until)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	for (;;) {
		uint64_t now = gm_clock_ns(), remaining = until > now ? until - now : 0;
		int ms = remaining / 1000000 < INT32_MAX ? (int)((remaining + 999999) / 1000000)
							 : INT32_MAX;
		int ready = poll(&poll_fd, 1, ms);
		if (ready > 0 || (ready < 0 && errno != EINTR))
			return true;
		if (ready == 0 && gm_clock_ns() >= until)
			return false;
	}
}

/* Take over the child's checks; *step gets the last step begun. False: the child was silent for
 * `timeout` ns. */
static bool pipe_read_checks(struct gm_doctor *doctor, int fd, uint64_t timeout,
			     struct gm_doctor_check *step)
{
	struct gm_doctor_check check;
	for (;;) {
		if (!pipe_wait(fd, gm_clock_ns() + timeout))
			return false;
		ssize_t n = read(fd, &check, sizeof check);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof check)
			return true;
		if (check.state == GM_DOCTOR_STEP)
			*step = check;
		else
			check_keep(doctor, &check);
	}
}

void gm_doctor_child(struct gm_doctor *doctor, const char *name, uint64_t timeout,
		     void (*run)(struct gm_doctor *doctor))
{
	struct gm_doctor_check step = {.text = "its start"};
	int ends[2], status = 0;
	char time[32];
	fflush(NULL);
	pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
	if (pid == 0)
		child_answer(ends[1], run);
	if (pid < 0) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "", "cannot start a process: %s",
			      strerror(errno));
		return;
	}
	close(ends[1]);
	bool silent = !pipe_read_checks(doctor, ends[0], timeout, &step);
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
