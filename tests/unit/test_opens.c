/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of opens (shim/ipc/opens.h): both sides of a page, and pages that are not of gpumem.
 * Linked with --wrap for the pool, which has one block. */
#include "../../shim/ipc/opens.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../shim/memory/device.h"

#include "../tap.h"

#define BASE 0x10000
#define PAGE 4096
#define ALL (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static uint64_t live = 1; /* the block's id; 0: it was freed */
static bool stays;

bool __wrap_gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out);
bool __wrap_gm_pool_share_open(struct gm_pool *pool, CUdeviceptr base, uint64_t id, bool open);

struct gm_pool *gm_shim_pool_at(CUdeviceptr address)
{
	return address == BASE ? (struct gm_pool *)&live : NULL;
}

bool __wrap_gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	(void)pool;
	*out = (struct gm_block){.base = address, .id = live, .live = live != 0};
	return true;
}

bool __wrap_gm_pool_share_open(struct gm_pool *pool, CUdeviceptr base, uint64_t id, bool open)
{
	(void)pool;
	if (base == BASE && id == live)
		stays = open;
	return true;
}

/* An open by the process `pid`, which maps the page. NULL: no page. */
static struct gm_ipc_page *open_by(int pid)
{
	int fd = -1;
	if (!gm_opens_add(BASE, live, pid, &fd))
		return NULL;
	stays = true;
	struct gm_ipc_page *page = gm_ipc_page_map(fd);
	close(fd);
	return page;
}

static bool stays_after_sweep(void)
{
	gm_opens_sweep();
	return stays;
}

static void opens_close(void)
{
	struct gm_ipc_page *one = open_by(0), *two = open_by(0);
	TAP_OK(one && two, "two unknown processes open a block");
	TAP_OK(stays_after_sweep(), "a block with two opens stays");
	gm_ipc_page_close(one);
	TAP_OK(stays_after_sweep(), "a block stays when one of two opens is closed");
	gm_ipc_page_close(two);
	TAP_OK(!stays_after_sweep(), "a block goes when its last open is closed");
	gm_ipc_page_close(NULL);
}

static void opens_end(void)
{
	int status;
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	TAP_OK(open_by(child), "a process that ends opens a block");
	siginfo_t info;
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	TAP_OK(stays_after_sweep(), "a block stays while its opener waits to be reaped");
	waitpid(child, &status, 0);
	TAP_OK(!stays_after_sweep(), "a block goes when its opener is reaped");
	TAP_OK(open_by(getpid()), "a process that lives opens a block");
	TAP_OK(stays_after_sweep(), "a block stays while its opener lives");
	live = 2;
	stays = true;
	gm_opens_check(BASE, live);
	TAP_OK(!stays, "another block at the place of a freed one is open to nobody");
	TAP_OK(open_by(0) && stays_after_sweep(),
	       "another block at the place of a freed one is opened");
	live = 0;
	gm_opens_sweep();
	live = 2;
	gm_opens_check(BASE, live);
	TAP_OK(!stays, "the records of a freed block are dropped");
}

static void child_leaves(void)
{
	struct gm_ipc_page *page = open_by(0);
	int status;
	pid_t child = fork();
	if (child == 0) {
		unsigned char in;
		_exit(mincore((void *)page, PAGE, &in) == 0);
	}
	waitpid(child, &status, 0);
	TAP_IS(status, 0, "a forked child has no page");
	TAP_OK(stays_after_sweep(), "a child's end closes no open");
	gm_ipc_page_close(page);
	TAP_OK(!stays_after_sweep(), "the process itself closes its open");
}

static int page_of(off_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, size) || (seals && fcntl(fd, F_ADD_SEALS, seals)))
		return -1;
	return fd;
}

static bool is_mapped(int fd)
{
	struct gm_ipc_page *page = gm_ipc_page_map(fd);
	close(fd);
	if (page)
		gm_ipc_page_close(page);
	return page != NULL;
}

static void pages_are_checked(void)
{
	TAP_OK(is_mapped(page_of(PAGE, ALL)), "a sealed page is mapped");
	TAP_OK(!is_mapped(page_of(PAGE, 0)), "a page without seals is refused");
	TAP_OK(!is_mapped(page_of(PAGE, F_SEAL_GROW | F_SEAL_SEAL)),
	       "a page that may shrink is refused");
	TAP_OK(!is_mapped(page_of(0, ALL)), "a page without bytes is refused");
	TAP_OK(!is_mapped(page_of(2 * PAGE, ALL)), "two pages are refused");
	TAP_OK(!is_mapped(page_of(PAGE, ALL | F_SEAL_WRITE)),
	       "a page that cannot be written is refused");
	TAP_OK(!is_mapped(open("/dev/zero", O_RDWR | O_CLOEXEC)), "a device is no page");
	TAP_OK(!is_mapped(-1), "a missing descriptor is no page");
}

int main(void)
{
	opens_close();
	opens_end();
	child_leaves();
	pages_are_checked();
	return tap_done();
}
