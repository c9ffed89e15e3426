/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/format.h"

bool gm_process_parse(const char *text, int *pid)
{
	char *end;
	errno = 0;
	const unsigned long value = strtoul(text, &end, 10);
	*pid = (int)value;
	return *text >= '0' && *text <= '9' && !*end && !errno && value && value <= INT_MAX;
}

/* What the kernel says of a process. */
struct status {
	bool known;
	char state; /* 'Z': it has ended */
	int own;    /* its number in its own namespace */
	int parent; /* 0: unknown */
};

static struct status status_read(int pid)
{
	struct status status = {.own = pid};
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file)) {
		status.known = true;
		if (sscanf(line, "State: %c", &status.state) == 1)
			continue;
		if (sscanf(line, "PPid: %d", &status.parent) == 1)
			continue;
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (char *at = line + 6, *end;
		     (at += strspn(at, " \t")), isdigit((unsigned char)*at); at = end)
			status.own = (int)strtol(at, &end, 10);
		break;
	}
	if (file)
		fclose(file);
	return status;
}

int gm_process_parent(int pid)
{
	return status_read(pid).parent;
}

void gm_process_program(int pid, char *out, size_t n)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	FILE *file = fopen(path, "re");
	*out = '\0';
	if (file && fgets(out, (int)n, file))
		out[strcspn(out, "\n")] = '\0';
	if (file)
		fclose(file);
}

void gm_process_file(int pid, char *out, size_t n)
{
	char path[64], file[4096];
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	const ssize_t length = readlink(path, file, sizeof file - 1);
	file[length > 0 ? length : 0] = '\0';
	const char *slash = strrchr(file, '/');
	snprintf(out, n, "%s", slash ? slash + 1 : file);
}

char *gm_process_environment(int pid, size_t *n)
{
	enum { MOST = 4 << 20 };
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/environ", pid);
	FILE *file = fopen(path, "re");
	char *text = file ? calloc(1, MOST + 1) : NULL;
	*n = text ? fread(text, 1, MOST, file) : 0;
	if (file)
		fclose(file);
	return text;
}

const char *gm_process_variable(const char *environment, size_t n, const char *name)
{
	const size_t length = strlen(name);
	for (const char *at = environment; at < environment + n; at += strlen(at) + 1)
		if (strncmp(at, name, length) == 0 && at[length] == '=')
			return at + length + 1;
	return NULL;
}

const char *gm_process_why(int pid)
{
	const struct status status = status_read(pid);
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	const int error = dir ? 0 : errno;
	if (dir)
		closedir(dir);
	if (!status.known)
		return "no such process";
	if (status.state == 'Z' || status.state == 'X')
		return "this process has ended";
	if (error == EACCES || error == EPERM)
		return "a process of another user";
	return "libgpumem.so is not in this process, or is off, or it has not used CUDA yet";
}

/* True if the descriptor is open for reading and writing, like a process's own counters. */
static bool descriptor_writes(int pid, const char *number)
{
	char path[400], line[128];
	unsigned flags = 0;
	snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", pid, number);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "flags: %o", &flags) == 1)
			break;
	if (file)
		fclose(file);
	return (flags & O_ACCMODE) == O_RDWR;
}

static bool bytes_read(int fd, void *to, size_t n, uint64_t at)
{
	return pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

static void path_read(const char *link, char *path, size_t n)
{
	const ssize_t length = readlink(link, path, n - 1);
	path[length > 0 ? length : 0] = '\0';
}

/* Add an open file of the process, if it is a log or has counters. */
static void file_add(struct gm_process *process, int own, const char *link, int fd)
{
	struct gm_segment_head head;
	struct gm_page_head page;
	const bool log = bytes_read(fd, &head, sizeof head, 0) &&
			 !memcmp(head.magic, GM_FORMAT_MAGIC, sizeof head.magic);
	const uint64_t at = log ? GM_PAGE_OFFSET : 0;
	if (!bytes_read(fd, &page, sizeof page, at) ||
	    memcmp(page.magic, GM_PAGE_MAGIC, sizeof page.magic) || (int)page.pid != own)
		return;
	if (log && head.level == GM_LEVEL_RECORDING) {
		path_read(link, process->recording, sizeof process->recording);
		return;
	}
	if (log)
		path_read(link, process->log, sizeof process->log);
	if (*process->live && (process->split || page.version != GM_PAGE_SPLIT))
		return;
	snprintf(process->live, sizeof process->live, "%s", link);
	process->at = at;
	process->split = page.version == GM_PAGE_SPLIT;
}

/* Only regular files are opened, because the open of others may wait. */
static void descriptor_add(struct gm_process *process, int own, const char *number)
{
	char link[64];
	struct stat st;
	if ((size_t)snprintf(link, sizeof link, "/proc/%d/fd/%s", process->pid, number) >=
		    sizeof link ||
	    stat(link, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)GM_PAGE_ROOM ||
	    !descriptor_writes(process->pid, number))
		return;
	const int fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	file_add(process, own, link, fd);
	close(fd);
}

bool gm_process_find(int pid, struct gm_process *out)
{
	char folder[64];
	*out = (struct gm_process){.pid = pid};
	snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
	DIR *dir = opendir(folder);
	const int own = dir ? status_read(pid).own : pid;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (isdigit((unsigned char)*entry->d_name))
			descriptor_add(out, own, entry->d_name);
	if (dir)
		closedir(dir);
	return *out->live;
}
