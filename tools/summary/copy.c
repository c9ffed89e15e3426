/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between host and devices by the kind of the host's memory. */
#include "base/size.h"
#include "tools/summary/summary.h"
#include "tools/tool.h"

#define N(a) (sizeof(a) / sizeof *(a))

struct kind {
	uint64_t calls, bytes, ns;
};

static struct kind kind_read(const struct gm_figures *f, enum gm_counter calls)
{
	return (struct kind){gm_figures_process(f, calls), gm_figures_process(f, calls + 1),
			     gm_figures_process(f, calls + 2)};
}

static uint64_t less(uint64_t all, uint64_t a, uint64_t b)
{
	return all > a + b ? all - a - b : 0;
}

/* Copies neither staged nor pageable; of small copies an estimate. */
static struct kind kind_remaining(struct kind all, struct kind a, struct kind b)
{
	return (struct kind){less(all.calls, a.calls, b.calls), less(all.bytes, a.bytes, b.bytes),
			     less(all.ns, a.ns, b.ns)};
}

static void kind_row(struct gm_emit *emit, const char *key, struct kind k)
{
	uint64_t rate = k.ns ? (uint64_t)((unsigned __int128)k.bytes * 1000000000u / k.ns) : 0;
	gm_emit_row(emit, key,
		    (struct gm_value[]){GM_COUNT(k.calls), GM_BYTES(k.bytes), GM_NS(k.ns),
					k.ns ? GM_RATE(rate) : GM_NONE});
}

static void kinds_json(struct gm_emit *emit, const struct kind h2d[3], const struct kind d2h[3])
{
	static const struct gm_column columns[] = {
		{"calls", "", 0}, {"bytes", "", 0}, {"ns", "", 0}, {"bytes_per_second", "", 0}};
	static const char *const keys[2][3] = {{"h2d_staged", "h2d_pageable", "h2d_pinned"},
					       {"d2h_staged", "d2h_pageable", "d2h_pinned"}};
	gm_emit_table(emit, "copy_kinds", true, columns, N(columns));
	for (unsigned i = 0; i < 3; i++)
		kind_row(emit, keys[0][i], h2d[i]);
	for (unsigned i = 0; i < 3; i++)
		kind_row(emit, keys[1][i], d2h[i]);
	gm_emit_table_end(emit);
}

void gm_summary_copies(struct gm_emit *emit, const struct gm_figures *f)
{
	struct kind h2d[3] = {kind_read(f, GM_C_copy_h2d_staged_calls),
			      kind_read(f, GM_C_copy_h2d_pageable_calls)};
	struct kind d2h[3] = {kind_read(f, GM_C_copy_d2h_staged_calls),
			      kind_read(f, GM_C_copy_d2h_pageable_calls)};
	uint64_t staged = h2d[0].bytes + d2h[0].bytes;
	uint64_t pageable = staged + h2d[1].bytes + d2h[1].bytes;
	char part[32], all[32], count[32], time[32];
	h2d[2] = kind_remaining(kind_read(f, GM_C_copy_h2d_calls), h2d[0], h2d[1]);
	d2h[2] = kind_remaining(kind_read(f, GM_C_copy_d2h_calls), d2h[0], d2h[1]);
	if (emit->options->json)
		kinds_json(emit, h2d, d2h);
	else if (pageable)
		gm_emit_line(emit, "pageable", "%s of %s staged; %s copies below 64 KiB; %s waited",
			     gm_size_format(staged, part, sizeof part),
			     gm_size_format(pageable, all, sizeof all),
			     gm_tool_count(gm_figures_process(f, GM_C_copy_small_calls), count,
					   sizeof count),
			     gm_time_format(gm_figures_process(f, GM_C_copy_wait_ns), time,
					    sizeof time));
}
