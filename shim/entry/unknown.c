/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/entry/unknown.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/entry/resolve.h"

#define MOST 128 /* names; if more are asked for, a sleep is refused */
#define ROOM 96	 /* bytes of a name */

static const char *const names[] = {
#include "src/driver/known.h"
};

static struct {
	atomic_uint state; /* 0: free, 1: being written, 2: there */
	bool given;
	char symbol[ROOM];
} asked[MOST];
static atomic_bool more;

static int name_compare(const void *symbol, const void *name)
{
	return strcmp(symbol, *(const char *const *)name);
}

static bool is_known(const char *symbol)
{
	return bsearch(symbol, names, sizeof names / sizeof *names, sizeof *names, name_compare);
}

void gm_unknown_add(const char *symbol, bool given)
{
	/* Before the driver is found, nobody knows what it has. */
	if (!given &&
	    (is_known(symbol) || (atomic_load(&gm_resolve_done) && !gm_resolve_exports(symbol))))
		return;
	for (unsigned i = 0; i < MOST; i++) {
		unsigned expected = 0;
		if (atomic_compare_exchange_strong(&asked[i].state, &expected, 1)) {
			snprintf(asked[i].symbol, sizeof asked[i].symbol, "%s", symbol);
			asked[i].given = given;
			atomic_store(&asked[i].state, 2);
			return;
		}
		if (expected == 2 && asked[i].given == given &&
		    strcmp(asked[i].symbol, symbol) == 0)
			return;
	}
	atomic_store(&more, true);
}

bool gm_unknown_find(char *name, size_t size)
{
	const char *symbol = gm_resolve_find_asked(is_known);
	for (unsigned i = 0; i < MOST && !symbol; i++)
		if (atomic_load(&asked[i].state) == 2 &&
		    (asked[i].given || gm_resolve_exports(asked[i].symbol)))
			symbol = asked[i].symbol;
	if (!symbol && atomic_load(&more))
		symbol = "one of many";
	if (symbol)
		snprintf(name, size, "%s", symbol);
	return symbol;
}
