/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of an archive of ar(1) in memory, in the formats of GNU and BSD. Input is untrusted.
 * Single-threaded.
 */
#ifndef GM_TOOLS_COMMAND_ARCHIVE_H
#define GM_TOOLS_COMMAND_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

struct gm_archive {
	const char *at;
	size_t size, next; /* next: offset of the header of the next member */
	const char *names; /* the long names of GNU; NULL: not yet seen */
	size_t names_size;
};

/* Both pointers point into the archive. */
struct gm_archive_member {
	const char *name; /* not terminated */
	size_t name_length;
	const void *at;
	size_t size;
};

bool gm_archive_begins(const void *bytes, size_t size);

/* NULL: success; else the reason why the members cannot be read. */
const char *gm_archive_open(struct gm_archive *archive, const void *bytes, size_t size);

/* The next member; tables of symbols and names are skipped. False: the end, *why is NULL; or an
 * error, *why has the reason. */
bool gm_archive_next(struct gm_archive *archive, struct gm_archive_member *out, const char **why);

#endif
