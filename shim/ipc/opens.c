/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/ipc/opens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/sys.h"
#include "shim/memory/device.h"

#define PAGE 4096u
#define PAGES 1024u    /* at most: the kernel limits the number of mappings of a process */
#define SWEEP_FROM 16u /* records */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct gm_ipc_page {
	atomic_uint closed; /* written by the importer, once */
};

struct open {
	CUdeviceptr base;
	uint64_t id;
	struct gm_ipc_page *page; /* NULL: none */
	int pid;		  /* of the importer; 0: unknown */
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct open) opens;  /* under the lock */
static size_t pages;		     /* likewise: records with a page */
static size_t sweep_at = SWEEP_FROM; /* likewise: that many records are looked through */

/* --- pages --- */

/* A forked child has no part in an open. */
static struct gm_ipc_page *page_map(int fd)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, PAGE, MADV_DONTFORK) == 0)
		return at;
	munmap(at, PAGE);
	return NULL;
}

/* Seals: neither side can shorten it under the other. */
static struct gm_ipc_page *page_make(int *fd)
{
	struct gm_ipc_page *page = NULL;
	*fd = memfd_create("gpumem-open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	*fd = *fd < 0 ? *fd : gm_fd_raise(*fd);
	if (*fd < 0)
		return NULL;
	if (gm_fd_extend(*fd, PAGE) == 0 && gm_sys_fcntl(*fd, F_ADD_SEALS, SEALS) == 0)
		page = page_map(*fd);
	if (!page) {
		gm_sys_close(*fd);
		*fd = -1;
	}
	return page;
}

struct gm_ipc_page *gm_ipc_page_map(int fd)
{
	struct stat st;
	int seals = gm_sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals < 0 || (seals & SEALS) != SEALS || gm_sys_fstat(fd, &st) || st.st_size != PAGE)
		return NULL;
	return page_map(fd);
}

void gm_ipc_page_close(struct gm_ipc_page *page)
{
	if (!page)
		return;
	atomic_store(&page->closed, 1);
	munmap(page, PAGE);
}

/* --- records --- */

/* A process that waits to be reaped, or another one with its number, counts as the importer. */
static bool open_is_over(const struct open *o)
{
	struct gm_block b;
	const struct gm_pool *pool = gm_shim_pool_at(o->base);
	return (o->page && atomic_load(&o->page->closed)) ||
	       (o->pid && gm_sys_process_is_gone(o->pid)) || !pool ||
	       !gm_pool_find(pool, o->base, &b) || !b.live || b.id != o->id;
}

/* Take a record that is over out of the table. *from: where to look on. */
static bool open_take(size_t *from, struct open *out)
{
	bool found = false;
	gm_lock_take(&lock);
	for (; *from < opens.n && !found; *from += !found) {
		found = open_is_over(&opens.at[*from]);
		if (!found)
			continue;
		*out = opens.at[*from];
		opens.at[*from] = opens.at[--opens.n];
		pages -= out->page != NULL;
	}
	gm_lock_release(&lock);
	return found;
}

void gm_opens_check(CUdeviceptr base, uint64_t id)
{
	bool any = false;
	struct gm_pool *pool = gm_shim_pool_at(base);
	gm_lock_take(&lock);
	for (size_t i = 0; i < opens.n && !any; i++)
		any = opens.at[i].base == base && opens.at[i].id == id;
	gm_lock_release(&lock);
	if (!any && pool)
		gm_pool_share_open(pool, base, id, false);
}

void gm_opens_sweep(void)
{
	struct open o;
	for (size_t from = 0; open_take(&from, &o);) {
		if (o.page)
			munmap(o.page, PAGE);
		gm_opens_check(o.base, o.id);
	}
}

/* So that opens and closes without a sleep between do not fill the table. */
void gm_opens_make_room(void)
{
	gm_lock_take(&lock);
	bool due = opens.n >= sweep_at;
	gm_lock_release(&lock);
	if (!due)
		return;
	gm_opens_sweep();
	gm_lock_take(&lock);
	sweep_at = opens.n < SWEEP_FROM / 2 ? SWEEP_FROM : 2 * opens.n;
	gm_lock_release(&lock);
}

static bool pages_may_grow(void)
{
	gm_lock_take(&lock);
	bool may = pages < PAGES;
	gm_lock_release(&lock);
	return may;
}

bool gm_opens_add(CUdeviceptr base, uint64_t id, int pid, int *fd)
{
	struct open o = {.base = base, .id = id, .pid = pid};
	*fd = -1;
	if (pages_may_grow())
		o.page = page_make(fd);
	gm_lock_take(&lock);
	bool added = gm_array_push(&opens, o);
	pages += added && o.page;
	gm_lock_release(&lock);
	if (added || !o.page)
		return added;
	munmap(o.page, PAGE);
	gm_sys_close(*fd);
	*fd = -1;
	return false;
}

void gm_opens_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	opens.at = NULL;
	opens.n = opens.room = pages = 0;
	sweep_at = SWEEP_FROM;
}
