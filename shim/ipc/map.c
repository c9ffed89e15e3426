/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/ipc/map.h"

#include <string.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/size.h"
#include "base/sys.h"
#include "shim/call.h"
#include "shim/ipc/opens.h"
#include "shim/memory/device.h"

#define PATIENCE 10000000000u /* ns for all parts of a block */
#define NAP 1000000u	      /* ns between two requests to a process that wakes */

/* --- driver calls, between gm_driver_quiet_begin and end --- */

static CUresult map_part(struct gm_ipc_map *map, int fd, uint64_t size)
{
	const struct gm_driver *driver = &gm_shim_driver;
	CUmemGenericAllocationHandle physical;
	if (size % GM_POOL_GRANULE || size > map->total - map->mapped)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = driver->cuMemImportFromShareableHandle(
		&physical, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver->cuMemMap(map->at + map->mapped, size, 0, physical, 0);
	driver->cuMemRelease(physical); /* the mapping keeps it */
	if (result == CUDA_SUCCESS)
		map->mapped += size;
	return result;
}

/* Give access to the context's device, and to the device of the memory: copies between two devices
 * need both. */
static CUresult map_allow(const struct gm_ipc_map *map, const struct gm_context *context)
{
	CUmemAccessDesc list[2];
	const CUdevice devices[2] = {gm_shim_devices[map->ordinal].handle, context->device};
	size_t n = map->ordinal == context->ordinal ? 1 : 2;
	for (size_t i = 0; i < n; i++)
		list[i] = (CUmemAccessDesc){
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = devices[i]},
			.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
		};
	return gm_shim_driver.cuMemSetAccess(map->at, map->total, list, n);
}

/* --- requests --- */

/* Reserve addresses by the first reply, which has the total size. */
static CUresult map_begin(struct gm_ipc_map *map, const struct gm_ipc_reply *reply)
{
	if (!reply->size || reply->offset > reply->total ||
	    reply->size > reply->total - reply->offset || reply->total % GM_POOL_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result =
		gm_shim_driver.cuMemAddressReserve(&map->at, reply->total, GM_POOL_GRANULE, 0, 0);
	if (result != CUDA_SUCCESS)
		return result;
	map->total = reply->total;
	map->block = map->at + reply->offset;
	map->size = reply->size;
	return CUDA_SUCCESS;
}

static bool reply_is_sound(const struct gm_rpc_message *message, const struct gm_ipc_reply *reply,
			   uint64_t next)
{
	if (message->size != sizeof *reply)
		return false;
	if (reply->again)
		return reply->again == 1 && !reply->n && !message->n_fds;
	return reply->n && reply->n <= GM_EXPORT_PARTS && reply->page <= (next == 0) &&
	       reply->n + reply->page == message->n_fds && reply->first == next;
}

/* Map the parts of a reply. *next becomes the number of the next part; 0: none is left. *again: the
 * process cannot answer yet. */
static CUresult map_take(struct gm_ipc_map *map, struct gm_rpc_message *message, uint64_t *next,
			 bool *again)
{
	struct gm_ipc_reply reply;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	memcpy(&reply, message->data, sizeof reply);
	bool sound = reply_is_sound(message, &reply, *next);
	*again = sound && reply.again;
	if (*again)
		return CUDA_SUCCESS;
	if (sound && reply.page)
		map->page = gm_ipc_page_map(message->fds[reply.n]);
	if (sound)
		result = *next ? CUDA_SUCCESS : map_begin(map, &reply);
	for (unsigned i = 0; sound && i < reply.n && result == CUDA_SUCCESS; i++)
		result = map_part(map, message->fds[i], reply.part[i]);
	*next += reply.n;
	if (result == CUDA_SUCCESS && *next >= reply.chunks) {
		*next = 0;
		result = map->mapped == map->total ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	gm_rpc_close_all(message);
	return result;
}

/* The native error for an open of memory that is gone or unknown. */
static CUresult ask_failed(const struct gm_ipc_handle *handle, enum gm_rpc_result why)
{
	bool expected = why == GM_RPC_GONE || why == GM_RPC_REFUSED;
	gm_msg(expected ? GM_MSG_NOTICE : GM_MSG_WARN,
	       "cuIpcOpenMemHandle: no memory from process %u: %s", handle->node.pid,
	       gm_rpc_why(why));
	return why == GM_RPC_UNABLE ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_INVALID_HANDLE;
}

/* It works or moves its memory for too long, or lacks memory to wake. */
static CUresult wake_failed(const struct gm_ipc_handle *handle)
{
	gm_msg(GM_MSG_WARN,
	       "cuIpcOpenMemHandle: no memory from process %u: it sleeps, and did not wake in time",
	       handle->node.pid);
	return CUDA_ERROR_INVALID_HANDLE;
}

static CUresult map_ask(struct gm_ipc_map *map, const struct gm_rpc_link *link,
			const struct gm_ipc_handle *handle)
{
	struct gm_ipc_request request = {.handle = *handle};
	struct gm_rpc_message message;
	bool again = false;
	do {
		if (again && gm_clock_ns() >= link->end)
			return wake_failed(handle);
		if (again)
			gm_sys_nap(NAP);
		enum gm_rpc_result answer =
			gm_rpc_ask(link, GM_RPC_IPC_OPEN, &request, sizeof request, &message);
		if (again && answer == GM_RPC_SILENT)
			return wake_failed(handle);
		if (answer != GM_RPC_OK)
			return ask_failed(handle, answer);
		CUresult result = map_take(map, &message, &request.first, &again);
		if (result != CUDA_SUCCESS) {
			gm_msg(GM_MSG_WARN, "cuIpcOpenMemHandle: memory of process %u: %s",
			       handle->node.pid, gm_driver_error(&gm_shim_driver, result));
			return CUDA_ERROR_MAP_FAILED;
		}
	} while (again || request.first);
	return CUDA_SUCCESS;
}

static CUresult map_all(struct gm_ipc_map *map, const struct gm_ipc_handle *handle,
			const struct gm_context *context)
{
	struct gm_rpc_link link;
	enum gm_rpc_result reached = gm_rpc_connect(&handle->node, PATIENCE, &link);
	if (reached != GM_RPC_OK)
		return ask_failed(handle, reached);
	CUresult result = map_ask(map, &link, handle);
	gm_rpc_disconnect(&link);
	if (result == CUDA_SUCCESS && map_allow(map, context) != CUDA_SUCCESS) {
		gm_msg(GM_MSG_WARN,
		       "cuIpcOpenMemHandle: device %u cannot reach memory of device %u",
		       context->ordinal, map->ordinal);
		result = CUDA_ERROR_MAP_FAILED;
	}
	return result;
}

static bool device_find(const unsigned char uuid[16], unsigned *ordinal)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		*ordinal = i;
		if (memcmp(gm_shim_devices[i].uuid, uuid, sizeof gm_shim_devices[i].uuid) == 0)
			return true;
	}
	return false;
}

CUresult gm_ipc_map(const struct gm_ipc_handle *handle, const struct gm_context *context,
		    struct gm_ipc_map *map)
{
	*map = (struct gm_ipc_map){.at = 0};
	if (!gm_shim_driver.cuMemImportFromShareableHandle ||
	    !device_find(handle->node.gpu, &map->ordinal)) {
		gm_msg(GM_MSG_WARN,
		       "cuIpcOpenMemHandle: memory of process %u is on a GPU that this one does "
		       "not see (CUDA_VISIBLE_DEVICES?)",
		       handle->node.pid);
		return CUDA_ERROR_MAP_FAILED;
	}
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = map_all(map, handle, context);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	if (result != CUDA_SUCCESS)
		gm_ipc_unmap(map);
	return result;
}

void gm_ipc_unmap(struct gm_ipc_map *map)
{
	bool unmapped = true;
	if (map->at) {
		CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
		if (map->mapped)
			unmapped = gm_shim_driver.cuMemUnmap(map->at, map->mapped) == CUDA_SUCCESS;
		gm_shim_driver.cuMemAddressFree(map->at, map->total);
		gm_driver_quiet_end(&gm_shim_driver, mode);
	}
	if (unmapped)
		gm_ipc_page_close(map->page);
	map->at = 0;
	map->page = NULL;
}
