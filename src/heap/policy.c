/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of policies, as the host knows them. */
#define GM_HEAP_HOST /* before policies.h */
#include <string.h>

#include "heap/device/policies.h"
#include "heap/host.h"

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

const char *gm_heap_policy_symbol(unsigned number)
{
	return policies[number].symbol;
}

size_t gm_heap_policy_bytes(unsigned number, uint32_t capacity)
{
	return policies[number].bytes(capacity);
}

bool gm_heap_policy_is_steady(unsigned number)
{
	return policies[number].can & GM_POLICY_STEADY;
}
