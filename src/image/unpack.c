/* SPDX-License-Identifier: BSD-3-Clause */
#include "unpack.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

/* The interface of both libraries since their first releases with these sonames. */
struct zstd_in {
	const void *at;
	size_t size, done;
};
struct zstd_out {
	void *at;
	size_t size, done;
};

static struct {
	pthread_once_t once;
	int (*whole)(const char *from, char *to, int n, int room);
	int (*some)(const char *from, char *to, int n, int wanted, int room);
} lz4 = {.once = PTHREAD_ONCE_INIT};

static struct {
	pthread_once_t once;
	size_t (*whole)(void *to, size_t room, const void *from, size_t n);
	void *(*begin)(void);
	size_t (*step)(void *stream, struct zstd_out *out, struct zstd_in *in);
	size_t (*end)(void *stream);
	unsigned (*failed)(size_t result);
} zstd = {.once = PTHREAD_ONCE_INIT};

/* A library that lacks a function stays open: that happens once at most. */
static void lz4_open(void)
{
	void *handle = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return;
	*(void **)&lz4.whole = dlsym(handle, "LZ4_decompress_safe");
	*(void **)&lz4.some = dlsym(handle, "LZ4_decompress_safe_partial");
}

static void zstd_open(void)
{
	void *handle = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return;
	*(void **)&zstd.whole = dlsym(handle, "ZSTD_decompress");
	*(void **)&zstd.begin = dlsym(handle, "ZSTD_createDStream");
	*(void **)&zstd.step = dlsym(handle, "ZSTD_decompressStream");
	*(void **)&zstd.end = dlsym(handle, "ZSTD_freeDStream");
	*(void **)&zstd.failed = dlsym(handle, "ZSTD_isError");
}

/* Is the library of this packing usable? Searched once. */
static bool library_is_there(enum gm_image_packing packing)
{
	if (packing == GM_IMAGE_LZ4)
		pthread_once(&lz4.once, lz4_open);
	else
		pthread_once(&zstd.once, zstd_open);
	return packing == GM_IMAGE_LZ4
		       ? lz4.whole && lz4.some
		       : zstd.whole && zstd.begin && zstd.step && zstd.end && zstd.failed;
}

/* Both return the number of bytes made, or an error, which never equals the size expected. */
static bool lz4_unpack(const struct gm_view *packed, void *to, uint64_t size)
{
	return packed->size <= INT_MAX && size <= INT_MAX &&
	       lz4.whole((const char *)packed->at, to, (int)packed->size, (int)size) == (int)size;
}

static bool zstd_unpack(const struct gm_view *packed, void *to, uint64_t size)
{
	return zstd.whole(to, size, packed->at, packed->size) == size;
}

void *gm_unpack(enum gm_image_packing packing, const struct gm_view *packed, uint64_t size,
		enum gm_image_why *why)
{
	bool is_lz4 = packing == GM_IMAGE_LZ4;
	*why = is_lz4 ? GM_IMAGE_WHY_NO_LZ4 : GM_IMAGE_WHY_NO_ZSTD;
	if (!library_is_there(packing))
		return NULL;
	*why = size == 0 ? GM_IMAGE_WHY_DAMAGED : GM_IMAGE_WHY_LARGE;
	if (size == 0 || size > GM_IMAGE_MOST)
		return NULL;
	*why = GM_IMAGE_WHY_NO_MEMORY;
	void *to = malloc(size);
	if (!to)
		return NULL;
	if (is_lz4 ? lz4_unpack(packed, to, size) : zstd_unpack(packed, to, size))
		return to;
	*why = GM_IMAGE_WHY_UNPACKED;
	free(to);
	return NULL;
}

static bool zstd_unpack_some(const struct gm_view *packed, void *to, uint64_t n)
{
	struct zstd_in in = {.at = packed->at, .size = packed->size};
	struct zstd_out out = {.at = to, .size = n};
	void *stream = zstd.begin();
	bool going = stream != NULL;
	while (going && out.done < n) {
		size_t before = out.done + in.done;
		going = !zstd.failed(zstd.step(stream, &out, &in)) && out.done + in.done > before;
	}
	if (stream)
		zstd.end(stream);
	return going;
}

bool gm_unpack_some(enum gm_image_packing packing, const struct gm_view *packed, void *to,
		    uint64_t n)
{
	if (!library_is_there(packing) || packed->size > INT_MAX || n > INT_MAX)
		return false;
	if (packing == GM_IMAGE_ZSTD)
		return zstd_unpack_some(packed, to, n);
	return lz4.some((const char *)packed->at, to, (int)packed->size, (int)n, (int)n) == (int)n;
}
