/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/sys.h"

#define NAMES_TRIED 1000

bool gm_file_force_memory;

/*
 * File systems whose files are written, not mapped: on a network a page fault may hang, or raise
 * SIGBUS in the middle of the program; ZFS does not reserve space for posix_fallocate.
 */
static const struct {
	uint32_t magic;
	const char *name;
} unmappable[] = {
	{0x6969, "nfs"},	{0x517b, "smb"},	  {0xff534d42, "cifs"},
	{0xfe534d42, "smb2"},	{0x0bd00bd0, "lustre"},	  {0x47504653, "gpfs"},
	{0x65735546, "fuse"},	{0x00c36400, "ceph"},	  {0x19830326, "beegfs"},
	{0x5346414f, "afs"},	{0x6b414653, "kafs"},	  {0x73757245, "coda"},
	{0x01021997, "9p"},	{0x20030528, "orangefs"}, {0x7461636f, "ocfs2"},
	{0x01161970, "gfs2"},	{0xaad7aaea, "panfs"},	  {0xbeefdead, "snfs"},
	{0x61636673, "acfs"},	{0x786f4256, "vboxsf"},	  {0x2fc12fc1, "zfs"},
	{0xbacbacbc, "vmhgfs"}, {0x013111a8, "ibrix"},
};

const char *gm_file_unmappable(uint32_t magic)
{
	for (size_t i = 0; i < sizeof unmappable / sizeof *unmappable; i++)
		if (magic == unmappable[i].magic)
			return unmappable[i].name;
	return NULL;
}

static const char *system_name(int fd)
{
	struct statfs fs;
	if (gm_file_force_memory || fstatfs(fd, &fs))
		return "unknown";
	return gm_file_unmappable((uint32_t)fs.f_type);
}

/* A container's seccomp filter may refuse fallocate: no space can be reserved then. */
static bool reserve_is_refused(int fd)
{
	struct gm_fd_quiet quiet;
	gm_fd_quiet_begin(&quiet);
	int error = posix_fallocate(fd, 0, 1);
	gm_fd_quiet_end(&quiet, error);
	return error == EPERM || error == EACCES || error == ENOSYS;
}

/* Append `text` with '_' for each slash: a word of the environment is no path. */
static size_t name_put_word(char *out, size_t n, size_t at, const char *text)
{
	for (; *text; text++, at++)
		if (at < n)
			out[at] = *text == '/' ? '_' : *text;
	return at;
}

static size_t name_put_number(char *out, size_t n, size_t at, int number)
{
	char digits[16];
	snprintf(digits, sizeof digits, "%d", number);
	return name_put_word(out, n, at, digits);
}

static size_t name_expand(char *out, size_t n, size_t at, const char *pattern,
			  const struct gm_file_words *words)
{
	for (const char *p = pattern; *p; p++) {
		char letter = *p == '%' ? p[1] : 0;
		if (letter == 'h')
			at = name_put_word(out, n, at, words->host);
		else if (letter == 'e')
			at = name_put_word(out, n, at, words->program);
		else if (letter == 'j')
			at = name_put_word(out, n, at, *words->job ? words->job : "0");
		else if (letter == 'p')
			at = name_put_number(out, n, at, words->pid);
		else if (letter == 'r')
			at = name_put_number(out, n, at, words->rank < 0 ? 0 : words->rank);
		else {
			if (at < n)
				out[at] = *p;
			at++;
			p += letter == '%';
			continue;
		}
		p++;
	}
	return at;
}

bool gm_file_name(char *out, size_t n, const char *pattern, const char *fallback,
		  const struct gm_file_words *words)
{
	size_t length = strlen(pattern);
	size_t at = name_expand(out, n, 0, pattern, words);
	if (!length || pattern[length - 1] == '/')
		at = name_expand(out, n, at, fallback, words);
	if (at >= n)
		return false;
	out[at] = 0;
	return true;
}

/* Reopen the file if the program has closed its descriptor, or opened another file under the
 * number. 0 or an errno. */
static int descriptor_check(struct gm_file *file)
{
	if (gm_fd_is(file->fd, &file->identity))
		return 0;
	int fd = gm_sys_open(file->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0 || !gm_fd_is(fd, &file->identity)) {
		if (fd >= 0)
			gm_sys_close(fd);
		return EBADF;
	}
	file->fd = gm_fd_raise(fd);
	return file->fd < 0 ? EMFILE : 0;
}

/* A `memory` file is not reserved: a lack of space appears when it is written. */
static int file_extend(const struct gm_file *file, uint64_t length)
{
	if (file->memory)
		return gm_sys_ftruncate(file->fd, length) ? errno : 0;
	return posix_fallocate(file->fd, (off_t)file->length, (off_t)(length - file->length));
}

int gm_file_reserve(struct gm_file *file, uint64_t length)
{
	struct gm_fd_quiet quiet;
	int error;
	if (length <= file->length)
		return 0;
	error = descriptor_check(file);
	if (error)
		return error;
	gm_fd_quiet_begin(&quiet);
	do {
		error = file_extend(file, length);
	} while (error == EINTR);
	gm_fd_quiet_end(&quiet, error);
	if (error) /* return a part that was reserved */
		gm_file_trim(file, file->length);
	else
		file->length = length;
	return error;
}

int gm_file_write(struct gm_file *file, const void *data, size_t n, uint64_t offset)
{
	struct gm_fd_quiet quiet;
	const char *from = data;
	int error = descriptor_check(file);
	if (error)
		return error;
	gm_fd_quiet_begin(&quiet);
	while (n && !error) {
		ssize_t done = gm_sys_pwrite(file->fd, from, n, offset);
		if (done > 0) {
			from += done;
			offset += (uint64_t)done;
			n -= (size_t)done;
		} else if (done == 0 || errno != EINTR) {
			error = done ? errno : ENOSPC;
		}
	}
	gm_fd_quiet_end(&quiet, error);
	return error;
}

static bool file_stat(const char *name, int flags, struct stat *out)
{
	int fd = gm_sys_open(name, O_PATH | O_CLOEXEC | flags, 0);
	if (fd < 0)
		return false;
	bool known = gm_sys_fstat(fd, out) == 0;
	gm_sys_close(fd);
	return known;
}

/* Is it a device, a FIFO or a socket, or in /dev? A log beside /dev/null is not what the user
 * meant; nor is one beside /dev/stdout, even if that leads to a regular file. Such a file, or a
 * link to one, that another user made in a common folder only takes the name. */
static bool name_is_special(const char *name)
{
	struct stat st;
	if (strncmp(name, "/dev/", 5) == 0 && strncmp(name, "/dev/shm/", 9) != 0)
		return true;
	if (!file_stat(name, O_NOFOLLOW, &st) || (st.st_uid != 0 && st.st_uid != geteuid()))
		return false;
	if (S_ISLNK(st.st_mode) && !file_stat(name, 0, &st))
		return false;
	return !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Open a new file: file->path. `suffix`: appended to the name. -1: errno. */
static int name_try(struct gm_file *file, const char *name, const char *suffix)
{
	if (snprintf(file->path, sizeof file->path, "%s%s", name, suffix) >=
	    (int)sizeof file->path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return gm_sys_open(file->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* A name that nobody can have taken beforehand. */
static int random_try(struct gm_file *file, const char *name)
{
	uint64_t number;
	char suffix[24];
	if (gm_sys_random(&number, sizeof number) != sizeof number) {
		errno = EEXIST;
		return -1;
	}
	snprintf(suffix, sizeof suffix, ".%016llx", (unsigned long long)number);
	file->crowded = true;
	return name_try(file, name, suffix);
}

/* Open a new file of this name, with a number appended where needed: file->path. -1: errno. */
static int file_open_new(struct gm_file *file, const char *name)
{
	char suffix[24] = "";
	file->crowded = false;
	for (unsigned i = 1; i <= NAMES_TRIED; i++) {
		int fd = name_try(file, name, suffix);
		if (fd >= 0 || errno != EEXIST)
			return fd;
		snprintf(suffix, sizeof suffix, ".%u", i);
	}
	return random_try(file, name);
}

int gm_file_create(struct gm_file *file, const char *name, const void *first, size_t n)
{
	if (name_is_special(name))
		return GM_FILE_SPECIAL;
	int error, fd = file_open_new(file, name);
	if (fd < 0)
		return errno;
	file->length = 0;
	file->fd = gm_fd_raise(fd);
	if (file->fd < 0 || !gm_fd_identify(file->fd, &file->identity))
		error = errno;
	else
		error = gm_file_write(file, first, n, 0);
	if (error) {
		gm_sys_unlink(file->path);
		gm_file_close(file);
		return error;
	}
	file->system = system_name(file->fd);
	file->memory = file->system || reserve_is_refused(file->fd);
	return 0;
}

void *gm_file_map(struct gm_file *file, uint64_t offset, size_t size)
{
	int error = descriptor_check(file);
	if (error) {
		errno = error;
		return NULL;
	}
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)offset);
	return at == MAP_FAILED ? NULL : at;
}

void gm_file_trim(struct gm_file *file, uint64_t length)
{
	if (!descriptor_check(file) && !gm_sys_ftruncate(file->fd, length))
		file->length = length;
}

const char *gm_file_error(int error)
{
	return error == GM_FILE_SPECIAL ? "not a regular file" : strerror(error);
}

void gm_file_remove(struct gm_file *file)
{
	if (!descriptor_check(file))
		gm_sys_unlink(file->path);
	gm_file_close(file);
}

void gm_file_close(struct gm_file *file)
{
	if (file->fd >= 0 && gm_fd_is(file->fd, &file->identity))
		gm_sys_close(file->fd);
	file->fd = -1;
}
