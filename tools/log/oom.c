/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/oom.h"

#include "tools/tool.h"

static bool record_is_held(const struct gm_record *r)
{
	return r->kind == GM_RECORD_HELD && r->id && r->address && r->device < GM_COUNTER_DEVICES;
}

/* Records of refusals of several threads may alternate in the log. */
static void failures_find(struct gm_log_file *file, struct gm_oom *out)
{
	struct gm_log_entry entry;
	const struct gm_record *r = &entry.record;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		uint64_t *first = record_is_held(r) ? &out->failure[r->device] : NULL;
		if (!first || (*first && *first <= r->id))
			continue;
		*first = r->id;
		out->time[r->device] = r->time;
	}
}

void gm_oom_read(struct gm_log_file *file, struct gm_oom *out)
{
	struct gm_log_entry entry;
	const struct gm_record *r = &entry.record;
	*out = (struct gm_oom){0};
	failures_find(file, out);
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		if (!record_is_held(r) || out->failure[r->device] != r->id)
			continue;
		const struct gm_oom_group group = {.bytes = r->size,
						   .blocks = r->address,
						   .largest = r->held,
						   .stack = r->stack,
						   .device = r->device,
						   .rest = r->flags & GM_RECORD_REST};
		out->stacks = out->stacks || r->stack;
		if (!gm_array_push(&out->groups, group)) {
			gm_tool_error("out of memory");
			exit(GM_EXIT_FAILED);
		}
	}
}

void gm_oom_free(struct gm_oom *oom)
{
	gm_array_free(&oom->groups);
}
