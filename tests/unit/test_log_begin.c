/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is killed while it makes its log, at every call that reserves space: the file is
 * identifiable at each of these moments.
 */
#include <sys/syscall.h>

#include "log/format.h"
#include "log_help.h"

static unsigned to_kill; /* calls before the process is killed; 0: it is not killed */
static bool before;	 /* kill before the last of these calls, or behind it */

/* Takes the place of the C library's function. */
int posix_fallocate(int fd, off_t offset, off_t length)
{
	bool last = to_kill && --to_kill == 0;
	if (last && before)
		kill(getpid(), SIGKILL);
	int error = syscall(SYS_fallocate, fd, 0, offset, length) ? errno : 0;
	if (last)
		kill(getpid(), SIGKILL);
	return error;
}

static int make_log(void *arg)
{
	(void)arg;
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	gm_log_close();
	return 7;
}

/* False: the log was complete after fewer calls. */
static bool killed(const char *knobs, unsigned call, bool earlier)
{
	char magic[8] = "", why[256] = "";
	struct gm_log_file *file = NULL;
	to_kill = call;
	before = earlier;
	int status = help_child(knobs, make_log, NULL);
	if (!WIFSIGNALED(status)) {
		TAP_OK(WIFEXITED(status) && WEXITSTATUS(status) == 7 && call > 2,
		       "%s: made, by %u calls", knobs, call - 1);
		unlink("log");
		return false;
	}
	const char *where = earlier ? "before" : "behind";
	int fd = open("log", O_RDONLY);
	TAP_OK(fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic &&
		       memcmp(magic, GM_FORMAT_MAGIC, sizeof magic) == 0,
	       "%s: killed %s call %u, it has its magic", knobs, where, call);
	close(fd);
	TAP_OK(!gm_log_read_open("log", &file, why, sizeof why),
	       "a log killed at its start is refused");
	TAP_STR(why,
		"no segment is complete: its process was killed as it began, or is just beginning",
		"the refusal has the right reason");
	unlink("log");
	return true;
}

int main(void)
{
	static const char *const levels[] = {"GPUMEM_LOG=small", "GPUMEM_LOG=events"};
	help_begin();
	for (unsigned i = 0; i < 2; i++)
		for (unsigned call = 1; killed(levels[i], call, true); call++)
			killed(levels[i], call, false);
	return tap_done();
}
