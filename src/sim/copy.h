/* SPDX-License-Identifier: BSD-3-Clause */
/* One copy of up to three dimensions, between any two kinds of memory. */
#ifndef GM_SIM_COPY_H
#define GM_SIM_COPY_H

#include "sim/internal.h"

enum sim_end_kind { SIM_END_DEVICE, SIM_END_HOST, SIM_END_ANY };
enum { SIM_COPY_ASYNC = 1, SIM_COPY_PEER = 2 };

struct sim_end {
	enum sim_end_kind kind;
	char *at;
	size_t pitch, height; /* bytes of a row, rows of a plane */
	const struct sim_array *array;
};

/* The devices of a range of addresses, as bit masks. */
struct sim_reach {
	unsigned at; /* devices with memory of it */
	unsigned by; /* devices that can use all of it */
	bool host, pageable;
};

/* Check that the end's extent is valid to the byte. Sizes must not be 0. */
CUresult sim_check_end(const struct sim_end *end, size_t width, size_t height, size_t depth,
		       struct sim_reach *reach);

/* Check a copy and make its work. *at: the devices of `to`; *out: of `from`. */
CUresult sim_copy_work(struct sim_end to, struct sim_end from, const size_t size[3], unsigned how,
		       struct sim_work **work, struct sim_reach *at, struct sim_reach *out);
/* Make the work of a node's parameters. Without a context it has its memory's context, if any. */
CUresult sim_box_work(const CUDA_MEMCPY3D *box, CUcontext context, struct sim_work **work);
void sim_box_keep(struct sim_work *work, const CUDA_MEMCPY3D *box, CUcontext context);
/* Get the parameters; false: unknown. */
bool sim_box_of_work(const struct sim_work *work, CUDA_MEMCPY3D *box);
CUresult sim_fill_work(CUdeviceptr address, size_t pitch, unsigned value, unsigned element,
		       size_t count, size_t height, struct sim_work **work,
		       struct sim_reach *reach);

/* Check and submit a copy; waits like the real call. size: bytes, rows, planes. */
CUresult sim_copy(struct sim_end to, struct sim_end from, const size_t size[3], CUstream stream,
		  unsigned how);

#endif
