/* SPDX-License-Identifier: BSD-3-Clause */
/* Open devices (residency/opened.h): the harmless ones, and those found in this process. */
#include "residency/opened.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../tap.h"

/* The devices of a usual CUDA application. */
static const char *const harmless[] = {
	"/dev/nvidia0",
	"/dev/nvidia15",
	"/dev/nvidiactl",
	"/dev/nvidia-uvm",
	"/dev/null",
	"/dev/nvidia-caps/nvidia-cap1",
	"/dev/zero",
	"/dev/shm/x",
	"/dev/zero (deleted)",
	"/dev/shm/a/b",
	"/dev/pts/3",
	"/dev/nvidia-modeset",
	"/dev/dri/card0",
	"/dev/urandom",
	"/dev/nvidia-uvm-tools",
	"/dev/nvidia-nvlink",
	"/dev/infiniband/rdma_cm",
};

/* Devices whose drivers take addresses of device memory. */
static const char *const harmful[] = {
	"/dev/nvidia-fs0",     "/dev/nvidia-fs15",	"/dev/infiniband/uverbs0",
	"/dev/gdrdrv",	       "/dev/hfi1_0",		"/dev/cxi0",
	"/dev/ajantv20",       "/dev/infiniband/umad0", "/opt/uverbs0",
	"/dev/nvidia-peermem", "/dev/nvidia",
};

static unsigned count_harmless(const char *const *paths, size_t n, unsigned number)
{
	unsigned found = 0;
	for (size_t i = 0; i < n; i++) {
		bool is = gm_opened_is_harmless(paths[i], number);
		found += is;
		printf("# %s: %s\n", paths[i], is ? "harmless" : "not");
	}
	return found;
}

/* A character device with a number outside harmless.def, made or found; NULL: there is none. */
static const char *device_any(char *made)
{
	struct stat found;
	if (mknod(made, S_IFCHR | 0600, makedev(231, 192)) == 0)
		return made;
	return stat("/dev/loop-control", &found) == 0 ? "/dev/loop-control" : NULL;
}

static void open_ones(const char *path)
{
	char name[300] = "";
	int fd = open(path, O_PATH | O_CLOEXEC);
	bool found = gm_opened_find(name, sizeof name);
	TAP_OK(found && strcmp(name, path) == 0, "an open device is found: %s", name);
	char cut[5] = "";
	TAP_OK(gm_opened_find(cut, sizeof cut) && strncmp(cut, path, 4) == 0 && !cut[4],
	       "the name of an open device is cut");
	close(fd);
	TAP_OK(!gm_opened_find(name, sizeof name), "a closed device is not found");
}

/* `last`: the path of the last of 200 mappings; the others are harmless. */
static bool mapped_finds(const char *last, char *name, size_t size)
{
	char file[] = "maps-XXXXXX";
	int fd = mkstemp(file);
	FILE *out = fdopen(fd, "w");
	for (int i = 0; i < 199; i++)
		fprintf(out, "7f2a%08x000-7f2a%08x000 rw-s 00000000 00:06 %d    %s\n", 2 * i,
			2 * i + 1, i,
			i % 3	? "/usr/lib/x86_64-linux-gnu/libc.so.6"
			: i % 2 ? "/dev/nvidia0"
				: "");
	fprintf(out, "7f2affff0000-7f2affff1000 -w-s 00000000 00:06 9    %s\n", last);
	fclose(out);
	bool found = gm_opened_find_mapped(file, name, size);
	unlink(file);
	return found;
}

static void mapped_ones(void)
{
	char name[300] = "";
	TAP_OK(mapped_finds("/dev/infiniband/uverbs1", name, sizeof name) &&
		       strcmp(name, "/dev/infiniband/uverbs1") == 0,
	       "a mapping keeps a device open: %s", name);
	TAP_OK(!mapped_finds("/dev/nvidia-uvm", name, sizeof name) &&
		       !mapped_finds("/srv/dev/gdrdrv", name, sizeof name),
	       "other mappings are harmless");
	TAP_OK(gm_opened_find_mapped("there/is/none", name, sizeof name) &&
		       strcmp(name, "there/is/none") == 0,
	       "an unreadable file is named");
}

int main(void)
{
	size_t n = sizeof harmless / sizeof *harmless, m = sizeof harmful / sizeof *harmful;
	char name[300] = "", made[] = "opened-XXXXXX/uverbs0", path[PATH_MAX];
	TAP_IS(count_harmless(harmless, n, UINT_MAX), n, "devices of every program are harmless");
	TAP_IS(count_harmless(harmful, m, UINT_MAX), 0, "other devices are not harmless");
	TAP_IS(count_harmless(harmful, 1, 195), 1, "a number that Linux assigned tells, too");
	TAP_IS(count_harmless(harmful, 1, 231), 0, "another number is not harmless");
	TAP_OK(!gm_opened_find(name, sizeof name),
	       "a process has no harmful device open at first: %s", name);
	mapped_ones();
	made[13] = '\0';
	if (!mkdtemp(made))
		return 1;
	made[13] = '/';
	const char *device = device_any(made);
	if (device)
		open_ones(realpath(device, path));
	else
		puts("# no device can be made here, and none is there");
	unlink(made);
	made[13] = '\0';
	rmdir(made);
	return tap_done();
}
