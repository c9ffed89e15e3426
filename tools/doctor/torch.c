/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether parts of PyTorch's cache can be lent (GPUMEM_LEND). */
#include <stdlib.h>
#include <string.h>

#include "knob/knob.h"
#include "tools/doctor/doctor.h"

enum { DRIVER_LEAST = 12050 };

/* Why nothing would be lent, and the remedy. */
struct reason {
	const char *why, *remedy; /* why NULL: there is none */
};

static bool is_set(const char *name)
{
	const char *value = getenv(name);
	return value && strcmp(value, "0") != 0;
}

/* The old name of the variable is read, too. */
static bool torch_has(const char *setting)
{
	const char *old = getenv("PYTORCH_CUDA_ALLOC_CONF"), *now = getenv("PYTORCH_ALLOC_CONF");
	return (old && strstr(old, setting)) || (now && strstr(now, setting));
}

static struct reason reason_find(int version)
{
	const struct {
		bool applies;
		struct reason reason;
	} all[] = {
		{gm_doctor_knob(GM_KNOB_ID_mode).choice == GM_MODE_TRACE,
		 {"GPUMEM_MODE=trace only watches", "Unset GPUMEM_MODE."}},
		{gm_doctor_knob(GM_KNOB_ID_ipc).choice == GM_IPC_NATIVE,
		 {"GPUMEM_IPC=native leaves segments to the driver", "Unset GPUMEM_IPC."}},
		{version < DRIVER_LEAST,
		 {"the driver is older than 12.5", "Install a driver from CUDA 12.5 on (555)."}},
		{gm_doctor_knob(GM_KNOB_ID_remap).choice == GM_REMAP_OFF,
		 {"GPUMEM_REMAP=off", "Unset GPUMEM_REMAP."}},
		{torch_has("expandable_segments:True"),
		 {"PYTORCH_ALLOC_CONF has expandable_segments:True, so that the cache maps its "
		  "memory itself",
		  "Use one of the two."}},
		{torch_has("backend:cudaMallocAsync"),
		 {"PYTORCH_ALLOC_CONF has backend:cudaMallocAsync, which has no segments",
		  "Use one of the two."}},
		{is_set("PYTORCH_NO_CUDA_MEMORY_CACHING"),
		 {"PYTORCH_NO_CUDA_MEMORY_CACHING is set: there is no cache", "Unset it."}},
		{is_set("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"),
		 {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK is set: NCCL registers whole "
		  "segments",
		  "Unset it."}},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].applies)
			return all[i].reason;
	return (struct reason){NULL, ""};
}

void gm_doctor_lending(struct gm_doctor *doctor, int version)
{
	const bool on = gm_doctor_knob(GM_KNOB_ID_lend).choice != GM_LEND_OFF;
	const struct reason reason = reason_find(version);
	const char *name = "lending";
	if (on && reason.why)
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN, reason.remedy,
			      "GPUMEM_LEND has no effect: %s", reason.why);
	else if (on)
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "",
			      "GPUMEM_LEND can lend parts of PyTorch's cache");
	else if (reason.why)
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "",
			      "GPUMEM_LEND=0, and it would have no effect: %s", reason.why);
	else
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "",
			      "GPUMEM_LEND=0; it can lend parts of PyTorch's cache here");
}
