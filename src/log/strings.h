/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of a log, each kept once. Any thread; takes GM_LOCK_RANK_STRING. Texts live as long as
 * the process. */
#ifndef GM_LOG_STRINGS_H
#define GM_LOG_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keep at most `bytes` bytes of text from now on, those kept already included. */
void gm_strings_limit(size_t bytes);

/* The number of `text` (its first `length` bytes), from 1; *fresh: it is new. 0: the limit is
 * reached, or host memory is short. */
uint32_t gm_strings_number(const char *text, size_t length, bool *fresh);

/* May the small log have this text? True at the first call for a number, while all such texts have
 * at most `bytes` bytes. */
bool gm_strings_claim(uint32_t number, size_t bytes);

/* The text of a number; NULL: there is none. */
const char *gm_strings_text(uint32_t number, size_t *length);

/* In a forked child: start empty. The parent may have held the lock. */
void gm_strings_forget(void);

#endif
