/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes pickles of Python, protocol 4, as they are read by pickle.load and by the page
 * pytorch.org/memory_viz, which knows the opcodes of numbers, texts, lists, dictionaries and the
 * memo only. Values are written one after the other, as they nest. Errors of writing are left to
 * the caller. Single-threaded.
 */
#ifndef GM_TOOLS_EXPORT_PICKLE_H
#define GM_TOOLS_EXPORT_PICKLE_H

#include <stdint.h>
#include <stdio.h>

struct gm_pickle {
	FILE *out;
	uint32_t kept; /* values in the memo */
};

void gm_pickle_open(struct gm_pickle *pickle, FILE *out);
void gm_pickle_close(struct gm_pickle *pickle);

void gm_pickle_number(struct gm_pickle *pickle, uint64_t number);
void gm_pickle_bool(struct gm_pickle *pickle, int value);
/* A text of a log: escaped, so that it is UTF-8. At most 64 KiB of it. */
void gm_pickle_text(struct gm_pickle *pickle, const char *text);

/* Begin an empty list or dictionary. Then any number of batches of values, or of pairs of key and
 * value, between _begin and _end; a batch has 1000 at most, for readers hold it. */
enum { GM_PICKLE_BATCH = 1000 };
void gm_pickle_list(struct gm_pickle *pickle);
void gm_pickle_dict(struct gm_pickle *pickle);
void gm_pickle_begin(struct gm_pickle *pickle);
void gm_pickle_list_end(struct gm_pickle *pickle);
void gm_pickle_dict_end(struct gm_pickle *pickle);
/* Two values become a tuple. */
void gm_pickle_pair(struct gm_pickle *pickle);

/* Keep the value that was written last; returns its number, from 1. Write it again. */
uint32_t gm_pickle_keep(struct gm_pickle *pickle);
void gm_pickle_again(struct gm_pickle *pickle, uint32_t number);

/* A text that occurs often: *number is 0 at first, then that of the memo. */
void gm_pickle_word(struct gm_pickle *pickle, const char *word, uint32_t *number);

#endif
