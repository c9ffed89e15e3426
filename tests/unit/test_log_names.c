/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of logs that other files have: nobody can deny a log by taking its names. */
#include <glob.h>

#include "base/msg.h"
#include "log_help.h"

#define STRANGER 54321 /* a user */
#define NUMBERED 1000  /* log, log.1 .. log.999 */

static int make_log(void *arg)
{
	int said = open("said", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	(void)arg;
	if (said < 0 || dup2(said, STDERR_FILENO) < 0)
		return 2;
	gm_msg_follow();
	if (!gm_log_open(&help_config))
		return 1;
	gm_log_close();
	return 0;
}

static void numbered_do(bool make)
{
	for (unsigned i = 0; i < NUMBERED; i++) {
		char name[32];
		snprintf(name, sizeof name, i ? "log.%u" : "log", i);
		int fd = make ? open(name, O_WRONLY | O_CREAT | O_EXCL, 0000) : -1;
		if (make ? fd < 0 : unlink(name))
			perror(name);
		close(fd);
	}
}

static const char *said(void)
{
	static char text[2048];
	int fd = open("said", O_RDONLY);
	ssize_t n = read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fd);
	return text;
}

static void test_numbered(void)
{
	char line[512];
	glob_t found;
	numbered_do(true);
	TAP_IS(help_child("GPUMEM_LOG=small", make_log, NULL), 0,
	       "a log is made when all its numbered names are taken");
	if (!TAP_OK(glob("log.????????????????", 0, NULL, &found) == 0 && found.gl_pathc == 1,
		    "a log without a free number has a name of its own"))
		return;
	snprintf(line, sizeof line,
		 "gpumem: log %s: this name, since its name and those with .1 to .999 are taken\n",
		 found.gl_pathv[0]);
	TAP_STR(said(), line, "one line has the name");
	numbered_do(false);
	TAP_OK(!rename(found.gl_pathv[0], "log"), "the log can be renamed");
	gm_log_read_close(help_open("log"));
	unlink("log");
	globfree(&found);
}

static void fifo_make(void)
{
	if (mkfifo("log", 0666))
		perror("mkfifo");
}

static void link_make(void)
{
	if (symlink("/dev/null", "log"))
		perror("symlink");
}

static void test_special(const char *what, void (*make)(void))
{
	make();
	TAP_IS(WEXITSTATUS(help_child("GPUMEM_LOG=small", make_log, NULL)), 1,
	       "%s of this user is no name for a log", what);
	TAP_STR(said(), "gpumem: log log: not a regular file; the program goes on without one\n",
		"%s: one line says so", what);
	if (lchown("log", STRANGER, STRANGER)) {
		printf("# %s of another user: only root can make it\n", what);
	} else {
		TAP_IS(help_child("GPUMEM_LOG=small", make_log, NULL), 0,
		       "%s of another user only takes the name", what);
		gm_log_read_close(help_open("log.1"));
		unlink("log.1");
	}
	unlink("log");
}

int main(void)
{
	help_begin();
	test_numbered();
	test_special("a FIFO", fifo_make);
	test_special("a link to a device", link_make);
	return tap_done();
}
