/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations of a thread, on the GPU, and on the CPU for the simulated driver. */
#ifndef PR_LANE_H
#define PR_LANE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PR_LANE static __device__ inline
#define pr_add32(at, n) atomicAdd((at), (uint32_t)(n))
#define pr_add(at, n) atomicAdd((at), (unsigned long long)(n))
#define pr_exch32(at, n) atomicExch((at), (n))
#define pr_exch(at, n) atomicExch((at), (n))
#define pr_cas(at, old, n) atomicCAS((at), (old), (n))
#define pr_load(at) (*(const volatile unsigned long long *)(at))
#define pr_fence() __threadfence()
#define pr_barrier() __syncthreads()
#else
#include <stdlib.h>
#define PR_LANE static inline
#define pr_add32(at, n) __atomic_fetch_add((at), (uint32_t)(n), __ATOMIC_ACQ_REL)
#define pr_add(at, n) __atomic_fetch_add((at), (unsigned long long)(n), __ATOMIC_RELAXED)
#define pr_exch32(at, n) __atomic_exchange_n((at), (n), __ATOMIC_ACQ_REL)
#define pr_exch(at, n) __atomic_exchange_n((at), (n), __ATOMIC_ACQ_REL)
#define pr_cas(at, old, n) __sync_val_compare_and_swap((at), (old), (n))
#define pr_load(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
#define pr_fence() ((void)0)
void pr_barrier(void); /* of the threads that stand for a block: tests/programs */
#endif

#endif
