/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names like those of a preloaded process, as any user can bind them: names N USER PID. Copies the
 * name of that process from the kernel's list of sockets, N times with other numbers, and fills the
 * queue of each. As root it first becomes the user USER. Prints "taken", and keeps the names until
 * its standard input ends.
 */
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* "gpumem1/UID/GPU/PID-": the name without its number. */
static char stem[100];

static void stem_find(const char *pid)
{
	char line[512], mark[32];
	FILE *list = fopen("/proc/net/unix", "r");
	snprintf(mark, sizeof mark, "/%s-", pid);
	while (list && !*stem && fgets(line, sizeof line, list)) {
		char *name = strstr(line, "@gpumem1/"), *at = name ? strstr(name, mark) : NULL;
		if (at)
			snprintf(stem, sizeof stem, "%.*s", (int)(at + strlen(mark) - name - 1),
				 name + 1);
	}
	if (list)
		fclose(list);
}

static int name_take(unsigned number)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s%016x", stem, number);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int guest = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	return bind(fd, (struct sockaddr *)&name, length) || listen(fd, 0) ||
	       connect(guest, (struct sockaddr *)&name, length);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	unsigned n = (unsigned)atoi(argv[1]), user = (unsigned)atoi(argv[2]);
	stem_find(argv[3]);
	if (!*stem || (user != geteuid() && (setgroups(0, NULL) || setresgid(user, user, user) ||
					     setresuid(user, user, user))))
		return 1;
	for (unsigned i = 1; i <= n; i++)
		if (name_take(i))
			return 1;
	puts("taken");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
