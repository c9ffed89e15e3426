/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph on the device, for the files of the host that change it. */
#ifndef GRAPH_SESSION_H
#define GRAPH_SESSION_H

#include "programs/common/args.h"
#include "programs/graph/dyngraph.h"

#define PAGE_BYTES (GRAPH_PAGE_WORDS * sizeof(uint32_t))

struct graph_session {
	struct graph_plan plan;
	enum graph_layout layout;
	/* As it was before the build, but for `vertices`: numbers that were ever taken. */
	struct graph_work work;
	struct graph_work *on_device;
	struct page_heap *heap;
	void *block;	   /* vertices, their names and queue; aim, faim: pages, and their queue */
	uint64_t vertices; /* bytes of management data */
	uint64_t room;	   /* that `block` was made for */
	uint64_t first;	   /* edges after the build */
	uint32_t rows;	   /* vertices of the build */
	uint32_t pieces;   /* that there is room for; 0: no adjacency can be long */
	struct graph_edge *batch, *sorted;
	void *scratch;
	uint64_t scratch_bytes;
	bool built;
};

#define WORK_SET(s, member, value)                                                  \
	do {                                                                        \
		__typeof__((s)->work.member) value_ = (value);                      \
		PR_MUST(cudaMemcpy(&(s)->on_device->member, &value_, sizeof value_, \
				   cudaMemcpyHostToDevice));                        \
	} while (0)

/* By a worker of 1 or 32 lanes; else by the plan's. */
void graph_session_launch_by(struct graph_session *s, uint32_t worker, enum graph_kernel kernel,
			     uint32_t items);
void graph_session_launch(struct graph_session *s, enum graph_kernel kernel, uint32_t items);
/* What kernels have, and its sums. Ends the process if an edge had no memory. */
void graph_session_read(struct graph_session *s, struct graph_work *out, struct graph_sums *sum);

#endif
