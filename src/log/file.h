/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file behind a log. No call here raises a signal (SIGXFSZ is kept away), follows a link,
 * overwrites a file, or touches a descriptor that the program has closed and used again.
 * Not thread-safe: GM_RANK_LOG is held, or nobody else knows the file yet.
 */
#ifndef GM_LOG_FILE_H
#define GM_LOG_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/fd.h"

/* What stands for %h %p %r %j %e in a name. */
struct gm_file_words {
	const char *host, *job, *program;
	int pid, rank;
};

struct gm_file {
	int fd;
	struct gm_fd_identity identity;
	char path[PATH_MAX];
	bool memory; /* on a file system whose files are not to be mapped: write, do not map */
	const char *system; /* the name of that file system; NULL: another reason, or none */
	uint64_t length;
};

/* The name of a file system whose files are not to be mapped, by its magic number; else NULL. */
const char *gm_file_unmappable(uint32_t magic);

/* Expand a pattern; a name that ends in / gets `fallback` appended. False: it is too long. */
bool gm_file_name(char *out, size_t n, const char *pattern, const char *fallback,
		  const struct gm_file_words *words);

/* Make a new file, 0600; where the name is taken, .1, .2 ... is appended. 0 or an errno. */
int gm_file_create(struct gm_file *file, const char *name);

/* Grow the file to `length`, with space reserved on disk but for a `memory` one. 0 or an errno; the
 * file is then as long as before. */
int gm_file_reserve(struct gm_file *file, uint64_t length);

/* Write all of it. 0 or an errno. */
int gm_file_write(struct gm_file *file, const void *data, size_t n, uint64_t offset);

/* Map a part that was reserved, shared; NULL with errno set. */
void *gm_file_map(struct gm_file *file, uint64_t offset, size_t size);

/* Shorten the file. Nobody may touch a mapping of what goes. */
void gm_file_trim(struct gm_file *file, uint64_t length);

/* Close, and unlink: a log that could not begin. */
void gm_file_remove(struct gm_file *file);

void gm_file_close(struct gm_file *file);

/* For tests: treat every file as if it lay on a network file system. */
extern bool gm_file_force_memory;

#endif
