/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry: the kernel's list of sockets, /proc/net/unix. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "rpc/wire.h"

#define LISTENS 0x10000u /* a flag of the list: the socket waits for connections */

struct find {
	const unsigned char *gpu; /* NULL: any */
	char stem[80];		  /* with "@", as the list has it */
	size_t n;
	uint32_t net;
	void (*each)(void *arg, const struct gm_rpc_address *address);
	void *arg;
};

/* Parse the GPU of a name, and the slash behind it. */
static bool find_gpu(unsigned char gpu[16], const char **at)
{
	for (unsigned i = 0; i < 16; i++, *at += 2) {
		unsigned byte;
		if (!isxdigit((unsigned char)(*at)[0]) || !isxdigit((unsigned char)(*at)[1]) ||
		    sscanf(*at, "%2x", &byte) != 1)
			return false;
		gpu[i] = (unsigned char)byte;
	}
	return *(*at)++ == '/';
}

/* "0000000000000000: 00000002 00000000 00010000 0005 01 12345 @gpumem1/...": an accepted socket has
 * the same name, but does not listen. */
static void find_line(const struct find *find, const char *line)
{
	struct gm_rpc_address address = {
		.magic = GM_RPC_MAGIC, .user = geteuid(), .net = find->net};
	unsigned flags;
	unsigned long long nonce;
	char rest;
	const char *name = strchr(line, '@'), *rest_of = name;
	if (!name || strncmp(name, find->stem, find->n) != 0)
		return;
	rest_of += find->n;
	if (find->gpu)
		memcpy(address.gpu, find->gpu, sizeof address.gpu);
	else if (!find_gpu(address.gpu, &rest_of))
		return;
	if (sscanf(line, "%*[0-9a-fA-F]: %*x %*x %x", &flags) != 1 || !(flags & LISTENS) ||
	    sscanf(rest_of, "%u-%16llx%c", &address.pid, &nonce, &rest) != 2)
		return;
	address.nonce = nonce;
	if (!gm_rpc_is_mine(&address))
		find->each(find->arg, &address);
}

/* Call find_line for each whole line of the text; returns the length of the remainder. */
static size_t find_lines(const struct find *find, char *text, size_t n)
{
	char *line = text;
	text[n] = '\0';
	for (char *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		find_line(find, line);
	}
	size_t rest = n - (size_t)(line - text);
	memmove(text, line, rest);
	return rest;
}

void gm_rpc_each(const unsigned char gpu[16],
		 void (*each)(void *arg, const struct gm_rpc_address *address), void *arg)
{
	struct find find = {.gpu = gpu, .stem = "@", .each = each, .arg = arg};
	char text[4096];
	size_t have = 0;
	ssize_t n;
	int fd = gm_rpc_user_is_known() ? gm_sys_open("/proc/net/unix", O_RDONLY | O_CLOEXEC, 0)
					: -1;
	if (fd < 0)
		return;
	find.net = gm_wire_net();
	find.n = 1 + gm_wire_stem(find.stem + 1, sizeof find.stem - 1, geteuid(), gpu);
	while ((n = gm_sys_read(fd, text + have, sizeof text - 1 - have)) > 0 ||
	       (n < 0 && errno == EINTR)) {
		have = n > 0 ? find_lines(&find, text, have + (size_t)n) : have;
		if (have == sizeof text - 1) /* no line of ours is that long */
			have = 0;
	}
	gm_sys_close(fd);
}
