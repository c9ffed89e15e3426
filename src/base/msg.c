/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/msg.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/escape.h"

static atomic_int level_now = GM_MSG_WARN;

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
	ssize_t ignored = write(STDERR_FILENO, line, at + 1);
	(void)ignored;
	errno = saved;
}

bool gm_msg_first(bool *flag)
{
	return !__atomic_exchange_n(flag, true, __ATOMIC_RELAXED);
}

#ifdef GM_DEBUG
#include <stdlib.h>

void gm_debug_failed(const char *file, int line, const char *what)
{
	gm_msg_set_level(GM_MSG_DEBUG);
	gm_msg(GM_MSG_WARN, "%s:%d: assertion failed: %s", file, line, what);
	abort();
}
#endif
