/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/export/stacks.h"

#include <stdlib.h>

#include "tools/stack/frames.h"
#include "tools/tool.h"

static const uint32_t stacks_of = 1u << GM_RECORD_ALLOCATE | 1u << GM_RECORD_LIVE |
				  1u << GM_RECORD_TENSOR | 1u << GM_RECORD_TENSOR_LIVE |
				  1u << GM_RECORD_TENSOR_REFUSED | 1u << GM_RECORD_OUT_OF_MEMORY;

void gm_export_symbols(struct gm_symbols *symbols, struct gm_log_file *file, uint64_t least)
{
	struct gm_log_entry entry;
	bool *wanted = calloc(GM_EXPORT_STACKS, sizeof *wanted);
	if (!wanted) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	*symbols = (struct gm_symbols){.file = file};
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		if (r->kind >= 32 || !(stacks_of >> r->kind & 1) || r->size < least ||
		    r->stack >= GM_EXPORT_STACKS || wanted[r->stack])
			continue;
		wanted[r->stack] = true;
		gm_frames_want(symbols, r->stack);
	}
	gm_symbols_resolve(symbols);
	free(wanted);
}
