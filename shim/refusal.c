/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/refusal.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/loaded.h"
#include "base/msg.h"
#include "knob/knob.h"
#include "residency/opened.h"
#include "shim/entry/object.h"

/* Libraries that submit work past the driver's exports; programs load them to do so. How the file
 * name begins. */
static const char *const libraries[] = {
	"libnvoptix.",
	"libnvcuvid.",
	"libnvidia-encode.",
	"libnvidia-opticalflow.",
};

/* Of NVIDIA's driver itself: NVML asks for a table of libcuda, for one. */
static const char *const driver[] = {
	"libcuda.",	  "libcudadebugger.",	"libnvidia-ptxjitcompiler.",
	"libnvidia-nvvm", "libnvidia-gpucomp.", "libnvidia-ml.",
};

/* Tables that NVIDIA's own libraries ask for, which launch by the exports all the same. Seen on an
 * H100, driver 580, in CUDA programs, PyTorch, CuPy, JAX and Numba, beside those of order.c. */
static const CUuuid known[] = {
	/* libcudart 13, before cuInit */
	{"\xf8\xcf\xf9\x51\x21\x46\x8b\x4e\xb9\xe2\xfb\x46\x9e\x7c\x0d\xd9"},
	/* cuBLAS, cuFFT */
	{"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2"},
	/* cuFFT */
	{"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e"},
	/* NVRTC, nvJitLink */
	{"\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28"},
};

static atomic_bool communicates;
static atomic_bool has_table;
static _Atomic uint64_t table[2]; /* the halves of its identifier */

void gm_refusal_kernel_asked(const char *name)
{
	if (name && strstr(name, "nccl") && strstr(name, "Kernel"))
		atomic_store(&communicates, true);
}

static void table_print(const uint64_t halves[2], char *name, size_t size)
{
	unsigned char bytes[2 * sizeof *halves];
	memcpy(bytes, halves, sizeof bytes);
	for (size_t i = 0; i < sizeof bytes && 2 * i + 2 < size; i++)
		snprintf(name + 2 * i, size - 2 * i, "%02x", bytes[i]);
}

/* The name of the file that has `asker` in its code. */
static const char *object_name(const void *asker)
{
	struct gm_object object;
	if (!gm_object_at(asker, &object) || !object.path)
		return "";
	const char *slash = strrchr(object.path, '/');
	return slash ? slash + 1 : object.path;
}

void gm_refusal_table_given(const CUuuid *id, const void *asker)
{
	uint64_t halves[2];
	char text[64];
	const char *name = object_name(asker);
	memcpy(halves, id, sizeof halves);
	table_print(halves, text, sizeof text);
	gm_msg(GM_MSG_DEBUG, "cuGetExportTable gave %s the table %s", *name ? name : "the program",
	       text);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (memcmp(id, &known[i], sizeof *id) == 0)
			return;
	for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
		if (strncmp(name, driver[i], strlen(driver[i])) == 0)
			return;
	atomic_store(&table[0], halves[0]);
	atomic_store(&table[1], halves[1]);
	atomic_store(&has_table, true);
}

enum gm_refusal gm_refusal_find(char *name, size_t size)
{
	const char *library = gm_loaded_find(libraries, sizeof libraries / sizeof *libraries);
	*name = '\0';
	if (gm_knob_get()->remap.choice == GM_REMAP_OFF)
		return GM_REFUSAL_REMAP;
	if (atomic_load(&communicates)) {
		snprintf(name, size, "NCCL");
		return GM_REFUSAL_COMMUNICATOR;
	}
	if (library) {
		snprintf(name, size, "%s", library);
		return GM_REFUSAL_LIBRARY;
	}
	if (atomic_load(&has_table)) {
		const uint64_t halves[2] = {atomic_load(&table[0]), atomic_load(&table[1])};
		table_print(halves, name, size);
		return GM_REFUSAL_TABLE;
	}
	return gm_opened_find(name, size) ? GM_REFUSAL_DEVICE : GM_REFUSAL_NONE;
}
