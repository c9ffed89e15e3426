/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Legacy IPC. The pages of exported memory become a file. A process that opens the handle maps the
 * file through the exporter's /proc/PID/fd; the kernel allows that only to the same user, and only
 * while the exporter has the descriptor.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/internal.h"

/* The contents of a CUipcMemHandle of the simulated driver. */
struct name {
	char magic[8];
	uint64_t inode, offset, size, whole, id;
	int pid, file;
	unsigned device, zero;
};
_Static_assert(sizeof(struct name) <= sizeof(CUipcMemHandle), "a name fits into a handle");
static const char name_magic[8] = "sim-ipc";

struct sim_ipc {
	struct name name;
	char *pages;
	unsigned refs;
};

/* Replace the pages by a file with the same bytes, at the same addresses. Other threads of the
 * program must not write to them meanwhile. Returns the descriptor plus 1, or 0. */
static int pages_become_file(char *pages, size_t size)
{
	int fd = memfd_create("sim-ipc", MFD_CLOEXEC);
	if (fd < 0)
		return 0;
	if (ftruncate(fd, (off_t)size) == 0 && pwrite(fd, pages, size, 0) == (ssize_t)size &&
	    mmap(pages, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == pages)
		return fd + 1;
	close(fd);
	return 0;
}

static struct sim_region *ipc_region(CUdeviceptr address, enum sim_kind kind)
{
	struct sim_region *region = sim_region_find(address);
	return region && region->kind == kind && !region->freeing ? region : NULL;
}

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
	struct sim_region *region = ipc_region(address, SIM_DEVICE);
	struct stat st;
	char *pages;
	size_t size;
	if (!out) /* before any other check */
		return CUDA_ERROR_INVALID_VALUE;
	CUresult state = sim.ready ? sim_check_current() : CUDA_ERROR_NOT_INITIALIZED;
	if (state != CUDA_SUCCESS)
		return state;
	if (!region)
		return CUDA_ERROR_INVALID_VALUE;
	int *file = sim_memory_pages(region, &pages, &size);
	if (!*file)
		*file = pages_become_file(pages, size);
	if (!*file || fstat(*file - 1, &st) != 0)
		return CUDA_ERROR_MAP_FAILED;
	struct name name = {
		.inode = st.st_ino,
		.offset = region->base - (CUdeviceptr)pages,
		.size = region->size,
		.whole = size,
		.id = region->id,
		.pid = getpid(),
		.file = *file - 1,
		.device = region->device,
	};
	memcpy(name.magic, name_magic, sizeof name_magic);
	memset(out, 0, sizeof *out);
	memcpy(out, &name, sizeof name);
	return CUDA_SUCCESS;
}

/* Open the exporter's file; -1: failure. */
static int name_open(const struct name *name)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->file);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_ino != name->inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The memory of a green context is its primary context's. */
static struct sim_context *ipc_context(void)
{
	struct sim_context *ctx = sim_current();
	return ctx->origin ? ctx->origin : ctx;
}

static struct sim_region *ipc_opened(const struct name *name)
{
	for (size_t i = 0; i < sim.regions.n; i++) {
		struct sim_region *r = sim.regions.at[i];
		if (r->kind == SIM_IPC && r->ctx == ipc_context() &&
		    memcmp(&r->ipc->name, name, sizeof *name) == 0)
			return r;
	}
	return NULL;
}

/* Map the file, and make its block a region. */
static CUresult ipc_map(const struct name *name, int fd, struct sim_region **out)
{
	struct sim_ipc *ipc = calloc(1, sizeof *ipc);
	char *pages = ipc ? sim_pages(name->whole, SIM_PAGE) : NULL;
	CUresult result = CUDA_ERROR_MAP_FAILED;
	if (pages && mmap(pages, name->whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			  0) == pages)
		result = sim_region_of_host(SIM_IPC, sim_current(), pages + name->offset,
					    name->size, out);
	if (result != CUDA_SUCCESS) {
		if (pages)
			sim_pages_drop(pages, name->whole);
		free(ipc);
		return result;
	}
	*ipc = (struct sim_ipc){.name = *name, .pages = pages, .refs = 1};
	(*out)->ipc = ipc;
	(*out)->device = name->device;
	return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	struct name name;
	memcpy(&name, &handle, sizeof name);
	if (!out || !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
		return CUDA_ERROR_INVALID_VALUE;
	if (memcmp(name.magic, name_magic, sizeof name_magic) != 0)
		return CUDA_ERROR_INVALID_HANDLE;
	if (name.pid == getpid()) /* a process cannot open its own memory */
		return CUDA_ERROR_INVALID_CONTEXT;
	struct sim_region *region = ipc_opened(&name);
	if (region) {
		region->ipc->refs++;
		*out = region->base;
		return CUDA_SUCCESS;
	}
	int fd = name_open(&name);
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = ipc_map(&name, fd, &region);
	close(fd);
	if (result == CUDA_SUCCESS)
		*out = region->base;
	return result;
}

CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	return sim_cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct sim_region *region = ipc_region(address, SIM_IPC);
	if (!region || region->base != address || region->ctx != ipc_context())
		return CUDA_ERROR_INVALID_VALUE;
	if (--region->ipc->refs)
		return CUDA_SUCCESS;
	region->freeing = true;
	CUresult result = sim_wait_context(region->ctx);
	sim_memory_free(region);
	return result;
}

void sim_ipc_drop(struct sim_region *region)
{
	sim_pages_drop(region->ipc->pages, region->ipc->name.whole);
	free(region->ipc);
}
