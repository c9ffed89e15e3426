/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of wrong and odd calls: odd_*.def, one row a line, and the tables of odd_tables.c. Each
 * row prints its name, the results of its calls, and other visible effects, never an address: a
 * native and a preloaded run print the same lines. No row may hang, end the process, or depend on
 * time, on addresses or on the size of the device. No row has a justified difference.
 *
 * Left out are calls that crash the native driver (580, H100) or break its context: copies and
 * boxes of any memory type that was freed, a batch from a freed block, the exchange of a capture
 * mode with NULL, cuMemcpy3DPeer(NULL), a free of memory whose own context is gone. Also left out
 * is a node that fills rows 2^62 bytes apart: the driver's sum of addresses wraps around, perhaps
 * into another block.
 */
#ifndef GM_TESTS_GPU_ODD_H
#define GM_TESTS_GPU_ODD_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define ODD_HOST (8 * KIB)
#define ODD_SPARE 16
#define ODD_NOWHERE ((CUdeviceptr)4096) /* the driver has no memory there */

/* The memory of the rows. No size is a multiple of the granularity: every byte counts. */
struct odd {
	CUdevice device;
	CUcontext context; /* the primary context */
	CUstream stream;   /* non-blocking */
	CUdeviceptr block; /* of 1000 bytes */
	CUdeviceptr other; /* of 1000 bytes, too */
	CUdeviceptr big;   /* of 3 MiB and 100 bytes */
	CUdeviceptr freed; /* was of 1000 bytes; valid only until a row allocates */
	CUdeviceptr managed;
	char *pinned; /* ODD_HOST bytes, like `host` */
	char *host;
	CUdeviceptr spare[ODD_SPARE]; /* for rows that free */
	unsigned taken;
	/* For rows that run in a common state: its name, and calls before and after each row. */
	const char *state;
	void (*enter)(struct odd *o), (*leave)(struct odd *o);
	CUstreamCaptureMode mode;
	bool gone;   /* the memory is gone, and a context is current */
	bool forked; /* in a child, where the driver does not work */
};

/* The path of a module with the kernel `add`, or NULL on the simulated driver. */
extern const char *odd_kernels;

/* Begin and end the line of a row. */
void odd_begin(struct odd *o, const char *name);
void odd_end(struct odd *o);

/* A block of `size` bytes; a freed one; one that was allocated early. */
CUdeviceptr odd_block(size_t size);
CUdeviceptr odd_freed(size_t size);
CUdeviceptr odd_take(struct odd *o);

/* Create a context, and make it current. */
CUcontext odd_context(struct odd *o);

/* odd_states.c: the rows of odd_states.def in each state. */
void odd_states(struct odd *o);
void odd_state_no_context(struct odd *o);
void odd_state_thread(struct odd *o);
void odd_state_second(struct odd *o);
void odd_state_ended(struct odd *o);
void odd_state_gone(struct odd *o);
void odd_state_reset(struct odd *o);
void odd_state_again(struct odd *o);
void odd_state_forked(struct odd *o);
void odd_state_broken(struct odd *o);
void odd_state_captured(struct odd *o);
void odd_state_captured_elsewhere(struct odd *o);

/* odd_help.c: 2 MiB of physical memory; such memory, mapped; an empty graph; a node in a graph of
 * its own. */
CUmemGenericAllocationHandle odd_created(void);
CUdeviceptr odd_mapped(void);
CUgraph odd_graph(void);
CUresult odd_memset_node(struct odd *o, CUdeviceptr at, size_t pitch, unsigned element,
			 size_t width, size_t rows);
CUresult odd_copy_node(struct odd *o, CUdeviceptr to, CUdeviceptr from, size_t width, size_t rows);
/* Prints the results of three calls: a node for 8 bytes of `at` is added in context `first`, or in
 * none; made executable; and changed to context `then`. The node copies the bytes from `from`, or
 * fills them if `from` is 0. */
void odd_node_contexts(CUdeviceptr at, CUdeviceptr from, CUcontext first, CUcontext then);
/* One call on another thread, in `context` or in none; in a host function; in a callback. */
enum odd_call {
	ODD_FREE,
	ODD_MEMSET,
	ODD_RANGE,
	ODD_ATTRIBUTE,
	ODD_ALLOC,
	ODD_QUERY,
	ODD_INFO,
	ODD_COPY,
	ODD_FREE_ASYNC
};
CUresult odd_elsewhere(CUcontext context, enum odd_call call, CUdeviceptr at);
CUresult odd_hosted(struct odd *o, enum odd_call call, CUdeviceptr at);
CUresult odd_called_back(struct odd *o, enum odd_call call, CUdeviceptr at);

/* The arguments of a batch of one copy. */
#define ODD_BATCH(target, source, bytes)                               \
	CUdeviceptr to[] = {target}, from[] = {source};                \
	size_t n[] = {bytes}, first[] = {0, 0};                        \
	CUmemcpyAttributes how[2] = {                                  \
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}, \
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}, \
	}
#define ODD_HERE ((CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE})

/* odd_tables.c */
void odd_copies(struct odd *o);
void odd_unified(struct odd *o);
void odd_boxes(struct odd *o);
void odd_fills(struct odd *o);
void odd_attributes(struct odd *o);

#define TELL(...) printf(" " __VA_ARGS__)
#define SAY(call) TELL("%d", (int)(call))

/* A call that must succeed: otherwise print the place, and exit. */
#define MUST(call)                                                                         \
	do {                                                                               \
		int must_ = (int)(call);                                                   \
		if (must_ != 0) {                                                          \
			printf("%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, must_); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* A row: its name, then its SAY and TELL calls in order. `o` is in scope. */
#define ODD(name, ...)               \
	do {                         \
		odd_begin(o, name);  \
		{                    \
			__VA_ARGS__; \
		}                    \
		odd_end(o);          \
	} while (0);

#endif
