/* SPDX-License-Identifier: BSD-3-Clause */
/* The entries of a folder, read by system calls: no allocation, no lock. Any thread. */
#ifndef GM_BASE_ENTRIES_H
#define GM_BASE_ENTRIES_H

#include <stdbool.h>

/* Call `visit` with the name of each entry that does not begin with a dot, until it returns true.
 * `folder` is an open descriptor, which stays the caller's. Returns 1 if it did, 0 if it never did,
 * -1 if the folder cannot be read to its end. */
int gm_entries_visit(int folder, bool (*visit)(void *arg, const char *name), void *arg);

/* Whether a folder surely has no entry whose name has this beginning: it does not exist, or it was
 * read to its end. Keeps errno. */
bool gm_entries_lack(const char *folder, const char *beginning);

#endif
