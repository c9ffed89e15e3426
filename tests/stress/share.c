/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of this process that another one opens, reads and closes. */
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DIGITS (2 * sizeof(CUipcMemHandle))

static void handle_print(const CUipcMemHandle *handle, char text[DIGITS + 1])
{
	for (size_t i = 0; i < sizeof *handle; i++)
		sprintf(text + 2 * i, "%02x", (unsigned char)handle->reserved[i]);
}

static void handle_parse(const char *text, CUipcMemHandle *handle)
{
	for (size_t i = 0; i < sizeof *handle; i++) {
		const char byte[] = {text[2 * i], text[2 * i + 1], 0};
		handle->reserved[i] = (char)strtoul(byte, NULL, 16);
	}
}

/* If driver calls fail, sharing or opening a block may fail, too. */
static bool share_try(const struct worker *w, const char *call, CUresult result)
{
	return stress_injects ? result == CUDA_SUCCESS : stress_try(w, call, result);
}

int stress_import(const struct worker *w, char **arguments)
{
	CUipcMemHandle handle;
	CUdeviceptr p;
	handle_parse(arguments[0], &handle);
	stress_use(w, (unsigned)strtoul(arguments[1], NULL, 0));
	if (!share_try(w, "cuIpcOpenMemHandle",
		       cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)))
		return stress_faults() != 0;
	stress_check(w, p, strtoull(arguments[2], NULL, 0), strtoull(arguments[3], NULL, 0));
	share_try(w, "cuIpcCloseMemHandle", cuIpcCloseMemHandle(p));
	return stress_faults() != 0;
}

void stress_share(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	char text[DIGITS + 1], device[16], size[32], tag[32];
	CUipcMemHandle handle;
	if (!slot)
		return;
	if (share_try(w, "cuIpcGetMemHandle", cuIpcGetMemHandle(&handle, slot->base))) {
		handle_print(&handle, text);
		snprintf(device, sizeof device, "%u", slot->device);
		snprintf(size, sizeof size, "%zu", slot->size);
		snprintf(tag, sizeof tag, "%llu", (unsigned long long)slot->tag);
		pid_t pid = fork();
		if (pid == 0) {
			execl("/proc/self/exe", "stress", "import", text, device, size, tag,
			      (char *)NULL);
			_exit(127);
		}
		stress_wait(w, pid);
	}
	stress_check(w, slot->base, slot->size, slot->tag);
	stress_slot_leave(slot);
}
