/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A folder for contents that have left a device (GPUMEM_SLEEP_STORE=/FOLDER): one file without a
 * name (O_TMPFILE). The file is closed once it is empty, and ends with the process in any case. Its
 * data bypass the page cache if the file system has O_DIRECT.
 *
 *     file      |------------- filed ------------|--- filed ---| end     reserved room
 *     filed     | PART | PART | PART | PART | PART |     a checksum of each in memory
 *
 * Threads of a crew write and read the parts, while the user is in the driver. A transfer fails if
 * a part that was read has another checksum than when it was written.
 *
 * One user of one folder at a time.
 */
#ifndef GM_RESIDENCY_FOLDER_H
#define GM_RESIDENCY_FOLDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fd.h"

#define GM_FOLDER_PART ((uint64_t)2 << 20) /* bytes; divides the size of filed contents */
#define GM_FOLDER_WHY 128

/* A place in the file. */
struct gm_filed {
	uint64_t at, size;
	uint64_t sums[]; /* checksums of its written parts */
};

/* System calls; a test replaces them by failing ones. */
struct gm_folder_calls {
	int (*reserve)(int fd, uint64_t at, uint64_t size);
	ssize_t (*write)(int fd, const void *from, size_t n, uint64_t at);
	ssize_t (*read)(int fd, void *to, size_t n, uint64_t at);
};
extern const struct gm_folder_calls gm_folder_system;

enum gm_folder_fault { GM_FOLDER_NONE, GM_FOLDER_FAILED, GM_FOLDER_DIFFERS };

/* A transfer of a piece of filed contents. */
struct gm_transfer {
	struct gm_filed *filed;
	char *host;
	uint64_t begin, size; /* in bytes of the contents */
	bool write;
	atomic_uint next;	/* next part */
	atomic_int error;	/* an errno of the system */
	_Atomic uint64_t wrong; /* number of a part that differs, plus 1; 0: none */
};

/* Starts zeroed, except for `path` and `calls`. */
struct gm_folder {
	const char *path; /* NULL: no folder */
	const struct gm_folder_calls *calls;
	uint64_t end;	/* end of the file, bytes */
	uint64_t taken; /* bytes of filed contents; 0: no file */
	int fd;
	struct gm_fd_identity identity; /* of the file */
	struct gm_transfer transfer;
	enum gm_folder_fault fault; /* of the last failed call */
	char why[GM_FOLDER_WHY];    /* the folder, and the cause of the failure */
};

/* Is there room for `bytes`, as far as is known? False: `fault` and `why` are set. */
bool gm_folder_has_room(struct gm_folder *folder, uint64_t bytes);

/* A place for `size` bytes, with reserved room if the file system can. NULL: `fault` and `why` are
 * set. */
struct gm_filed *gm_folder_take(struct gm_folder *folder, uint64_t size);
void gm_folder_give(struct gm_folder *folder, struct gm_filed *filed);

/* Begin to write [begin, +size) of the contents from `host`, or to read it into `host`. Both
 * numbers are multiples of a part; `host` is page-aligned, and the transfer's until
 * gm_folder_finish, which waits. One transfer at a time. False: failure; `fault` and `why` are set,
 * and `host` is undefined. */
void gm_folder_begin(struct gm_folder *folder, struct gm_filed *filed, uint64_t begin, char *host,
		     uint64_t size, bool write);
bool gm_folder_finish(struct gm_folder *folder);

/* In a forked child: the file is the parent's. */
void gm_folder_forget(struct gm_folder *folder);

#endif
