/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the helper, the module that a takeover loads into a context, and the host. The
 * helper is compiled once for each policy of the heap; patch.c has the names of its kernels.
 */
#ifndef GM_TAKEOVER_HELPER_H
#define GM_TAKEOVER_HELPER_H

#include <stdint.h>

/* Functions of the helper whose addresses gm_helper_addresses writes. */
enum gm_helper_function {
	GM_HELPER_MALLOC, /* ours */
	GM_HELPER_FREE,
	GM_HELPER_ALIGNED,
	GM_HELPER_CALLS_OURS,	/* has a call of our malloc, with a known target */
	GM_HELPER_CALLS_MALLOC, /* has a call of the driver's */
	GM_HELPER_CALLS_FREE,
	GM_HELPER_CALLS_ALIGNED,
	GM_HELPER_FUNCTIONS
};

enum { GM_HELPER_CODE = 64 }; /* instructions that are read of a function to find its call */

enum { GM_HELPER_BLOCKS = 512 }; /* of the test, at most */

/* The answers of the kernels: `gm_helper_answer`, a variable of the helper. */
struct gm_helper_answer {
	uint64_t address[GM_HELPER_FUNCTIONS];
	uint64_t code[2 * GM_HELPER_CODE]; /* low and high half of each instruction */
	/* gm_helper_test counts threads: */
	uint64_t given;	    /* that got memory of the heap, and read what they wrote */
	uint64_t refused;   /* that got NULL */
	uint64_t elsewhere; /* that got memory from elsewhere */
	uint64_t damaged;   /* that did not read what they wrote */
	uint64_t strangers; /* invalid frees that our free has counted */
	uint64_t kept[GM_HELPER_BLOCKS];
};

/*
 * The parts of the test. Where the change had no effect, so that the driver's own malloc and free
 * ran, the last parts would cause an error that remains with the context: so they come last.
 */
enum gm_helper_part {
	GM_HELPER_NOTHING,   /* makes the driver set up what kernels with malloc need */
	GM_HELPER_MALLOCS,   /* one thread a block calls malloc, and keeps the memory */
	GM_HELPER_ALIGNEDS,  /* likewise, aligned memory, which it frees at once */
	GM_HELPER_STRANGERS, /* one thread a block makes an invalid free */
	GM_HELPER_ALL /* all threads call malloc, write, read and free; one frees the kept memory */
};

/* So many threads a block, each with so many bytes. */
enum { GM_HELPER_THREADS = 64, GM_HELPER_BYTES = 64 };

#endif
