/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of a log, frozen with gpumem-log(5): slots of 64 bytes, little-endian. Readers skip a
 * slot of kind 0: it was never finished. Fields that a kind does not use are 0.
 */
#ifndef GM_LOG_RECORD_H
#define GM_LOG_RECORD_H

#include <stddef.h>
#include <stdint.h>

/* GM_KIND(value, name, meaning of address/size/held/id) */
#define GM_RECORD_KINDS(GM_KIND)                                                                  \
	GM_KIND(1, ALLOCATE, "block handed out: base, requested, handed out, block id")           \
	GM_KIND(2, FREE, "block taken back: base, requested, handed out, block id")               \
	GM_KIND(3, ALLOCATE_FAILED, "allocation refused: 0, requested")                           \
	GM_KIND(4, COPY, "copy or memset: destination, bytes, source")                            \
	GM_KIND(5, MAP, "chunk mapped: address, bytes, 0, chunk serial")                          \
	GM_KIND(6, UNMAP, "chunk returned: address, bytes, 0, chunk serial")                      \
	GM_KIND(7, REMAP, "chunk moved: new address, bytes, old address, chunk serial")           \
	GM_KIND(8, RETIRE,                                                                        \
		"block freed, fence outstanding: base, requested, handed out, block id")          \
	GM_KIND(9, GROW, "in-kernel heap grew: address, bytes, heap size after, granules wanted") \
	GM_KIND(10, HEAP_SAMPLE,                                                                  \
		"in-kernel heap: live bytes, mapped bytes, failed, frees of foreign addresses; "  \
		"struct gm_heap_sample follows")                                                  \
	GM_KIND(11, MODULE,                                                                       \
		"module loaded: image address, 0, 1 if unknown, 1 if it may call malloc")         \
	GM_KIND(12, SAMPLE,                                                                       \
		"fragmentation sample of a device: 0, 0, length of struct gm_sample, which "      \
		"follows")                                                                        \
	GM_KIND(13, OUT_OF_MEMORY,                                                                \
		"a call lacked memory, of no device: of the host; snapshot: 0, asked (0: not "    \
		"known), length of struct gm_sample, which follows")                              \
	GM_KIND(14, MARK, "a mark of the program: string is its text")                            \
	GM_KIND(15, LIVE,                                                                         \
		"checkpoint: a block that was live: base, requested, handed out, block id")       \
	GM_KIND(16, STRING, "id: number; size: length in bytes; text in the slots that follow")   \
	GM_KIND(17, CONTEXT, "context first seen (size 0) or gone (size 1): id is its key")       \
	GM_KIND(18, TAKEOVER,                                                                     \
		"malloc in kernels of a context: heap (0: the driver's), row of takeover.def, "   \
		"the heap's limit, key of the context")                                           \
	GM_KIND(19, STACK,                                                                        \
		"id: number; size: frames; held: flags; a struct gm_frame each follows")          \
	GM_KIND(20, OBJECT,                                                                       \
		"program or shared object: where it lies, bytes, bytes of its build-id, number; " \
		"string is its path, the build-id follows")                                       \
	GM_KIND(21, HELD,                                                                         \
		"at out of memory, live blocks of one stack, or of one size: blocks, bytes, "     \
		"largest, number of the failure")                                                 \
	GM_KIND(22, DEMOTE, "contents of a chunk left: address, bytes, 0, chunk serial")          \
	GM_KIND(23, PROMOTE,                                                                      \
		"contents of a chunk returned: address, bytes, bytes copied, chunk serial")       \
	GM_KIND(24, SLEEP, "the process sleeps: 0, bytes that left")                              \
	GM_KIND(25, WAKE, "the process is awake: 0, bytes that returned")                         \
	GM_KIND(26, REFUSED,                                                                      \
		"the process did not sleep (0) or wake (1): which, 0, 0, row of refusal.def")     \
	GM_KIND(27, TABLE,                                                                        \
		"unknown table of functions, or calls of one of them: enum gm_table_fate, "       \
		"bytes, calls, place in the table; string names the table")                       \
	GM_KIND(28, TENSOR,                                                                       \
		"tensor that PyTorch's cache handed out of a segment: address, bytes, bytes, "    \
		"number")                                                                         \
	GM_KIND(29, TENSOR_FREE, "tensor taken back: address, bytes, bytes, number")              \
	GM_KIND(30, TENSOR_LIVE,                                                                  \
		"checkpoint: a tensor that was alive: address, bytes, bytes, number")             \
	GM_KIND(31, TENSOR_REFUSED,                                                               \
		"PyTorch's cache gives up, for torch.OutOfMemoryError: 0, asked, bytes of all "   \
		"segments, bytes of all tensors")                                                 \
	GM_KIND(32, SITE,                                                                         \
		"a call of malloc or free in kernels: return address, offset in the function, "   \
		"string of the file and, from bit 32, line, number; string is the function")      \
	GM_KIND(33, SITE_BLOCKS, "its live blocks: bytes, blocks, bytes at most, number")         \
	GM_KIND(34, SITE_CALLS,                                                                   \
		"its calls: mallocs, those that got NULL, frees of a free block and, from bit "   \
		"32, of what is no block, number")                                                \
	GM_KIND(255, MORE, "slot that continues the record before it: 63 bytes, then this kind")

enum gm_record_kind {
	GM_RECORD_NONE = 0,
#define GM_KIND(value, name, help) GM_RECORD_##name = value,
	GM_RECORD_KINDS(GM_KIND)
#undef GM_KIND
};

#define GM_RECORD_NO_DEVICE 255

/* The bit of a kind in a set of 32 bits: kinds from 32 on share that of heaps. */
static inline uint32_t gm_record_bit(unsigned kind)
{
	return 1u << (kind < 32 ? kind : GM_RECORD_HEAP_SAMPLE);
}

enum gm_record_flag {
	GM_RECORD_DRIVER = 1 << 0, /* served by the driver instead of the pool */
	GM_RECORD_H2D = 1 << 1,	   /* direction of a copy; none of the five: a memset or unknown */
	GM_RECORD_D2H = 1 << 2,
	GM_RECORD_D2D = 1 << 3,
	GM_RECORD_H2H = 1 << 4,
	GM_RECORD_PEER = 1 << 5, /* between two devices */
	GM_RECORD_ASYNC = 1 << 6,
	GM_RECORD_MEMSET = 1 << 7,
	GM_RECORD_CONTEXT_GONE = 1 << 8, /* a free without a call: the block's context ended */
	GM_RECORD_OWN = 1 << 9,		 /* a heap that the program made with gpumem.h */
	GM_RECORD_LAST = 1 << 10,	 /* the heap, or its process, ends */
	GM_RECORD_REST = 1 << 11,	 /* HELD: all blocks but those of the other records */
	GM_RECORD_LENT = 1 << 12,	 /* MAP, REMAP: the chunk is now a heap's or a buffer's */
	GM_RECORD_RETURNED = 1 << 13,	 /* UNMAP, REMAP: it was, until now */
};

/* What became of an unknown table; "modes": GPUMEM_FREE=ordered and GPUMEM_SLEEP. */
enum gm_table_fate {
	GM_TABLE_PASSED,  /* the driver's own: no mode is on */
	GM_TABLE_WRAPPED, /* handed out as a copy */
	GM_TABLE_REFUSED, /* the driver's own: it cannot be copied, and the modes are off */
	GM_TABLE_ALARMED  /* a copy; the modes are off from its first call on */
};

struct gm_record {
	uint64_t time; /* CLOCK_MONOTONIC, ns; of an ALLOCATE, after the call; of a FREE, before it
			*/
	uint64_t address;
	uint64_t size;
	uint64_t held;
	uint64_t id;
	uint32_t context;  /* key of the owner context, low 32 bits */
	uint32_t duration; /* of the call, ns, saturating */
	uint32_t thread;   /* Linux thread id */
	union {
		uint32_t string; /* number of a STRING record; 0 none */
		uint32_t stack;	 /* of ALLOCATE, ALLOCATE_FAILED, OUT_OF_MEMORY, LIVE, HELD, TENSOR,
				  * TENSOR_LIVE, TENSOR_REFUSED: of a STACK record */
	};
	uint16_t hook;	 /* row of hooks.def, from 1, in the header's list of names; 0 none */
	uint16_t status; /* CUresult of the call */
	uint16_t flags;	 /* enum gm_record_flag */
	uint8_t device;	 /* ordinal; 255 none */
	uint8_t kind;	 /* enum gm_record_kind; stored last, with release */
};

/*
 * Runs of idle memory by size: bin 0 is below GM_SAMPLE_LEAST, each further bin has twice the limit
 * of the one before, the last one has no limit (gm_frag_bin). Free slots of slabs are idle but in
 * no run.
 */
#define GM_SAMPLE_BINS 20
#define GM_SAMPLE_LEAST ((uint64_t)64 << 10)
#define GM_SAMPLE_UNIT 512u

/* The body of SAMPLE and OUT_OF_MEMORY: definitions in gpumem-log(5), FRAGMENTATION. */
struct gm_sample {
	uint64_t requested, handed_out, mapped, idle, retired, lent;
	uint64_t largest_idle, largest_after_remap, unreclaimable, pinned;
	uint64_t live_blocks, chunks, idle_extents;
	uint64_t device_free, device_total; /* from the driver; 0: not queried */
	uint64_t limit;
	uint32_t idle_units[GM_SAMPLE_BINS]; /* of GM_SAMPLE_UNIT bytes; saturating */
	uint16_t idle_runs[GM_SAMPLE_BINS];  /* saturating */
	/* OUT_OF_MEMORY alone, 0 in older logs: the process's bytes outside of the pool (owner.def)
	 */
	uint64_t driver, created, async, arrays, graphs;
	uint64_t managed; /* bytes, wherever their pages are */
	uint64_t known;	  /* enum gm_sample_known */
};
enum gm_sample_known {
	GM_SAMPLE_OWNERS = 1, /* the members since `driver` */
	GM_SAMPLE_FREE = 2,   /* device_free is the driver's answer, even if it is 0 */
};
/* The body of SAMPLE. */
#define GM_SAMPLE_POOL offsetof(struct gm_sample, driver)
/* The body without the last two members, as the first logs have it. */
#define GM_SAMPLE_SHORT offsetof(struct gm_sample, idle_units)

/*
 * Sizes of allocations in a heap: bin 0 is up to 16 bytes, the next up to 32, 48, 64, 96, 128 and
 * so on by 1.5 and 2 times each power of two, to 1 MiB; the last bin is above.
 */
#define GM_HEAP_BINS 33
/* Growths by time: bin 0 is up to GM_HEAP_GROWTH_LEAST, each further bin up to four times as much,
 * the last one has no limit. */
#define GM_HEAP_GROWTH_BINS 6
#define GM_HEAP_GROWTH_LEAST 64000u /* ns */

/* The body of HEAP_SAMPLE: gpumem-log(5), Device heaps. Bytes, except for counts and times. */
struct gm_heap_sample {
	uint32_t length; /* of this struct */
	uint32_t chunks;
	uint64_t heap; /* its address on the device, which identifies it */
	uint64_t limit, own, mapped_peak;
	uint64_t used; /* bytes in granules that are not free */
	uint64_t live_peak;
	uint64_t grown, shrunk;		 /* chunks added, the first included, and removed */
	uint64_t refused, refused_limit; /* growths */
	uint64_t growth_ns, growth_longest;
	uint32_t growths[GM_HEAP_GROWTH_BINS];
	uint32_t live[GM_HEAP_BINS]; /* allocations by size; all 0: not counted */
	uint32_t pad;
	uint64_t slack;	  /* mapped ahead */
	uint64_t wait_ns; /* waits of kernels for growth */
};

/* The body of STACK: the innermost frame first. */
struct gm_frame {
	uint32_t object; /* number of an OBJECT record; 0: in none; GM_FRAME_PYTHON */
	uint32_t line;	 /* of Python */
	/* Address of the call's own instruction in the object, as its ELF file counts; without an
	 * object, the plain address. Of Python: numbers of two strings, the file and, from bit 32,
	 * the function. */
	uint64_t place;
};
#define GM_FRAME_PYTHON UINT32_MAX
/* Backward of an operator of PyTorch: place is the number of the STACK of its forward call. */
#define GM_FRAME_FORWARD (UINT32_MAX - 1)
/* In no log: the frame that readers give to GM_STACK_BEFORE. */
#define GM_FRAME_BEFORE (UINT32_MAX - 2)
/* In place of a stack's number: the block is from before the recording. */
#define GM_STACK_BEFORE UINT32_MAX
/* In place of a tensor's number, in TENSOR_LIVE: all those from before the recording, `held` of
 * them; each TENSOR_FREE of number 0 is of one of them. */
#define GM_TENSORS_BEFORE UINT64_MAX
#define GM_FRAMES_MOST 128  /* in a STACK */
#define GM_BUILD_ID_MOST 32 /* bytes in an OBJECT; longer ones are cut */

enum gm_stack_flag {
	GM_STACK_CUT = 1,    /* outer frames are missing */
	GM_STACK_C_ONLY = 2, /* Python runs, but the frames of this thread are unknown */
};

_Static_assert(sizeof(struct gm_frame) == 16, "gpumem-log(5) gives the offsets");
_Static_assert(sizeof(struct gm_record) == 64, "a slot is 64 bytes");
_Static_assert(sizeof(struct gm_heap_sample) == 280, "gpumem-log(5) gives the offsets");

#endif
