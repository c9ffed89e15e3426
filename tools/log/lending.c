/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/lending.h"

#include <string.h>

#include "base/size.h"
#include "tools/tool.h"

#define C(name) gm_figures_device(f, d, GM_C_##name)

/* "NAME=VALUE (SOURCE)"; the default is 0, and a value that was refused has no effect. */
static bool knob_is_on(const struct gm_log_about *about)
{
	static const char name[] = "GPUMEM_LEND=";
	for (unsigned i = 0; i < about->n_knobs; i++)
		if (strncmp(about->knobs[i], name, sizeof name - 1) == 0)
			return about->knobs[i][sizeof name - 1] != '0' &&
			       !strstr(about->knobs[i], "; refused: ");
	return false;
}

static void figures_json(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const struct {
		const char *key;
		struct gm_value value;
	} members[] = {
		{"on", GM_BOOL(knob_is_on(f->about))},
		{"calls", GM_COUNT(C(lend_calls))},
		{"taken", GM_BYTES(C(lend_bytes))},
		{"returned", GM_COUNT(C(lend_returned))},
		{"ns", GM_NS(C(lend_ns))},
		{"vacant", GM_BYTES(C(lend_vacant))},
		{"vacant_peak", GM_BYTES(C(lend_vacant_peak))},
		{"host", GM_BYTES(C(lend_host))},
		{"host_peak", GM_BYTES(C(lend_host_peak))},
		{"refused", GM_COUNT(C(lend_refused))},
		{"ended", GM_BOOL(C(lend_off))},
	};
	gm_emit_object(emit, "lending");
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		gm_emit_value(emit, members[i].key, members[i].value);
	gm_emit_end(emit);
}

/* What went wrong: nothing in most runs. */
static void trouble_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d,
			 const char *when)
{
	char now[32], peak[32];
	if (C(lend_host_peak))
		gm_emit_line(emit, "", "%s of tensors in memory of the host %s, %s at most",
			     gm_value_format(GM_BYTES(C(lend_host)), emit->options->unit, now,
					     sizeof now),
			     when,
			     gm_value_format(GM_BYTES(C(lend_host_peak)), emit->options->unit, peak,
					     sizeof peak));
	if (C(lend_refused))
		gm_emit_line(emit, "", "%s tensor%s got no memory: torch.OutOfMemoryError",
			     gm_tool_count(C(lend_refused), now, sizeof now),
			     C(lend_refused) == 1 ? "" : "s");
	if (C(lend_off))
		gm_emit_line(emit, "",
			     "ended: PyTorch's cache did what gpumem does not know of it");
}

void gm_lending_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const char unit = emit->options->unit, *when = f->about->running ? "now" : "at end";
	char taken[32], calls[32], chunks[32], time[32], vacant[32], peak[32];
	figures_json(emit, f, d);
	if (C(lend_bytes)) {
		gm_emit_line(emit, "lending",
			     "%s taken from PyTorch's cache, at %s call%s without memory and for "
			     "tensors; %s chunk%s mapped again in %s",
			     gm_value_format(GM_BYTES(C(lend_bytes)), unit, taken, sizeof taken),
			     gm_tool_count(C(lend_calls), calls, sizeof calls),
			     C(lend_calls) == 1 ? "" : "s",
			     gm_tool_count(C(lend_returned), chunks, sizeof chunks),
			     C(lend_returned) == 1 ? "" : "s",
			     gm_time_format(C(lend_ns), time, sizeof time));
		gm_emit_line(
			emit, "", "saved %s %s, %s at most",
			gm_value_format(GM_BYTES(C(lend_vacant)), unit, vacant, sizeof vacant),
			when,
			gm_value_format(GM_BYTES(C(lend_vacant_peak)), unit, peak, sizeof peak));
	} else if (knob_is_on(f->about) || C(lend_off)) {
		gm_emit_line(emit, "lending", "on; nothing was taken from PyTorch's cache");
	}
	trouble_show(emit, f, d, when);
}
