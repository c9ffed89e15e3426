/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses all features at once on a preloaded driver, on simulated devices.
 *
 *     main.c     threads, options, the accounts
 *     blocks.c   blocks that all threads share: allocate, check, copy, free
 *     work.c     streams, captures, graphs, peers, memory outside the pool
 *     launched.c green contexts, host functions, graphs launched by kernels, large copies, sleep
 *     lives.c    contexts, resets, fork, exec, failures of the driver
 *     heaps.c    malloc in kernels
 *     share.c    blocks that another process opens
 *
 * An operation holds `world` for reading: contexts do not change. Resets and the accounts hold it
 * for writing: then no other operation is in progress.
 */
#ifndef GM_TESTS_STRESS_H
#define GM_TESTS_STRESS_H

#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICES 2
#define SLOTS 384
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct worker {
	uint64_t random;
	unsigned index;
	const char *doing; /* the operation, for messages */
};

/* A place for a block that any thread may use. */
struct slot {
	pthread_mutex_t lock;
	CUdeviceptr base; /* 0: none */
	size_t size;
	unsigned device;
	uint64_t tag; /* of its content */
};

extern CUcontext stress_primary[DEVICES]; /* protected by `stress_world` */
extern pthread_rwlock_t stress_world;
extern bool stress_injects; /* failures of the driver: any call may run out of memory */

uint64_t stress_random(struct worker *w, uint64_t below);

/* Report a fault of the library under test, and remember it. */
void stress_fault(const struct worker *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

unsigned stress_faults(void); /* reported so far */

/* True: the call succeeded. False: out of memory. Any other result is a fault. */
bool stress_try(const struct worker *w, const char *call, CUresult result);
#define TRY(w, call) stress_try(w, #call, call)

/* Bytes that the pool served, or blocks that a heap served to kernels. */
void stress_count_served(uint64_t n, bool in_kernels);

/* Make a device's primary context current, and return it. */
CUcontext stress_use(const struct worker *w, unsigned device);

/* --- blocks.c: content --- */

/* Write the content that belongs to a tag to the beginning, the middle and the end of a block. */
bool stress_fill(const struct worker *w, CUdeviceptr base, size_t size, uint64_t tag);
/* Report bytes that differ from the written ones. */
void stress_check(const struct worker *w, CUdeviceptr base, size_t size, uint64_t tag);
size_t stress_size(struct worker *w);
/* Free a live block: out of memory is no excuse to keep it. */
void stress_free(const struct worker *w, CUdeviceptr base);

/* A slot, locked, with its device's context current; NULL: another thread has it. `used`: with a
 * block in it. */
struct slot *stress_slot(struct worker *w, bool used);
void stress_slot_leave(struct slot *slot);

/* Under `stress_world` for writing: the blocks of a device have ended; bytes in all of its
 * slots. */
void stress_forget(unsigned device);
uint64_t stress_requested(unsigned device);
void stress_blocks_open(void);

/* The simulated driver runs the emulated kernels instead of the library's. */
void stress_heaps_open(void);

/* Wait for a child, which is to end with status 0. */
void stress_wait(struct worker *w, int pid);

/* --- share.c: another process; its exit status --- */
int stress_import(const struct worker *w, char **arguments);

/* --- operations: one of each name --- */
void stress_allocate(struct worker *w);
void stress_release(struct worker *w);
void stress_rewrite(struct worker *w);
void stress_copy(struct worker *w);
void stress_stream(struct worker *w);
void stress_capture(struct worker *w);
void stress_peer(struct worker *w);
void stress_foreign(struct worker *w);
void stress_context(struct worker *w);
void stress_fork(struct worker *w);
void stress_exec(struct worker *w);
void stress_inject(struct worker *w);
void stress_heap(struct worker *w);
void stress_share(struct worker *w);
void stress_trim(struct worker *w);
void stress_wrong(struct worker *w);
void stress_green(struct worker *w);
void stress_hosted(struct worker *w);
void stress_launched(struct worker *w);
void stress_pageable(struct worker *w);
void stress_sleep(struct worker *w);
/* These hold `stress_world` for writing. */
void stress_reset(struct worker *w);
void stress_accounts(struct worker *w);

#endif
