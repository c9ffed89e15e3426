/* SPDX-License-Identifier: BSD-3-Clause */
/* Edit distance of two words, to suggest the right spelling of a wrong one. */
#ifndef GM_BASE_DISTANCE_H
#define GM_BASE_DISTANCE_H

/* Levenshtein distance: letters to change, add or remove. UINT_MAX if a word has more than 63
 * letters. */
unsigned gm_distance(const char *a, const char *b);

#endif
