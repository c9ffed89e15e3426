/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a misspelled word is from a known one. */
#ifndef GM_BASE_DISTANCE_H
#define GM_BASE_DISTANCE_H

/* Levenshtein's: letters to change, add or take away; UINT_MAX if a word has more than 63. */
unsigned gm_distance(const char *a, const char *b);

#endif
