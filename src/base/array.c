/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/array.h"

#include <stdint.h>

bool gm_array_reserve_bytes(void **at, size_t *room, size_t want, size_t element)
{
	if (want <= *room)
		return true;
	size_t next = *room < 8 ? 8 : *room + *room / 2;
	if (next < want)
		next = want;
	size_t bytes;
	if (__builtin_mul_overflow(next, element, &bytes))
		return false;
	void *moved = realloc(*at, bytes);
	if (!moved)
		return false;
	*at = moved;
	*room = next;
	return true;
}
