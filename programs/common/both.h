/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of headers that the host calls, and kernels. */
#ifndef PR_BOTH_H
#define PR_BOTH_H

#ifdef __CUDACC__
#define PR_BOTH static __host__ __device__ inline
#else
#define PR_BOTH static inline
#endif

#endif
