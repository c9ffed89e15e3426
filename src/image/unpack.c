/* SPDX-License-Identifier: BSD-3-Clause */
#include "unpack.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

/* What both libraries have had since their first releases with these sonames. */
typedef int lz4_fn(const char *from, char *to, int n, int room);
typedef size_t zstd_fn(void *to, size_t room, const void *from, size_t n);

static pthread_once_t once_lz4 = PTHREAD_ONCE_INIT, once_zstd = PTHREAD_ONCE_INIT;
static lz4_fn *lz4;
static zstd_fn *zstd;

/* Not closed when the function is missing, either: it happens once at most. */
static void *find(const char *library, const char *function)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	return handle ? dlsym(handle, function) : NULL;
}

static void find_lz4(void)
{
	lz4 = (lz4_fn *)find("liblz4.so.1", "LZ4_decompress_safe");
}

static void find_zstd(void)
{
	zstd = (zstd_fn *)find("libzstd.so.1", "ZSTD_decompress");
}

/* Both answer with the bytes that they made, or with an error, which is no number that is expected.
 */
static bool unpack_lz4(const struct gm_view *packed, void *to, uint64_t size)
{
	return packed->size <= INT_MAX && size <= INT_MAX &&
	       lz4((const char *)packed->at, to, (int)packed->size, (int)size) == (int)size;
}

static bool unpack_zstd(const struct gm_view *packed, void *to, uint64_t size)
{
	return zstd(to, size, packed->at, packed->size) == size;
}

void *gm_unpack(enum gm_image_packing packing, const struct gm_view *packed, uint64_t size,
		enum gm_image_why *why)
{
	bool is_lz4 = packing == GM_IMAGE_LZ4;
	if (is_lz4)
		pthread_once(&once_lz4, find_lz4);
	else
		pthread_once(&once_zstd, find_zstd);
	*why = is_lz4 ? GM_IMAGE_WHY_NO_LZ4 : GM_IMAGE_WHY_NO_ZSTD;
	if (is_lz4 ? !lz4 : !zstd)
		return NULL;
	*why = size == 0 ? GM_IMAGE_WHY_DAMAGED : GM_IMAGE_WHY_LARGE;
	if (size == 0 || size > GM_IMAGE_MOST)
		return NULL;
	*why = GM_IMAGE_WHY_NO_MEMORY;
	void *to = malloc(size);
	if (!to)
		return NULL;
	if (is_lz4 ? unpack_lz4(packed, to, size) : unpack_zstd(packed, to, size))
		return to;
	*why = GM_IMAGE_WHY_UNPACKED;
	free(to);
	return NULL;
}
