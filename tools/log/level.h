/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two levels of a program's memory: blocks, and the tensors that PyTorch's cache makes of them.
 * Readers of blocks read tensors by gm_level_view.
 */
#ifndef GM_TOOLS_LOG_LEVEL_H
#define GM_TOOLS_LOG_LEVEL_H

#include "log/read.h"

enum gm_level { GM_LEVEL_BLOCKS, GM_LEVEL_TENSORS };

/* The word for one of them. */
static inline const char *gm_level_name(enum gm_level level)
{
	return level == GM_LEVEL_TENSORS ? "tensor" : "block";
}

/* The highest level of which the log has events. */
static inline enum gm_level gm_level_of(struct gm_log_file *file)
{
	const struct gm_log_about *about = gm_log_read_about(file);
	if (*about->level == 's' || !(about->kept >> GM_RECORD_TENSOR & 1))
		return GM_LEVEL_BLOCKS;
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		if (gm_log_read_counter(file, d, GM_C_tensor_calls))
			return GM_LEVEL_TENSORS;
	return GM_LEVEL_BLOCKS;
}

/* An event of this level as ALLOCATE, FREE or LIVE; kind NONE: it is none of these. */
static inline struct gm_record gm_level_view(enum gm_level level, const struct gm_record *r)
{
	struct gm_record view = *r;
	if (level == GM_LEVEL_BLOCKS)
		return view;
	view.kind = !r->id || r->id == GM_TENSORS_BEFORE ? GM_RECORD_NONE
		    : r->kind == GM_RECORD_TENSOR	 ? GM_RECORD_ALLOCATE
		    : r->kind == GM_RECORD_TENSOR_FREE	 ? GM_RECORD_FREE
		    : r->kind == GM_RECORD_TENSOR_LIVE	 ? GM_RECORD_LIVE
							 : GM_RECORD_NONE;
	return view;
}

#endif
