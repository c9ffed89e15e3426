/* SPDX-License-Identifier: BSD-3-Clause */
/* mutate GOOD BAD SEED: copy a log with damage that SEED determines. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../mutate.h"

int main(int argc, char **argv)
{
	static char good[MUTATE_ROOM], bad[MUTATE_ROOM];
	struct mutate m = {.bytes = bad};
	int from = argc == 4 ? open(argv[1], O_RDONLY) : -1;
	ssize_t n = from < 0 ? -1 : read(from, good, sizeof good);
	int to = n <= 0 ? -1 : open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (to < 0) {
		fprintf(stderr, "usage: mutate GOOD BAD SEED\n");
		return 2;
	}
	mutate(&m, good, (size_t)n, strtoull(argv[3], NULL, 10));
	return write(to, bad, m.n) == (ssize_t)m.n ? 0 : 1;
}
