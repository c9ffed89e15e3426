/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "copy/share.h"

void *gm_store_take(struct gm_store *store, uint64_t size)
{
	for (unsigned i = 0; i < store->n; i++) {
		if (store->piece[i].size != size)
			continue;
		void *at = store->piece[i].at;
		store->kept -= size;
		store->taken += size;
		store->piece[i] = store->piece[--store->n];
		return at;
	}
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, size, MADV_DONTFORK);
	madvise(at, size, MADV_DONTDUMP);
	madvise(at, size, MADV_HUGEPAGE);
	store->taken += size;
	return at;
}

void gm_store_give(struct gm_store *store, void *at, uint64_t size)
{
	store->taken -= size;
	if (store->n == GM_STORE_KEPT || store->kept > store->warm ||
	    size > store->warm - store->kept) {
		munmap(at, size);
		return;
	}
	store->piece[store->n].at = at;
	store->piece[store->n++].size = size;
	store->kept += size;
}

static uint64_t memory_available(void)
{
	static const char key[] = "MemAvailable:";
	char text[2048], *line, *end;
	int fd = gm_sys_open("/proc/meminfo", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? -1 : gm_sys_read(fd, text, sizeof text - 1);
	if (fd >= 0)
		gm_sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (!(line = strstr(text, key)))
		return UINT64_MAX;
	unsigned long long kib = strtoull(line + strlen(key), &end, 10);
	return end == line + strlen(key) ? UINT64_MAX : kib * 1024;
}

uint64_t gm_store_room(const struct gm_store *store)
{
	uint64_t room = memory_available(), most = gm_share_find("").memory;
	if (room != UINT64_MAX)
		room += store->kept;
	return most && most < room ? most : room;
}

void gm_store_trim(struct gm_store *store)
{
	while (store->n) {
		store->n--;
		munmap(store->piece[store->n].at, store->piece[store->n].size);
	}
	store->kept = 0;
}

void gm_store_forget(struct gm_store *store)
{
	store->n = 0;
	store->kept = store->taken = 0;
}
