/* SPDX-License-Identifier: BSD-3-Clause */
#include "knob/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/msg.h"
#include "base/sys.h"

static const char conf_path[] = GM_CONF_PATH;
static struct gm_conf conf;
static char text[GM_CONF_LONGEST + 1];
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

/* The owner chooses the files to which all users' programs write. A test's file is the user's. */
static bool owner_is_trusted(uid_t owner)
{
	return owner == 0 || (conf.path != conf_path && owner == geteuid());
}

/* O_NONBLOCK of file_open: else opening a FIFO waits for a writer. It changes no read of a regular
 * file. */
static const char *file_read(int fd, size_t *n)
{
	struct stat st;
	*n = 0;
	if (gm_sys_fstat(fd, &st) != 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "not a regular file";
	if (!owner_is_trusted(st.st_uid))
		return "its owner is not root";
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return "others than its owner may write to it";
	ssize_t got = 1;
	while (*n < sizeof text && got) {
		got = gm_sys_read(fd, text + *n, sizeof text - *n);
		if (got < 0 && errno != EINTR)
			return strerror(errno);
		*n += got > 0 ? (size_t)got : 0;
	}
	if (*n > GM_CONF_LONGEST)
		return "larger than 64 KiB";
	return memchr(text, 0, *n) ? "not text" : NULL;
}

static const char *file_open(size_t *n)
{
	*n = 0;
	int fd = gm_sys_open(conf.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? NULL : strerror(errno);
	const char *why = file_read(fd, n);
	gm_sys_close(fd);
	return why;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The text of [from, end) without blanks around it, ended by a zero byte. */
static char *trim(char *from, char *end)
{
	while (end > from && is_blank(end[-1]))
		end--;
	*end = '\0';
	while (is_blank(*from))
		from++;
	return from;
}

static void bad_add(unsigned line, const char *name, const char *value, const char *why)
{
	if (conf.n_bad++ >= GM_CONF_BAD_SHOWN)
		return;
	struct gm_conf_bad *bad = &conf.bad[conf.n_bad - 1];
	bad->line = line;
	/* a long value is cut, the reason is not */
	snprintf(bad->reason, sizeof bad->reason, "%.80s%s" GM_MSG_TEXT "%s%s", name,
		 value ? "=" : "", GM_MSG_CUT(value ? value : ""), *why == ' ' ? "" : ": ", why);
}

static int knob_find(const char *name)
{
	for (int i = 0; i < GM_KNOB_COUNT; i++)
		if (strcmp(name, gm_knob_table[i].name) == 0)
			return i;
	return -1;
}

static void unknown_add(unsigned line, const char *name)
{
	char why[128];
	bad_add(line, name, NULL, gm_knob_unknown(name, why, sizeof why));
}

static void line_read(unsigned line, char *from, char *end)
{
	union gm_knob_value unused;
	char why[256];
	char *name = trim(from, end);
	if (!*name || *name == '#')
		return;
	char *equals = strchr(name, '=');
	if (!equals) {
		bad_add(line, name, NULL, "expected NAME=VALUE");
		return;
	}
	char *value = trim(equals + 1, equals + 1 + strlen(equals + 1));
	name = trim(name, equals);
	int id = knob_find(name);
	if (id < 0) {
		unknown_add(line, name);
	} else if (gm_knob_parse((enum gm_knob_id)id, value, &unused, why, sizeof why)) {
		conf.values[id] = value;
		conf.refused[id] = NULL;
	} else {
		bad_add(line, name, value, why);
		if (!conf.values[id])
			conf.refused[id] = value;
	}
}

static void conf_read(void)
{
	size_t n;
	const char *other = secure_getenv("GPUMEM_TEST_CONF");
	conf.path = other ? other : conf_path;
	if (!*conf.path || getauxval(AT_SECURE))
		return;
	conf.ignored = file_open(&n);
	if (conf.ignored)
		return;
	char *at = text, *last = text + n;
	if (n >= strlen(GM_TEXT_MARK) && memcmp(text, GM_TEXT_MARK, strlen(GM_TEXT_MARK)) == 0)
		at += strlen(GM_TEXT_MARK);
	for (unsigned line = 1; at < last; line++) {
		char *end = memchr(at, '\n', (size_t)(last - at));
		if (!end)
			end = last; /* one byte of `text` is left */
		line_read(line, at, end);
		at = end + 1;
	}
}

const struct gm_conf *gm_conf_get(void)
{
	pthread_once(&read_once, conf_read);
	return &conf;
}
