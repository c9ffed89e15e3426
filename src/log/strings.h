/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of a log, each kept once. Thread-safe (GM_RANK_STRING); nothing is ever released. */
#ifndef GM_LOG_STRINGS_H
#define GM_LOG_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most this many bytes of text are kept from now on. */
void gm_strings_limit(size_t bytes);

/* The number of `text` (at most `length` bytes of it), from 1; *fresh: it had none before. 0: the
 * limit is reached, or host memory is short. */
uint32_t gm_strings_number(const char *text, size_t length, bool *fresh);

/* The text of a number, or NULL past the last. */
const char *gm_strings_text(uint32_t number, size_t *length);

/* In a forked child, whose parent may have been at work here: start over. */
void gm_strings_forget(void);

#endif
