/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/sys.h"
#include "copy/crew.h"

#define THREADS 8 /* threads that transfer parts, besides the user's */
#define GONE "the program closed its file, which had no name"

static struct gm_crew crew;

const struct gm_folder_calls gm_folder_system = {gm_sys_fallocate, gm_sys_pwrite, gm_sys_pread};

static void fault_set(struct gm_folder *folder, enum gm_folder_fault fault, const char *text)
{
	folder->fault = fault;
	snprintf(folder->why, sizeof folder->why, "%.60s: %s", folder->path, text);
}

static bool failed(struct gm_folder *folder, int error)
{
	fault_set(folder, GM_FOLDER_FAILED, error == EBADF ? GONE : strerror(error));
	return false;
}

/* --- the file --- */

static int file_make(const char *path, int flags)
{
	return gm_sys_open(path, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC | flags, 0600);
}

static bool file_open(struct gm_folder *folder)
{
	int fd = file_make(folder->path, O_DIRECT);
	if (fd < 0 && errno == EINVAL)
		fd = file_make(folder->path, 0);
	/* A kernel without O_TMPFILE reads the flag as O_DIRECTORY with write access. */
	if (fd < 0 && (errno == EISDIR || errno == EOPNOTSUPP)) {
		fault_set(folder, GM_FOLDER_FAILED, "its file system has no files without a name");
		return false;
	}
	if (fd >= 0)
		fd = gm_fd_raise(fd);
	if (fd < 0 || !gm_fd_identify(fd, &folder->identity))
		return failed(folder, errno);
	folder->fd = fd;
	folder->end = 0;
	return true;
}

static bool file_is_there(const struct gm_folder *folder)
{
	return gm_fd_is(folder->fd, &folder->identity);
}

static void file_close(struct gm_folder *folder)
{
	if (file_is_there(folder))
		gm_sys_close(folder->fd);
}

bool gm_folder_has_room(struct gm_folder *folder, uint64_t bytes)
{
	struct statfs found;
	if (gm_sys_statfs(folder->path, &found) != 0)
		return failed(folder, errno);
	/* Some file systems report no blocks at all. */
	if (found.f_blocks && bytes / (uint64_t)found.f_bsize >= (uint64_t)found.f_bavail)
		return failed(folder, ENOSPC);
	return true;
}

/* --- places --- */

static int room_reserve(const struct gm_folder *folder, uint64_t size)
{
	struct gm_fd_quiet quiet;
	int error = 0;
	gm_fd_quiet_begin(&quiet);
	if (folder->calls->reserve(folder->fd, folder->end, size) != 0)
		error = errno;
	gm_fd_quiet_end(&quiet, error);
	return error == EOPNOTSUPP ? 0 : error; /* else the write reports a lack of room */
}

struct gm_filed *gm_folder_take(struct gm_folder *folder, uint64_t size)
{
	struct gm_filed *filed =
		malloc(sizeof *filed + size / GM_FOLDER_PART * sizeof filed->sums[0]);
	if (!filed) {
		failed(folder, ENOMEM);
		return NULL;
	}
	if (!folder->taken && !file_open(folder)) {
		free(filed);
		return NULL;
	}
	filed->at = folder->end;
	filed->size = size;
	folder->taken += size;
	int error = file_is_there(folder) ? room_reserve(folder, size) : EBADF;
	if (error) {
		gm_folder_give(folder, filed);
		failed(folder, error);
		return NULL;
	}
	folder->end += size;
	return filed;
}

void gm_folder_give(struct gm_folder *folder, struct gm_filed *filed)
{
	folder->taken -= filed->size;
	free(filed);
	if (!folder->taken)
		file_close(folder);
}

/* --- transfers --- */

/* One system call, which may move only a part. */
static ssize_t bytes_try(const struct gm_folder *folder, bool write, char *host, size_t n,
			 uint64_t at)
{
	ssize_t moved;
	do
		moved = write ? folder->calls->write(folder->fd, host, n, at)
			      : folder->calls->read(folder->fd, host, n, at);
	while (moved < 0 && errno == EINTR);
	return moved;
}

/* O_DIRECT may demand more than page alignment. All threads share the flag; any may clear it. */
static void direct_end(const struct gm_folder *folder)
{
	int flags = gm_sys_fcntl(folder->fd, F_GETFL, 0);
	if (flags >= 0 && flags & O_DIRECT)
		gm_sys_fcntl(folder->fd, F_SETFL, flags & ~O_DIRECT);
}

/* Returns 0 or an errno; EIO for a file that ends too early. */
static int bytes_move(const struct gm_folder *folder, bool write, char *host, size_t n, uint64_t at)
{
	while (n) {
		ssize_t moved = bytes_try(folder, write, host, n, at);
		if (moved < 0 && errno == EINVAL) {
			direct_end(folder);
			moved = bytes_try(folder, write, host, n, at);
		}
		if (moved <= 0)
			return moved ? errno : EIO;
		host += moved;
		at += (uint64_t)moved;
		n -= (size_t)moved;
	}
	return 0;
}

static int part_move(const struct gm_folder *folder, bool write, char *host, uint64_t at)
{
	struct gm_fd_quiet quiet;
	gm_fd_quiet_begin(&quiet);
	int error = bytes_move(folder, write, host, GM_FOLDER_PART, at);
	gm_fd_quiet_end(&quiet, error);
	return error;
}

/* Transfer part `i`. */
static void part_transfer(struct gm_folder *folder, unsigned i)
{
	struct gm_transfer *t = &folder->transfer;
	uint64_t part = t->begin / GM_FOLDER_PART + i, at = t->filed->at + part * GM_FOLDER_PART;
	char *host = t->host + i * GM_FOLDER_PART;
	if (t->write)
		t->filed->sums[part] = gm_checksum(host, GM_FOLDER_PART, at);
	int error = part_move(folder, t->write, host, at);
	if (error)
		atomic_store(&t->error, error);
	else if (!t->write && gm_checksum(host, GM_FOLDER_PART, at) != t->filed->sums[part])
		atomic_store(&t->wrong, part + 1);
}

/* Runs on each thread of the crew, and on the user's. */
static void transfer_run(void *arg)
{
	struct gm_folder *folder = arg;
	struct gm_transfer *t = &folder->transfer;
	unsigned i;
	while (!atomic_load(&t->error) &&
	       (i = atomic_fetch_add(&t->next, 1)) < t->size / GM_FOLDER_PART)
		part_transfer(folder, i);
}

void gm_folder_begin(struct gm_folder *folder, struct gm_filed *filed, uint64_t begin, char *host,
		     uint64_t size, bool write)
{
	struct gm_transfer *t = &folder->transfer;
	t->filed = filed;
	t->host = host;
	t->begin = begin;
	t->size = size;
	t->write = write;
	atomic_store(&t->next, 0);
	atomic_store(&t->wrong, 0);
	atomic_store(&t->error, file_is_there(folder) ? 0 : EBADF);
	gm_crew_begin(&crew, THREADS, transfer_run, folder);
}

bool gm_folder_finish(struct gm_folder *folder)
{
	struct gm_transfer *t = &folder->transfer;
	char text[64];
	transfer_run(folder);
	gm_crew_finish(&crew);
	uint64_t wrong = atomic_load(&t->wrong);
	if (atomic_load(&t->error))
		return failed(folder, atomic_load(&t->error));
	if (!wrong)
		return true;
	snprintf(text, sizeof text, "2 MiB at %llu of its file",
		 (unsigned long long)(t->filed->at + (wrong - 1) * GM_FOLDER_PART));
	fault_set(folder, GM_FOLDER_DIFFERS, text);
	return false;
}

void gm_folder_forget(struct gm_folder *folder)
{
	if (folder->taken)
		file_close(folder);
	folder->taken = 0;
	gm_crew_forget(&crew);
}
