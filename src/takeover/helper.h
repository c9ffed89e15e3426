/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the helper, the module that a takeover loads into a context, and the host agree on. The
 * helper is compiled once for each policy of the heap; its kernels are named below.
 */
#ifndef GM_TAKEOVER_HELPER_H
#define GM_TAKEOVER_HELPER_H

#include <stdint.h>

/* Functions of the helper whose addresses gm_helper_addresses tells. */
enum gm_helper_function {
	GM_HELPER_MALLOC, /* ours */
	GM_HELPER_FREE,
	GM_HELPER_ALIGNED,
	GM_HELPER_CALLS_OURS,	/* holds a call of our malloc, whose target is thus known */
	GM_HELPER_CALLS_MALLOC, /* a call of the driver's */
	GM_HELPER_CALLS_FREE,
	GM_HELPER_CALLS_ALIGNED,
	GM_HELPER_FUNCTIONS
};

enum { GM_HELPER_CODE = 64 }; /* instructions that are read of a function that holds a call */

enum { GM_HELPER_BLOCKS = 512 }; /* of the test, at most */

/* What the kernels answer: `gm_helper_answer`, a variable of the helper. */
struct gm_helper_answer {
	uint64_t address[GM_HELPER_FUNCTIONS];
	uint64_t code[2 * GM_HELPER_CODE]; /* low and high half of each instruction */
	/* gm_helper_test counts threads */
	uint64_t given;	    /* that got memory of the heap, and found it good */
	uint64_t refused;   /* that got NULL */
	uint64_t elsewhere; /* that got memory from elsewhere */
	uint64_t damaged;   /* that did not read what they wrote */
	uint64_t strangers; /* frees of what is nobody's, that ours has seen */
	uint64_t kept[GM_HELPER_BLOCKS];
};

/*
 * The parts of the test. What the driver's own malloc and free would answer with an error that
 * stays with the context comes last.
 */
enum gm_helper_part {
	GM_HELPER_NOTHING,   /* but that the driver makes ready what kernels with malloc need */
	GM_HELPER_MALLOCS,   /* one thread a block calls malloc, and keeps what it gets */
	GM_HELPER_ALIGNEDS,  /* the same of aligned memory, which it frees at once */
	GM_HELPER_STRANGERS, /* one thread a block frees what is nobody's */
	GM_HELPER_ALL /* all threads call malloc, write, read and free; one frees what was kept */
};

/* So many threads a block, each with so many bytes. */
enum { GM_HELPER_THREADS = 64, GM_HELPER_BYTES = 64 };

#endif
