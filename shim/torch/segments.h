/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments of PyTorch's cache on one device: which parts of them no tensor uses (lend.h).
 *
 *     segment    [ unit | unit | unit | unit ]     a block of the pool, and its chunks
 *     tensors      ##     ######                   live: 1 2 1 0
 *
 *     MAPPED --- take ---> LEAVING --- gone ---> VACANT --- claim ---> COMING --- came ---> MAPPED
 *        ^-------------------'                     ^--------------------'
 *
 * Units without a tensor are linked, the longest unused first. One number counts all frees: a fence
 * that was recorded when it was n, and has passed, says that no work uses a unit whose last free
 * was number n or less. Source: none.
 *
 * pre, of all functions: the caller's lock is held. They allocate host memory, and call nothing.
 */
#ifndef GM_SHIM_TORCH_SEGMENTS_H
#define GM_SHIM_TORCH_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

enum gm_unit_state { GM_UNIT_MAPPED, GM_UNIT_LEAVING, GM_UNIT_VACANT, GM_UNIT_COMING };

struct gm_unit {
	CUdeviceptr base;
	uint64_t size;
	uint64_t freed; /* number of the free since which no tensor uses it */
	uint32_t live;	/* tensors in it */
	uint8_t state;	/* enum gm_unit_state */
	bool kept;	/* never taken: a capture used it, or it is not the segment's alone */
	bool hosted;	/* it has memory of the host */
	bool newly;	/* `kept` since its last hand-out */
	bool listed;
	struct gm_unit *before, *after; /* among the unused */
};

struct gm_segment {
	CUdeviceptr base;
	uint64_t size, context; /* the key of its context */
	bool known;		/* the cache has handed out a tensor in it */
	unsigned users;		/* threads that use it with the lock released; it stays meanwhile */
	uint32_t n;
	struct gm_unit *units;
	uint32_t unit_of[]; /* by granule of 2 MiB */
};

struct gm_cached_tensor;

struct gm_segments {
	struct gm_segment **at; /* by address */
	size_t n, room;
	struct gm_unit *first, *last; /* unused, mapped and not kept; the longest unused first */
	struct gm_cached_tensor *tensors, *spare;
	uint64_t frees;	 /* the number of the last free */
	uint64_t passed; /* a fence from this number has passed */
	uint64_t sum;	 /* bytes of all tensors of the cache on the device */
	uint64_t vacant; /* bytes of units without memory of the device */
	uint64_t hosted; /* of these, with memory of the host */
};

/*
 * A segment for the block [base, +size), and its units by `place`, which tells the chunk of an
 * address (gm_pool_place). NULL: no host memory, or the block is no multiple of 2 MiB. No lock
 * need be held. The caller owns it until gm_segments_add succeeds.
 */
struct gm_segment *gm_segment_make(CUdeviceptr base, uint64_t size, uint64_t context,
				   uint64_t (*place)(void *arg, CUdeviceptr at, CUdeviceptr *base),
				   void *arg);
void gm_segment_drop(struct gm_segment *segment);

/* False: no host memory. The set has the segment until gm_segments_remove. */
bool gm_segments_add(struct gm_segments *set, struct gm_segment *segment);
void gm_segments_remove(struct gm_segments *set, struct gm_segment *segment);

/* The segment with the address, or NULL. */
struct gm_segment *gm_segments_find(const struct gm_segments *set, CUdeviceptr address);

/* The first segment at or behind the address, or NULL. */
struct gm_segment *gm_segments_next(const struct gm_segments *set, CUdeviceptr address);

/* Is a unit of the segment on its way, or has it users? It may not be removed then. */
bool gm_segment_is_moving(const struct gm_segment *segment);

/* The units of `bytes` from the address, which lies in the segment: *n of them. NULL: they end
 * behind the segment. */
struct gm_unit *gm_segment_units(struct gm_segment *segment, CUdeviceptr address, uint64_t bytes,
				 uint32_t *n);

/* A tensor was handed out, or taken back. `sum`: bytes of all tensors of the device, as the cache
 * says. `keep`: a capture is open. Returns NULL, or why the set and the cache differ. */
const char *gm_segments_hand_out(struct gm_segments *set, CUdeviceptr address, uint64_t bytes,
				 uint64_t sum, bool keep);
const char *gm_segments_take_back(struct gm_segments *set, CUdeviceptr address, uint64_t bytes,
				  uint64_t sum);

/* The tensor was not handed out after all: no memory. The cache's sum has it nevertheless. */
void gm_segments_undo(struct gm_segments *set, CUdeviceptr address, uint64_t bytes);

/* Units that no work uses, of at least `bytes` if there are so many; they are LEAVING. At most
 * `most`; returns their number. Memory of the host counts for nothing. */
size_t gm_segments_take(struct gm_segments *set, uint64_t bytes, struct gm_unit **out, size_t most);

/* A unit that was LEAVING is VACANT, or was not vacated: it is not taken again. */
void gm_segments_gone(struct gm_segments *set, struct gm_unit *unit, bool vacant);

/* The units of a tensor that was just handed out are COMING if they need memory: those without any,
 * and with `replace` those with memory of the host that nothing else uses. Returns the bytes of
 * these. */
uint64_t gm_segments_claim(struct gm_segments *set, struct gm_unit *units, uint32_t n,
			   bool replace);

/* A unit that was COMING has memory of the device; of the host; or none. */
enum gm_unit_came { GM_UNIT_CAME, GM_UNIT_CAME_HOSTED, GM_UNIT_STAYED_AWAY };
void gm_segments_came(struct gm_segments *set, struct gm_unit *unit, enum gm_unit_came how);

#endif
