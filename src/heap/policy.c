/* SPDX-License-Identifier: BSD-3-Clause */
#define GM_HEAP_HOST /* before policies.h */
#include "heap/policy.h"

#include <string.h>

#include "heap/device/policies.h"
#include "heap/heap.h"

static const struct {
	const char *name, *symbol;
	size_t (*bytes)(uint32_t capacity);
	unsigned can;
} policies[] = {
#define GM_POLICY(name, n, can) {name, #n, gm_##n##_bytes, can},
#include "heap/device/policy.def"
#undef GM_POLICY
};

enum { POLICIES = sizeof policies / sizeof policies[0] };

int gm_heap_policy(const char *name)
{
	for (int i = 0; name && i < POLICIES; i++)
		if (strcmp(policies[i].name, name) == 0)
			return i;
	return -1;
}

const char *gm_heap_policy_name(unsigned number)
{
	return number < POLICIES ? policies[number].name : NULL;
}

const char *gm_heap_wanted(const struct gm_knobs *knobs)
{
	static const char *const special[] = {[GM_HEAP_AUTO] = "granule", [GM_HEAP_OFF] = NULL};
	unsigned choice = knobs->heap.choice;
	return choice <= GM_HEAP_OFF ? special[choice]
				     : gm_heap_policy_name(choice - GM_HEAP_OFF - 1);
}

const char *gm_heap_policy_symbol(unsigned policy)
{
	return policies[policy].symbol;
}

size_t gm_heap_policy_bytes(unsigned policy, uint32_t capacity)
{
	return policies[policy].bytes(capacity);
}

bool gm_heap_policy_is_steady(unsigned policy)
{
	return policies[policy].can & GM_POLICY_STEADY;
}
