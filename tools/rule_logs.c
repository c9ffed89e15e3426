/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules about several logs together measure; gpumemstat(1), FINDINGS, has each formula. */
#include <stdlib.h>

#include "findings.h"

static int rank_of(const struct gm_logs_one *log)
{
	return log->figures.about->rank;
}

static int by_rank(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

bool gm_rule_ranks_missing(struct gm_logs_one *logs, size_t n, struct gm_finding *out)
{
	int *ranks = calloc(n + 1, sizeof *ranks), highest = -1;
	uint64_t seen = 0, ranked = 0;
	for (size_t i = 0; ranks && i < n; i++)
		if (rank_of(&logs[i]) >= 0)
			ranks[ranked++] = rank_of(&logs[i]);
	if (ranked)
		qsort(ranks, ranked, sizeof *ranks, by_rank);
	for (uint64_t i = 0; i < ranked; i++) {
		seen += i == 0 || ranks[i] != ranks[i - 1];
		highest = ranks[i];
	}
	free(ranks);
	out->of = GM_COUNT((uint64_t)(highest + 1) - (highest >= 0));
	out->value = GM_COUNT((uint64_t)(highest + 1) - seen);
	return ranked > 0;
}

bool gm_rule_unbalanced(struct gm_logs_one *logs, size_t n, struct gm_finding *out)
{
	uint64_t least = UINT64_MAX, most = 0, ranked = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t peak = gm_figures_sum(&logs[i].figures, GM_C_requested_peak);
		if (rank_of(&logs[i]) < 0)
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
