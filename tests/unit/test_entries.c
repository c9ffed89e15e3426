/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of a folder (base/entries.h): those that exist, and folders that do not. */
#include "base/entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"

#define FILES 300 /* more than one read of the folder returns */

static char folder[] = "/tmp/test_entries.XXXXXX";

static void file_path(char path[64], int i)
{
	snprintf(path, 64, "%s/uverbs%d", folder, i);
}

struct counted {
	int n, until;
};

static bool count(void *arg, const char *name)
{
	struct counted *counted = arg;
	counted->n += strncmp(name, "uverbs", 6) == 0;
	return counted->n == counted->until;
}

static int visit(struct counted *counted)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY);
	int result = gm_entries_visit(fd, count, counted);
	close(fd);
	return result;
}

int main(void)
{
	struct counted all = {0, -1}, some = {0, 7};
	char path[64];
	if (!mkdtemp(folder))
		return 1;
	TAP_OK(gm_entries_lack(folder, ""), "an empty folder has no entry: dots do not count");
	for (int i = 0; i < FILES; i++) {
		file_path(path, i);
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	TAP_OK(!gm_entries_lack(folder, "uverbs"),
	       "an entry is found by the beginning of its name");
	TAP_OK(gm_entries_lack(folder, "uverbs0x"), "a name that only begins like it is not found");
	errno = 5;
	TAP_OK(gm_entries_lack("/dev/null-missing/none", "uverbs"),
	       "a folder that is missing has none");
	TAP_IS(errno, 5, "errno is the caller's after a folder was missing");
	TAP_OK(!gm_entries_lack("/dev/null", ""),
	       "a file that cannot be read as a folder lacks nothing");
	TAP_IS(visit(&all), 0, "a visit of all entries ends with 0");
	TAP_IS(all.n, FILES, "a visit sees each entry of a large folder once");
	TAP_IS(visit(&some), 1, "a visit that is ended returns 1");
	TAP_IS(some.n, 7, "a visit ends at the entry that ends it");
	TAP_IS(gm_entries_visit(-1, count, &all), -1, "a descriptor that is closed gives -1");
	for (int i = 0; i < FILES; i++) {
		file_path(path, i);
		unlink(path);
	}
	rmdir(folder);
	return tap_done();
}
