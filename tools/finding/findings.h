/* SPDX-License-Identifier: BSD-3-Clause */
/* Findings in logs, with remedies: the rules of findings.def. Single-threaded. */
#ifndef GM_TOOLS_FINDING_FINDINGS_H
#define GM_TOOLS_FINDING_FINDINGS_H

#include "tools/log/logs.h"

enum gm_finding_level { GM_FINDING_ERROR, GM_FINDING_WARNING, GM_FINDING_NOTE };

struct gm_finding_rule {
	const char *name;
	enum gm_finding_level level;
	bool ratio; /* the threshold is for value / of, in ppm; else for value */
	uint64_t threshold;
	const char *sentence, *remedy; /* remedy: advice, may be "" */
};

enum { GM_FINDING_PLACE = 160 };

/* The measurement of a rule. `device`: for {device} of the sentence. */
struct gm_finding {
	const struct gm_finding_rule *rule;
	struct gm_value value, of, other;
	unsigned device;
	char place[GM_FINDING_PLACE]; /* a line of the program */
};

enum {
#define GM_FINDING(scope, level, name, unit, threshold, sentence, remedy) GM_FINDING_INDEX_##name,
#include "tools/finding/findings.def"
#undef GM_FINDING
	GM_FINDINGS_MOST
};

/* The findings of one log, or of several together, in the order of findings.def. Returns their
 * number. */
unsigned gm_findings_of_log(struct gm_figures *figures, struct gm_finding out[GM_FINDINGS_MOST]);
unsigned gm_findings_of_logs(struct gm_logs_one *logs, size_t n,
			     struct gm_finding out[GM_FINDINGS_MOST]);

/* The finding about PyTorch's cache that gave up. False: it never did. */
bool gm_findings_of_giveup(struct gm_figures *figures, struct gm_finding *out);

/* The finding's row in findings.def. */
unsigned gm_finding_index(const struct gm_finding *finding);

/* Sentence and remedy: "One. Two." Returns `buf`. */
char *gm_finding_text(const struct gm_finding *finding, char *buf, size_t n);

/* Write the findings of one log: text, or "findings" in JSON. */
void gm_findings_show(struct gm_emit *emit, struct gm_figures *figures);

/* Write the findings of several logs together. Text also has the findings of single logs, each rule
 * once, with the first log that has it. */
void gm_findings_show_many(struct gm_emit *emit, struct gm_logs_one *logs, size_t n);

/* rule_*.c: measure for a rule. False: the rule does not apply. */
#define GM_FINDING_OF_LOG(name) bool gm_rule_##name(struct gm_figures *f, struct gm_finding *out);
#define GM_FINDING_OF_LOGS(name) \
	bool gm_rule_##name(struct gm_logs_one *logs, size_t n, struct gm_finding *out);
#define GM_FINDING(scope, level, name, unit, threshold, sentence, remedy) \
	GM_FINDING_OF_##scope(name)
#include "tools/finding/findings.def"
#undef GM_FINDING
#undef GM_FINDING_OF_LOG
#undef GM_FINDING_OF_LOGS

#endif
