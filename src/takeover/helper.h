/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between the host and the helper, the module that a takeover loads into a context.
 * The helper is compiled once for each policy of the heap, and once more without a policy, as an
 * image that calls the device runtime. It has one kernel, gm_helper_run(struct gm_helper_order).
 */
#ifndef GM_TAKEOVER_HELPER_H
#define GM_TAKEOVER_HELPER_H

#include <stdint.h>

/* Functions of the helper whose addresses GM_HELPER_START writes. */
enum gm_helper_function {
	GM_HELPER_MALLOC, /* ours; 0 without a policy, as are the next two */
	GM_HELPER_FREE,
	GM_HELPER_ALIGNED,
	GM_HELPER_MALLOC_SITED, /* ours that count calls by site; 0 if the policy cannot */
	GM_HELPER_FREE_SITED,
	GM_HELPER_ALIGNED_SITED,
	GM_HELPER_MALLOC_SECOND, /* likewise, for the second set: sites are not known */
	GM_HELPER_FREE_SECOND,
	GM_HELPER_ALIGNED_SECOND,
	/* The callers; GM_HELPER_START reads their code: */
	GM_HELPER_CALLS_OURS,	/* calls our malloc, at a known address; 0 without a policy */
	GM_HELPER_CALLS_MALLOC, /* calls the driver's malloc */
	GM_HELPER_CALLS_FREE,
	GM_HELPER_CALLS_ALIGNED,
	GM_HELPER_FUNCTIONS
};

enum { GM_HELPER_CODE = 64 }; /* instructions of a function, read to find its call */
/* Functions whose code the answer can hold: as many as callers. */
enum { GM_HELPER_PLACES = GM_HELPER_FUNCTIONS - GM_HELPER_CALLS_OURS };

/*
 * What a launch of the kernel does, with its threads, and the fields of the order that it reads:
 *
 *   START  1 block, 2 * GM_HELPER_CODE threads    heap; n = 0
 *   READ   1 block, 2 * GM_HELPER_CODE threads    at
 *   WRITE  1 thread                               n: of at and insn; saved
 *   TEST   blocks of GM_HELPER_THREADS            n: enum gm_helper_part
 *   SEE    1 thread                               n: invalid frees of the test
 */
enum gm_helper_op {
	GM_HELPER_START, /* use the heap; write the addresses; read the callers into the places */
	GM_HELPER_READ,	 /* read the function at at[place], unless 0, into the place */
	GM_HELPER_WRITE, /* remember `saved`; write insn[i] to at[i], one after another */
	GM_HELPER_TEST,	 /* call malloc and free */
	GM_HELPER_SEE,	 /* did the invalid frees arrive, and the test so far pass? */
};

/* The driver's functions, by gm_takeover_function. */
enum { GM_HELPER_SAVED_FREE, GM_HELPER_SAVED_MALLOC, GM_HELPER_SAVED_ALIGNED, GM_HELPER_SAVED };

struct gm_helper_order {
	uint32_t op, n;
	uint64_t heap;
	/* Where each of the driver's functions has its return address, in local memory; 0: not
	 * known. */
	uint64_t saved[GM_HELPER_SAVED];
	uint64_t at[GM_HELPER_PLACES];
	struct {
		uint64_t low, high;
	} insn[GM_HELPER_PLACES];
};

enum { GM_HELPER_BLOCKS = 512 }; /* most blocks of the test */

/* The answers of the kernel: `gm_helper_answer`, a variable of the helper. */
struct gm_helper_answer {
	uint64_t address[GM_HELPER_FUNCTIONS];
	uint64_t code[GM_HELPER_PLACES]
		     [2 * GM_HELPER_CODE]; /* low and high half of each instruction */
	uint64_t written;		   /* instructions in a row that read back as written */
	/* counts of threads of the test: */
	uint64_t given;	    /* got memory of the heap, and read back the bytes they wrote */
	uint64_t refused;   /* got NULL */
	uint64_t elsewhere; /* got memory from elsewhere */
	uint64_t damaged;   /* did not read back the bytes they wrote */
	uint64_t strangers; /* invalid frees, counted by our free */
	uint64_t passed;    /* nonzero: the parts before the last succeeded */
	uint64_t kept[GM_HELPER_BLOCKS];
};

/*
 * The parts of the test. If the change had no effect, so that the driver's own malloc and free ran,
 * the last parts would cause an error that remains with the context: then they do nothing. So they
 * are launched one after the other, and the host waits once.
 */
enum gm_helper_part {
	GM_HELPER_MALLOCS,   /* one thread a block calls malloc, and keeps the memory */
	GM_HELPER_ALIGNEDS,  /* likewise, aligned memory, freed at once */
	GM_HELPER_STRANGERS, /* one thread a block makes an invalid free */
	GM_HELPER_ALL /* all threads call malloc, write, read and free; one frees the kept memory */
};

/* Threads of a block, and bytes of each thread's allocation. */
enum { GM_HELPER_THREADS = 64, GM_HELPER_BYTES = 64 };

#endif
