/* SPDX-License-Identifier: BSD-3-Clause */
/* The symbols of the stacks in an export. Single-threaded. */
#ifndef GM_TOOLS_EXPORT_STACKS_H
#define GM_TOOLS_EXPORT_STACKS_H

#include "tools/stack/symbols.h"

/* Limit of stack numbers with symbols; only a damaged log has others. */
#define GM_EXPORT_STACKS 65537u

/* Find the symbols of the stacks of all blocks and tensors of at least `least` bytes. Reads the log
 * once. Ends the program when memory is short. The caller frees the symbols. */
void gm_export_symbols(struct gm_symbols *symbols, struct gm_log_file *file, uint64_t least);

#endif
