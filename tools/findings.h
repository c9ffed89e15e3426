/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands out in logs, and what to do about it: the rules of findings.def. */
#ifndef GM_TOOLS_FINDINGS_H
#define GM_TOOLS_FINDINGS_H

#include "logs.h"

enum gm_finding_level { GM_FINDING_ERROR, GM_FINDING_WARNING, GM_FINDING_NOTE };

struct gm_finding_rule {
	const char *name;
	enum gm_finding_level level;
	bool ratio; /* the threshold is for value / of, in ppm; else for value */
	uint64_t threshold;
	const char *sentence, *remedy; /* remedy: what to do; may be "" */
};

/* What a rule measured. `device` counts for sentences that name one. */
struct gm_finding {
	const struct gm_finding_rule *rule;
	struct gm_value value, of, other;
	unsigned device;
};

enum {
#define GM_FINDING(scope, level, name, unit, threshold, sentence, remedy) GM_FINDING_INDEX_##name,
#include "findings.def"
#undef GM_FINDING
	GM_FINDINGS_MOST
};

/* The findings of one log, or of several taken together, in the order of findings.def; returns how
 * many. */
unsigned gm_findings_of_log(struct gm_figures *figures, struct gm_finding out[GM_FINDINGS_MOST]);
unsigned gm_findings_of_logs(struct gm_logs_one *logs, size_t n,
			     struct gm_finding out[GM_FINDINGS_MOST]);

/* The sentence, and what to do: "One. Two." Returns `buf`. */
char *gm_finding_text(const struct gm_finding *finding, char *buf, size_t n);

/* Write the findings of one log: text, and "findings" in JSON. */
void gm_findings_show(struct gm_emit *emit, struct gm_figures *figures);

/* Of several: those of them together, and in text each that one of them has, with the first that
 * has it. */
void gm_findings_show_many(struct gm_emit *emit, struct gm_logs_one *logs, size_t n);

/* rule_log.c, rule_logs.c: measure for a rule. False: it does not apply. */
#define GM_FINDING_OF_LOG(name) bool gm_rule_##name(struct gm_figures *f, struct gm_finding *out);
#define GM_FINDING_OF_LOGS(name) \
	bool gm_rule_##name(struct gm_logs_one *logs, size_t n, struct gm_finding *out);
#define GM_FINDING(scope, level, name, unit, threshold, sentence, remedy) \
	GM_FINDING_OF_##scope(name)
#include "findings.def"
#undef GM_FINDING
#undef GM_FINDING_OF_LOG
#undef GM_FINDING_OF_LOGS

#endif
