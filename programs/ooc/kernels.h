/* SPDX-License-Identifier: BSD-3-Clause */
/* The two kernels. Both enqueue a step over cells [from, to) of device memory; without cells,
 * nothing. */
#ifndef OOC_KERNELS_H
#define OOC_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* a += b. */
cudaError_t ooc_kernel_add(float *a, const float *b, uint64_t from, uint64_t to,
			   cudaStream_t stream);

/* out of in, of which cells [from - 1, to + 1) are read. */
cudaError_t ooc_kernel_heat(const float *in, float *out, uint64_t from, uint64_t to,
			    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
