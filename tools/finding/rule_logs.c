/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements for the rules about several logs together; gpumemstat(1), FINDINGS, has each
 * formula. */
#include <stdlib.h>

#include "tools/finding/findings.h"

static int log_rank(const struct gm_logs_one *log)
{
	return log->figures.about->rank;
}

static int rank_compare(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

bool gm_rule_ranks_missing(struct gm_logs_one *logs, size_t n, struct gm_finding *out)
{
	int *ranks = calloc(n + 1, sizeof *ranks), highest = -1;
	uint64_t seen = 0, ranked = 0;
	for (size_t i = 0; ranks && i < n; i++)
		if (log_rank(&logs[i]) >= 0)
			ranks[ranked++] = log_rank(&logs[i]);
	if (ranked)
		qsort(ranks, ranked, sizeof *ranks, rank_compare);
	for (uint64_t i = 0; i < ranked; i++) {
		if (i == 0 || ranks[i] != ranks[i - 1])
			seen++;
		highest = ranks[i];
	}
	free(ranks);
	if (ranked == 0)
		return false;
	out->of = GM_COUNT((uint64_t)highest);
	out->value = GM_COUNT((uint64_t)highest + 1 - seen);
	return true;
}

bool gm_rule_unbalanced(struct gm_logs_one *logs, size_t n, struct gm_finding *out)
{
	uint64_t least = UINT64_MAX, most = 0, ranked = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t peak = gm_figures_requested_peak(&logs[i].figures);
		if (log_rank(&logs[i]) < 0)
			continue;
		ranked++;
		least = peak < least ? peak : least;
		most = peak > most ? peak : most;
	}
	out->value = GM_BYTES(most - least);
	out->of = GM_BYTES(most);
	out->other = GM_BYTES(least);
	return ranked > 1;
}
