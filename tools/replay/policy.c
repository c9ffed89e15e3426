/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/replay/policy.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

extern const struct gm_policy gm_policy_pool, gm_policy_first, gm_policy_exact, gm_policy_round,
	gm_policy_torch, gm_policy_cached, gm_policy_defer, gm_policy_ordered, gm_policy_expandable,
	gm_policy_async;

const struct gm_policy *const gm_policies[GM_POLICY_COUNT] = {
	[GM_POLICY_POOL] = &gm_policy_pool,
	&gm_policy_defer,
	&gm_policy_ordered,
	&gm_policy_first,
	&gm_policy_exact,
	&gm_policy_round,
	&gm_policy_torch,
	&gm_policy_expandable,
	&gm_policy_async,
	&gm_policy_cached,
};

/* The policy with this name of `n` bytes, as a set; 0: none. */
static unsigned policy_find(const char *name, size_t n)
{
	for (unsigned i = 0; i < GM_POLICY_COUNT; i++)
		if (strlen(gm_policies[i]->name) == n && memcmp(gm_policies[i]->name, name, n) == 0)
			return 1u << i;
	return 0;
}

bool gm_policy_parse(const char *text, unsigned *set)
{
	unsigned found = 0;
	for (;;) {
		size_t n = strcspn(text, ",");
		unsigned one = policy_find(text, n);
		if (!one)
			return false;
		found |= one;
		if (!text[n])
			break;
		text += n + 1;
	}
	*set = found;
	return true;
}

void *gm_policy_make(size_t size)
{
	void *made = calloc(1, size);
	if (!made) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return made;
}
