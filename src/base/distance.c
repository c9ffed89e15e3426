/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/distance.h"

#include <limits.h>
#include <string.h>

unsigned gm_distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t n = strlen(b);
	if (n > 63 || strlen(a) > 63)
		return UINT_MAX;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned corner = row[0];
		row[0] = i + 1;
		for (unsigned j = 0; j < n; j++) {
			unsigned change = corner + (a[i] != b[j]);
			unsigned step = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
			corner = row[j + 1];
			row[j + 1] = change < step ? change : step;
		}
	}
	return row[n];
}
