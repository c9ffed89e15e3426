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
	size_t pitch, height; /* bytes a row, rows a plane */
	const struct sim_array *array;
};

/* The devices of a range of addresses, as bit masks. */
struct sim_reach {
	unsigned at; /* devices that hold it */
	unsigned by; /* devices that can use all of it */
	bool host, pageable;
};

/* Check that the end's extent is valid to the byte. Sizes are not 0. */
CUresult sim_check_end(const struct sim_end *end, size_t width, size_t height, size_t depth,
		       struct sim_reach *reach);

/* Check a copy and make its work. *at, *out: the devices of both ends. */
CUresult sim_copy_work(struct sim_end to, struct sim_end from, const size_t size[3], unsigned how,
		       struct sim_work **work, struct sim_reach *at, struct sim_reach *out);
/* Likewise of the parameters of a node. */
CUresult sim_box_work(const CUDA_MEMCPY3D *box, struct sim_work **work);
CUresult sim_fill_work(CUdeviceptr address, size_t pitch, unsigned value, unsigned element,
		       size_t count, size_t height, struct sim_work **work,
		       struct sim_reach *reach);

/* Check and submit a copy; waits where the real call does. size: bytes, rows, planes. */
CUresult sim_copy(struct sim_end to, struct sim_end from, const size_t size[3], CUstream stream,
		  unsigned how);

#endif
