/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a log. No call here raises a signal (SIGXFSZ is blocked), follows a link, overwrites
 * a file, or uses a descriptor that the program has closed and opened again.
 * pre: GM_LOCK_RANK_LOG is held, or no other thread has the file.
 */
#ifndef GM_LOG_FILE_H
#define GM_LOG_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"
#include "base/fd.h"

/* The words for %h %p %r %j %e in a name. */
struct gm_file_words {
	const char *host, *job, *program;
	int pid, rank;
};

struct gm_file {
	int fd;
	struct gm_fd_identity identity;
	char path[PATH_MAX];
	bool crowded;	    /* the name and the numbered names were taken: `path` is random */
	bool memory;	    /* true: write the file, do not map it */
	const char *system; /* name of the file system that forbids mapping; NULL: other reason, or
			       none */
	uint64_t length;
};

/* The name of the file system with this magic number if its files must not be mapped, else NULL. */
const char *gm_file_unmappable(uint32_t magic);

/* Expand a pattern into `out`; a name that ends in / gets `fallback` appended. False: it is too
 * long. */
bool gm_file_name(char *out, size_t n, const char *pattern, const char *fallback,
		  const struct gm_file_words *words);

/* Create a file, mode 0600; if the name exists, .1, .2 ... .999 or a random number of 16
 * hexadecimal digits is appended. Its first `n` bytes are `first`, written before all else: a
 * process killed after that leaves a recognizable log. 0, or an errno and no file; GM_FILE_SPECIAL:
 * the name is a device, FIFO or socket of this user or root, or any in /dev but not in /dev/shm. */
#define GM_FILE_SPECIAL (-1)
int gm_file_create(struct gm_file *file, const char *name, const void *first, size_t n);

/* Grow the file to `length`, with space reserved on disk unless it is a `memory` one. 0, or an
 * errno and the length as before. */
int gm_file_reserve(struct gm_file *file, uint64_t length);

/* Write `n` bytes. 0 or an errno. */
int gm_file_write(struct gm_file *file, const void *data, size_t n, uint64_t offset);

/* Map a reserved part, shared. NULL with errno set. */
void *gm_file_map(struct gm_file *file, uint64_t offset, size_t size);

/* Shorten the file. pre: no mapping of the removed part is used any more. */
void gm_file_trim(struct gm_file *file, uint64_t length);

/* The text of an error of the functions here. */
const char *gm_file_error(int error);

/* Close and unlink the file of a log that could not begin. */
void gm_file_remove(struct gm_file *file);

void gm_file_close(struct gm_file *file);

/* For tests: treat every file as if it lay on a network file system. */
extern GM_HIDDEN bool gm_file_force_memory;

#endif
