/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growable arrays: GM_ARRAY(int) a = {0}; gm_array_push(&a, 7) is false when host memory is short.
 * The owner releases with gm_array_free. Not thread-safe. Elements move when the array grows.
 */
#ifndef GM_BASE_ARRAY_H
#define GM_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define GM_ARRAY(type)          \
	struct {                \
		type *at;       \
		size_t n, room; \
	}

/* Make room for `want` elements of `element` bytes. False: the array is unchanged. */
bool gm_array_reserve_bytes(void **at, size_t *room, size_t want, size_t element);

#define gm_array_reserve(a, want) \
	gm_array_reserve_bytes((void **)&(a)->at, &(a)->room, (want), sizeof *(a)->at)
#define gm_array_push(a, ...) \
	(gm_array_reserve((a), (a)->n + 1) ? ((a)->at[(a)->n++] = (__VA_ARGS__), true) : false)
#define gm_array_free(a) (free((a)->at), (a)->at = NULL, (a)->n = (a)->room = 0)

#endif
