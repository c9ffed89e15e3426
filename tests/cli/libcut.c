/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded: empties the file $CUT after its size has been asked. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fstat(int fd, struct stat *out);
int __fxstat(int version, int fd, struct stat *out);

int fstat(int fd, struct stat *out)
{
	struct stat named;
	const char *path = getenv("CUT");
	int result = fstatat(fd, "", out, AT_EMPTY_PATH);
	if (result == 0 && path && stat(path, &named) == 0 && named.st_dev == out->st_dev &&
	    named.st_ino == out->st_ino && truncate(path, 0) != 0)
		abort();
	return result;
}

/* The fstat of programs built for a glibc before 2.33. */
int __fxstat(int version, int fd, struct stat *out)
{
	(void)version;
	return fstat(fd, out);
}
