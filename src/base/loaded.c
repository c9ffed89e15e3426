/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/loaded.h"

#include <link.h>
#include <string.h>

struct search {
	const char *const *beginnings;
	size_t n;
	const char *found;
};

static int object_compare(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	(void)size;
	for (size_t i = 0; i < search->n && !search->found; i++)
		if (strncmp(name, search->beginnings[i], strlen(search->beginnings[i])) == 0)
			search->found = name;
	return search->found != NULL;
}

const char *gm_loaded_find(const char *const *beginnings, size_t n)
{
	struct search search = {beginnings, n, NULL};
	dl_iterate_phdr(object_compare, &search);
	return search.found;
}

static int object_count(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

unsigned long long gm_loaded_changes(void)
{
	unsigned long long changes = 0;
	dl_iterate_phdr(object_count, &changes);
	return changes;
}
