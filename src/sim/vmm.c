/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual memory management: each mapping of a handle is a view of its pages. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/internal.h"

static bool size_is_multiple(uint64_t n)
{
	return n && n % SIM_PAGE == 0;
}

/* --- addresses --- */

CUresult sim_cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align, CUdeviceptr wish,
				 unsigned long long flags)
{
	(void)wish; /* a hint only */
	if (!out || !size_is_multiple(size) || flags || align & (align - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (!gm_array_reserve(&sim.reservations, sim.reservations.n + 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	void *at = sim_pages(size, align > SIM_PAGE ? align : SIM_PAGE);
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUdeviceptr)at;
	(void)gm_array_push(&sim.reservations, (struct sim_reservation){*out, size});
	return CUDA_SUCCESS;
}

static bool range_has_region(CUdeviceptr address, size_t size)
{
	size_t at = sim_region_place(address);
	return at < sim.regions.n && sim.regions.at[at]->base < address + size;
}

CUresult sim_cuMemAddressFree(CUdeviceptr address, size_t size)
{
	for (size_t i = 0; i < sim.reservations.n; i++) {
		struct sim_reservation r = sim.reservations.at[i];
		if (r.base != address || r.size != size)
			continue;
		if (range_has_region(address, size))
			return CUDA_ERROR_INVALID_VALUE;
		sim_pages_drop((void *)address, size);
		sim.reservations.at[i] = sim.reservations.at[--sim.reservations.n];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static bool range_is_reserved(CUdeviceptr address, size_t size)
{
	for (size_t i = 0; i < sim.reservations.n; i++) {
		struct sim_reservation r = sim.reservations.at[i];
		if (address >= r.base && address - r.base < r.size &&
		    size <= r.size - (address - r.base))
			return true;
	}
	return false;
}

/* --- physical memory --- */

static CUresult location_check(CUmemLocation where)
{
	switch (where.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return sim_device_valid(where.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
#if CUDA_VERSION >= 12020
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return sim.settings.version >= 12020 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
#endif
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult prop_check(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	    prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return location_check(prop->location);
}

static bool handle_is_on_device(const struct sim_handle *handle)
{
	return handle->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* SIM_RDMA */
static bool prop_refuses_rdma(const char *where, const CUmemAllocationProp *prop)
{
	const char *text = getenv("SIM_RDMA");
	return text && strcmp(text, where) == 0 && prop->allocFlags.gpuDirectRDMACapable;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
			 const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (!out || !size_is_multiple(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = prop_check(prop);
	if (result == CUDA_SUCCESS && prop_refuses_rdma("create", prop))
		result = CUDA_ERROR_NOT_SUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_handle *handle = calloc(1, sizeof *handle);
	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle->prop = *prop;
	handle->size = size;
	handle->id = sim_new_id();
	handle->owners = 1;
	if (handle_is_on_device(handle))
		result = sim_charge((unsigned)prop->location.id, size);
	if (result == CUDA_SUCCESS) {
		if (sim_shared_make(&handle->memory, handle->size)) {
			sim_list_add(&sim.handles, &handle->node);
			*out = (CUmemGenericAllocationHandle)(uintptr_t)handle;
			return CUDA_SUCCESS;
		}
		if (handle_is_on_device(handle))
			sim_uncharge((unsigned)prop->location.id, size);
	}
	free(handle);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void handle_release(struct sim_handle *handle)
{
	if (handle->owners || handle->mappings)
		return;
	sim_shared_drop(&handle->memory);
	if (handle_is_on_device(handle) && !handle->imported)
		sim_uncharge((unsigned)handle->prop.location.id, handle->size);
	sim_list_remove(&handle->node);
	free(handle);
}

void sim_handle_release(struct sim_handle *handle)
{
	handle->owners--;
	handle_release(handle);
}

/* A handle that is released but still mapped is invalid. */
static CUresult handle_find(CUmemGenericAllocationHandle value, struct sim_handle **out)
{
	*out = (struct sim_handle *)(uintptr_t)value;
	if (!value || !sim_list_has(&sim.handles, *out) || !(*out)->owners)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle value)
{
	struct sim_handle *handle;
	CUresult result = handle_find(value, &handle);
	if (result == CUDA_SUCCESS)
		sim_handle_release(handle);
	return result;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
					   CUmemAllocationGranularity_flags option)
{
	CUresult result = prop_check(prop);
	if (!out || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_ERROR_INVALID_DEVICE) /* the device is not checked */
		result = CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		*out = SIM_PAGE;
	return result;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						    CUmemGenericAllocationHandle value)
{
	struct sim_handle *handle;
	CUresult result = handle_find(value, &handle);
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*prop = handle->prop;
	return result;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
	struct sim_region *region = sim_region_find((CUdeviceptr)address);
	if (!out || !region || region->kind != SIM_MAPPING)
		return CUDA_ERROR_INVALID_VALUE;
	region->handle->owners++;
	*out = (CUmemGenericAllocationHandle)(uintptr_t)region->handle;
	return CUDA_SUCCESS;
}

/*
 * --- sharing ---
 *
 * If pages are files (SIM_MEMFD), the descriptor is the file, with a label of the memory behind the
 * pages; another process maps them. Else the descriptor is a token for use within the process. Both
 * are identified by their inode.
 */

struct label {
	char magic[8];
	CUmemAllocationProp prop;
};
static const char label_magic[8] = "sim-vmm";

/* A new descriptor of the handle's file, above those of programs: gpumem closes it without the C
 * library, so ThreadSanitizer would take a later descriptor of the same number for it. */
#define EXPORTED_FROM 300
static int file_export(const struct sim_handle *handle)
{
	struct label label;
	memset(&label, 0, sizeof label);
	memcpy(label.magic, label_magic, sizeof label_magic);
	label.prop = handle->prop;
	if (pwrite(handle->memory.fd, &label, sizeof label, (off_t)handle->size) !=
	    (ssize_t)sizeof label)
		return -1;
	return fcntl(handle->memory.fd, F_DUPFD_CLOEXEC, EXPORTED_FROM);
}

/* A handle of a file that another process has exported. */
static CUresult file_import(int fd, const struct stat *st, struct sim_handle **out)
{
	struct label label;
	size_t size = (size_t)st->st_size & ~(SIM_PAGE - 1);
	if (!size || pread(fd, &label, sizeof label, (off_t)size) != (ssize_t)sizeof label ||
	    memcmp(label.magic, label_magic, sizeof label_magic) != 0 ||
	    location_check(label.prop.location) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_handle *handle = calloc(1, sizeof *handle);
	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle->prop = label.prop;
	handle->size = size;
	handle->id = sim_new_id();
	handle->shared = st->st_ino;
	handle->imported = true;
	if (!sim_shared_open(&handle->memory, size, fd)) {
		free(handle);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_list_add(&sim.handles, &handle->node);
	*out = handle;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle value,
					  CUmemAllocationHandleType type, unsigned long long flags)
{
	struct sim_handle *handle;
	struct stat st;
	CUresult result = handle_find(value, &handle);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(handle->prop.requestedHandleTypes & type))
		return CUDA_ERROR_INVALID_VALUE;
	int fd = handle->memory.fd >= 0 ? file_export(handle)
					: memfd_create("sim-shared", MFD_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	handle->shared = st.st_ino;
	memcpy(out, &fd, sizeof fd);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared,
					    CUmemAllocationHandleType type)
{
	struct stat st;
	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    fstat((int)(intptr_t)shared, &st) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct sim_node *n = sim.handles.first; n; n = n->next) {
		struct sim_handle *handle = (struct sim_handle *)n;
		if (handle->shared != st.st_ino)
			continue;
		handle->owners++;
		*out = (CUmemGenericAllocationHandle)(uintptr_t)handle;
		return CUDA_SUCCESS;
	}
	struct sim_handle *handle;
	CUresult result = file_import((int)(intptr_t)shared, &st, &handle);
	if (result != CUDA_SUCCESS)
		return result;
	handle->owners = 1;
	*out = (CUmemGenericAllocationHandle)(uintptr_t)handle;
	return CUDA_SUCCESS;
}

/* --- mapping --- */

static struct sim_region *mapping_make(CUdeviceptr address, struct sim_handle *handle)
{
	struct sim_region *region = calloc(1, sizeof *region);
	if (!region)
		return NULL;
	region->base = address;
	region->size = handle->size;
	region->kind = SIM_MAPPING;
	region->handle = handle;
	region->device =
		handle_is_on_device(handle) ? (unsigned)handle->prop.location.id : SIM_MAX_DEVICES;
	region->id = handle->id;
	if (sim_region_insert(region) == CUDA_SUCCESS)
		return region;
	free(region);
	return NULL;
}

CUresult sim_cuMemMap(CUdeviceptr address, size_t size, size_t offset,
		      CUmemGenericAllocationHandle value, unsigned long long flags)
{
	struct sim_handle *handle;
	CUresult result = handle_find(value, &handle);
	if (result != CUDA_SUCCESS)
		return result;
	if (offset)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags || address % SIM_PAGE || size != handle->size ||
	    !range_is_reserved(address, size) || range_has_region(address, size))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_region *region = mapping_make(address, handle);
	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!sim_shared_view(&handle->memory, 0, handle->size, (void *)address)) {
		sim_region_remove(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	handle->mappings++;
	return CUDA_SUCCESS;
}

/* Find the mappings that together are exactly [address, +size): index of the first, and count. */
static bool whole_mappings(CUdeviceptr address, size_t size, size_t *first, size_t *count)
{
	CUdeviceptr at = address;
	*first = sim_region_place(address);
	*count = 0;
	if (!size || address + size < address)
		return false;
	while (at < address + size) {
		if (*first + *count == sim.regions.n)
			return false;
		const struct sim_region *r = sim.regions.at[*first + *count];
		if (r->base != at || r->kind != SIM_MAPPING)
			return false;
		at += r->size;
		++*count;
	}
	return at == address + size;
}

/* Unmap: the addresses are reserved again, and fault. Does not wait, as on the device. */
CUresult sim_unmap_region(struct sim_region *region)
{
	struct sim_handle *handle = region->handle;
	if (mmap((void *)region->base, region->size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_region_remove(region);
	handle->mappings--;
	handle_release(handle);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemUnmap(CUdeviceptr address, size_t size)
{
	size_t first, count;
	CUresult result = CUDA_SUCCESS;
	if (!whole_mappings(address, size, &first, &count))
		return CUDA_ERROR_INVALID_VALUE;
	while (count-- && result == CUDA_SUCCESS)
		result = sim_unmap_region(sim.regions.at[first]);
	return result;
}

/* The host acts for every device: it has the access of all devices. */
static int region_protection(const struct sim_region *region)
{
	int most = PROT_NONE;
	for (unsigned d = 0; d < SIM_MAX_DEVICES; d++)
		most |= region->access[d] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				? PROT_READ | PROT_WRITE
			: region->access[d] == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
									     : PROT_NONE;
	return most;
}

CUresult sim_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc,
			    size_t count)
{
	size_t first, regions;
	if (!desc || !count || !whole_mappings(address, size, &first, &regions))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (location_check(desc[i].location) != CUDA_SUCCESS)
			return CUDA_ERROR_INVALID_VALUE;
		if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t r = first; r < first + regions; r++) {
		struct sim_region *region = sim.regions.at[r];
		if (prop_refuses_rdma("access", &region->handle->prop)) /* as under WSL 2 */
			return CUDA_ERROR_UNKNOWN;
		for (size_t i = 0; i < count; i++)
			if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
				region->access[desc[i].location.id] = (unsigned char)desc[i].flags;
		if (mprotect((void *)region->base, region->size, region_protection(region)) != 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *where,
			    CUdeviceptr address)
{
	const struct sim_region *region = sim_region_find(address);
	if (flags && sim_maybe_device(address))
		*flags = 0;
	if (!flags || !where || !region ||
	    (region->kind != SIM_MAPPING && region->kind != SIM_DEVICE) ||
	    where->type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device_valid(where->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = region->access[where->id]; /* of a block: none */
	return CUDA_SUCCESS;
}
