/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes pickles of Python, protocol 4, for pickle.load and the page pytorch.org/memory_viz. The
 * page knows only the opcodes of numbers, texts, lists, dictionaries and the memo. Values are
 * written in the order of their nesting. The caller checks for write errors. Single-threaded.
 */
#ifndef GM_TOOLS_EXPORT_PICKLE_H
#define GM_TOOLS_EXPORT_PICKLE_H

#include <stdint.h>
#include <stdio.h>

struct gm_pickle {
	FILE *out;
	uint32_t kept; /* number of values in the memo */
};

void gm_pickle_open(struct gm_pickle *pickle, FILE *out);
void gm_pickle_close(struct gm_pickle *pickle);

void gm_pickle_number(struct gm_pickle *pickle, uint64_t number);
void gm_pickle_bool(struct gm_pickle *pickle, int value);
/* A text of a log, escaped to valid UTF-8, at most 64 KiB. */
void gm_pickle_text(struct gm_pickle *pickle, const char *text);

/* Begin an empty list or dictionary. Any number of batches follow, each between _begin and _end: of
 * values, or of pairs of key and value. At most 1000 a batch, because readers buffer it. */
enum { GM_PICKLE_BATCH = 1000 };
void gm_pickle_list(struct gm_pickle *pickle);
void gm_pickle_dict(struct gm_pickle *pickle);
void gm_pickle_begin(struct gm_pickle *pickle);
void gm_pickle_list_end(struct gm_pickle *pickle);
void gm_pickle_dict_end(struct gm_pickle *pickle);
/* Make a tuple of the last two values. */
void gm_pickle_pair(struct gm_pickle *pickle);

/* _keep: store the last value in the memo; returns its number, from 1. _again: write it again. */
uint32_t gm_pickle_keep(struct gm_pickle *pickle);
void gm_pickle_again(struct gm_pickle *pickle, uint32_t number);

/* A frequent text: *number is 0 before the first call, then its number in the memo. */
void gm_pickle_word(struct gm_pickle *pickle, const char *word, uint32_t *number);

#endif
