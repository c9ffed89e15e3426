/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of the simulated devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

bool sim_device_valid(CUdevice device)
{
	return device >= 0 && (unsigned)device < sim.settings.devices;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)sim.settings.devices;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int size, CUdevice device)
{
	if (!name || size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)size, "Simulated GPU");
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	static const char stem[sizeof uuid->bytes] = "gpumem simulated";
	const char *number = getenv("SIM_GPU");
	const uint32_t value = number ? (uint32_t)strtoul(number, NULL, 10) : 0;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, stem, sizeof stem);
	if (number)
		memcpy(uuid->bytes + 8, &value, sizeof value);
	uuid->bytes[sizeof stem - 1] = (char)device;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	return sim_cuDeviceGetUuid(uuid, device);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = sim.devices[device].memory;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
	if (!id || size < 13)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(id, (size_t)size, "0000:%02X:00.0", (unsigned)device & 0xff);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device) || !sim_device_valid(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = sim.settings.peer && device != peer;
	return CUDA_SUCCESS;
}

/* An attribute that is not in the table is 0. */
static const struct {
	CUdevice_attribute attribute;
	int since, value;
} attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 0, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 0, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 0, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0, 0x7fffffff},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 0, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 0, 65535},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0, 0x7fffffff},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0, 512},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 0, 32},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0, 4},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0, 1},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 0, 1},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 0, 2},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0, 0},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 0, 1},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0, 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 10020, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 10020, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 11000, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 11000, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 11020, 1},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 11030,
	 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
};

/* SIM_ATTRIBUTE. True: it sets this attribute. */
static bool attribute_override(CUdevice_attribute attribute, int *value)
{
	const char *text = getenv("SIM_ATTRIBUTE");
	int which, given, used = 0;
	for (; text && sscanf(text, "%d:%d%n", &which, &given, &used) == 2; text += used) {
		if (which == (int)attribute)
			return *value = given, true;
		used += text[used] == ',';
	}
	return false;
}

CUresult sim_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	if (attribute_override(attribute, value))
		return CUDA_SUCCESS;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = device;
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		if (attributes[i].attribute == attribute &&
		    attributes[i].since <= sim.settings.version)
			*value = attributes[i].value;
	return CUDA_SUCCESS;
}
