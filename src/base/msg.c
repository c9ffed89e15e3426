/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/sys.h"

static atomic_int level_now = GM_MSG_WARN;

static struct gm_fd_identity loaded, followed; /* descriptor 2 */
static bool was_open, has_followed;

/* At load, before the program can open another file as descriptor 2, or bind its first thread to
 * few cores: the library has one constructor. */
__attribute__((constructor)) static void load_begin(void)
{
	gm_cores_begin();
	was_open = gm_fd_identify(STDERR_FILENO, &loaded);
}

void gm_msg_follow(void)
{
	int flags = gm_sys_fcntl(STDERR_FILENO, F_GETFD, 0);
	has_followed =
		flags >= 0 && !(flags & FD_CLOEXEC) && gm_fd_identify(STDERR_FILENO, &followed);
}

static bool stderr_is_open(void)
{
	struct gm_fd_identity output;
	return was_open &&
	       (gm_fd_is(STDERR_FILENO, &loaded) ||
		(has_followed && gm_fd_is(STDERR_FILENO, &followed)) ||
		(gm_fd_identify(STDOUT_FILENO, &output) && gm_fd_is(STDERR_FILENO, &output)));
}

static void stderr_write(const char *line, size_t n)
{
	struct gm_fd_quiet quiet;
	if (!stderr_is_open() || !gm_sys_can_write(STDERR_FILENO))
		return;
	gm_fd_quiet_begin(&quiet);
	gm_fd_quiet_end(&quiet, gm_sys_write(STDERR_FILENO, line, n) < 0 ? errno : 0);
}

void gm_msg_set_level(enum gm_msg_level level)
{
	atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

void gm_msg(enum gm_msg_level level, const char *format, ...)
{
	static const char prefix[] = "gpumem: ";
	char text[1024], line[2048];
	int saved = errno;
	if ((int)level > atomic_load_explicit(&level_now, memory_order_relaxed))
		return;
	size_t at = sizeof prefix - 1;
	__builtin_memcpy(line, prefix, at);
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	gm_escape(text, line + at, sizeof line - at);
	at += strlen(line + at);
	line[at] = '\n';
	stderr_write(line, at + 1);
	errno = saved;
}

bool gm_msg_first(bool *flag)
{
	return !__atomic_exchange_n(flag, true, __ATOMIC_RELAXED);
}

#ifdef GM_DEBUG
#include <stdlib.h>

void gm_debug_failed(const char *file, int line, const char *expression)
{
	gm_msg_set_level(GM_MSG_DEBUG);
	gm_msg(GM_MSG_WARN, "%s:%d: assertion failed: %s", file, line, expression);
	abort();
}
#endif
