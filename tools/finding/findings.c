/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/finding/findings.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 512, COUNT = 0, RATIO = 1 };

static const struct row {
	struct gm_finding_rule rule;
	bool (*of_log)(struct gm_figures *f, struct gm_finding *out);
	bool (*of_logs)(struct gm_logs_one *logs, size_t n, struct gm_finding *out);
} rows[GM_FINDINGS_MOST] = {
#define OF_LOG(name) gm_rule_##name, NULL
#define OF_LOGS(name) NULL, gm_rule_##name
#define GM_FINDING(scope, level, name, unit, threshold, sentence, remedy)                        \
	{{#name, GM_FINDING_##level, (unit),                                                     \
	  (unit) == RATIO ? (uint64_t)((threshold)*1e6 + 0.5) : (uint64_t)(threshold), sentence, \
	  remedy},                                                                               \
	 OF_##scope(name)},
#include "tools/finding/findings.def"
#undef GM_FINDING
#undef OF_LOG
#undef OF_LOGS
};

/* True if the measurement reaches the threshold. A ratio to 0 reaches it with any value but 0. */
static bool finding_reaches(const struct gm_finding *finding)
{
	const struct gm_finding_rule *rule = finding->rule;
	if (!rule->ratio)
		return finding->value.n >= rule->threshold;
	return finding->value.n && (unsigned __int128)finding->value.n * 1000000 >=
					   (unsigned __int128)finding->of.n * rule->threshold;
}

unsigned gm_findings_of_log(struct gm_figures *figures, struct gm_finding out[GM_FINDINGS_MOST])
{
	unsigned n = 0;
	for (size_t i = 0; i < GM_FINDINGS_MOST; i++) {
		if (n && *figures->about->damage) /* the rule of damage, which is the first */
			break;
		out[n] = (struct gm_finding){.rule = &rows[i].rule};
		n += rows[i].of_log && rows[i].of_log(figures, &out[n]) && finding_reaches(&out[n]);
	}
	return n;
}

bool gm_findings_of_giveup(struct gm_figures *figures, struct gm_finding *out)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	const unsigned n =
		gm_figures_giveup(figures, -1) ? gm_findings_of_log(figures, findings) : 0;
	for (unsigned i = 0; i < n; i++)
		if (strncmp(findings[i].rule->name, "torch_oom_", 10) == 0) {
			*out = findings[i];
			return true;
		}
	return false;
}

unsigned gm_findings_of_logs(struct gm_logs_one *logs, size_t count,
			     struct gm_finding out[GM_FINDINGS_MOST])
{
	unsigned n = 0;
	for (size_t i = 0; i < GM_FINDINGS_MOST; i++) {
		out[n] = (struct gm_finding){.rule = &rows[i].rule};
		n += rows[i].of_logs && rows[i].of_logs(logs, count, &out[n]) &&
		     finding_reaches(&out[n]);
	}
	return n;
}

unsigned gm_finding_index(const struct gm_finding *finding)
{
	return (unsigned)((const struct row *)finding->rule - rows);
}

/* The text for a word in braces; "": unknown word. */
static const char *word_value(const struct gm_finding *finding, const char *name, size_t n,
			      char *buf, size_t room)
{
	const bool one = finding->value.n == 1;
	const struct {
		const char *name;
		const struct gm_value *value;
		const char *text;
	} words[] = {
		{"value", &finding->value, NULL}, {"of", &finding->of, NULL},
		{"other", &finding->other, NULL}, {"s", NULL, one ? "" : "s"},
		{"ies", NULL, one ? "y" : "ies"}, {"was", NULL, one ? "was" : "were"},
		{"is", NULL, one ? "is" : "are"},
	};
	*buf = '\0';
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strlen(words[i].name) != n || strncmp(words[i].name, name, n) != 0)
			continue;
		return words[i].text ? words[i].text
				     : gm_value_format(*words[i].value, 0, buf, room);
	}
	if (n == 6 && strncmp(name, "device", n) == 0)
		snprintf(buf, room, "%u", finding->device);
	if (n == 5 && strncmp(name, "place", n) == 0)
		return finding->place;
	if (n == 5 && strncmp(name, "share", n) == 0 && finding->of.n)
		snprintf(buf, room, "%.0f%%",
			 100 * (double)finding->value.n / (double)finding->of.n);
	return buf;
}

/* Expand the words in braces. Returns the length. */
static size_t sentence_fill(const struct gm_finding *finding, const char *from, char *to, size_t n)
{
	size_t at = 0;
	*to = '\0';
	while (*from && at + 1 < n) {
		char text[256];
		size_t plain = strcspn(from, "{"), inside = strcspn(from + plain, "}");
		at += (size_t)snprintf(to + at, n - at, "%.*s", (int)plain, from);
		from += plain;
		if (!*from || at + 1 >= n)
			break;
		at += (size_t)snprintf(
			to + at, n - at, "%s",
			word_value(finding, from + 1, inside - 1, text, sizeof text));
		from += inside + 1;
	}
	return at < n ? at : n - 1;
}

char *gm_finding_text(const struct gm_finding *finding, char *buf, size_t n)
{
	size_t at = sentence_fill(finding, finding->rule->sentence, buf, n);
	if (*finding->rule->remedy && at + 2 < n) {
		buf[at++] = ' ';
		sentence_fill(finding, finding->rule->remedy, buf + at, n - at);
	}
	return buf;
}

static void finding_json(struct gm_emit *emit, const struct gm_finding *finding)
{
	static const char *const levels[] = {"error", "warning", "note"};
	const struct gm_finding_rule *rule = finding->rule;
	char text[TEXT];
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "rule", GM_TEXT(rule->name));
	gm_emit_value(emit, "level", GM_TEXT(levels[rule->level]));
	gm_emit_value(emit, "value", finding->value);
	gm_emit_value(emit, "of", finding->of);
	gm_emit_value(emit, "threshold",
		      rule->ratio ? GM_PPM(rule->threshold) : GM_COUNT(rule->threshold));
	sentence_fill(finding, rule->sentence, text, sizeof text);
	gm_emit_value(emit, "text", GM_TEXT(text));
	sentence_fill(finding, rule->remedy, text, sizeof text);
	gm_emit_value(emit, "remedy", GM_TEXT(text));
	gm_emit_end(emit);
}

void gm_findings_show(struct gm_emit *emit, struct gm_figures *figures)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	char text[TEXT];
	unsigned n = gm_findings_of_log(figures, findings);
	gm_emit_break(emit);
	gm_emit_list(emit, "findings");
	for (unsigned i = 0; i < n; i++) {
		finding_json(emit, &findings[i]);
		gm_emit_line(emit, i == 0 ? "findings" : "", "%s",
			     gm_finding_text(&findings[i], text, sizeof text));
	}
	gm_emit_end(emit);
	if (n == 0)
		gm_emit_line(emit, "findings",
			     "Nothing stands out. 'gpumemstat --json %s' has every counter.",
			     figures->about->path);
}

/* Name of the log with the finding. */
static const char *log_owner(const struct gm_figures *figures, char *buf, size_t n)
{
	if (figures->about->rank >= 0)
		snprintf(buf, n, "rank %d", figures->about->rank);
	else
		snprintf(buf, n, "%s", gm_figures_name(figures));
	return buf;
}

/* The logs with a finding of one rule. */
struct had {
	size_t logs, first;
	struct gm_finding finding;
};

static void findings_show_each(struct gm_emit *emit, struct gm_logs_one *logs, size_t n, bool said)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	struct had had[GM_FINDINGS_MOST] = {0};
	char text[TEXT], name[256], more[64];
	for (size_t i = 0; i < n; i++) {
		unsigned found = gm_findings_of_log(&logs[i].figures, findings);
		for (unsigned j = 0; j < found; j++) {
			unsigned row = gm_finding_index(&findings[j]);
			if (findings[j].rule->level != GM_FINDING_NOTE && !had[row].logs++)
				had[row] = (struct had){1, i, findings[j]};
		}
	}
	for (size_t row = 0; row < GM_FINDINGS_MOST; row++) {
		if (!had[row].logs)
			continue;
		snprintf(more, sizeof more, " and %zu more", had[row].logs - 1);
		gm_emit_line(emit, said ? "" : "findings", "%s%s: %s",
			     log_owner(&logs[had[row].first].figures, name, sizeof name),
			     had[row].logs > 1 ? more : "",
			     gm_finding_text(&had[row].finding, text, sizeof text));
		said = true;
	}
}

void gm_findings_show_many(struct gm_emit *emit, struct gm_logs_one *logs, size_t n)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	char text[TEXT];
	unsigned found = gm_findings_of_logs(logs, n, findings);
	gm_emit_list(emit, "findings");
	for (unsigned i = 0; i < found; i++) {
		finding_json(emit, &findings[i]);
		gm_emit_line(emit, i == 0 ? "findings" : "", "%s",
			     gm_finding_text(&findings[i], text, sizeof text));
	}
	gm_emit_end(emit);
	if (!emit->options->json)
		findings_show_each(emit, logs, n, found > 0);
}
