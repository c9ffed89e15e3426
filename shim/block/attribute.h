/* SPDX-License-Identifier: BSD-3-Clause */
/* Native properties of a block. Any thread; no lock is taken. */
#ifndef GM_SHIM_BLOCK_ATTRIBUTE_H
#define GM_SHIM_BLOCK_ATTRIBUTE_H

#include "pool/pool.h"

struct gm_span {
	CUdeviceptr at;
	size_t size; /* bytes */
};

/* The mapping of a live block as natively. All of it is mapped memory of the pool. */
struct gm_span gm_block_mapping(const struct gm_block *block);

#endif
