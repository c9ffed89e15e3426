/* SPDX-License-Identifier: BSD-3-Clause */
/* The live counters and the logs of a process with the preload, by its open files.
 * Single-threaded. */
#ifndef GM_TOOLS_LOG_PROCESS_H
#define GM_TOOLS_LOG_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_process {
	int pid;
	char live[64];		  /* a name in /proc of the file with the live counters */
	uint64_t at;		  /* their offset in it */
	bool split;		  /* parts follow them */
	char log[PATH_MAX];	  /* the path of its own log; "": it has none */
	char recording[PATH_MAX]; /* the path of the recording that goes on; "": none does */
};

/* True if `text` is the number of a process. */
bool gm_process_parse(const char *text, int *pid);

/* The name of a process's program, its first 15 bytes, as ps shows it; "": unknown. */
void gm_process_program(int pid, char *out, size_t n);

/* The name of the file that it runs, without its folder, cut at `n`; "": unknown. */
void gm_process_file(int pid, char *out, size_t n);

/* The parent of a process; 0: none, or unknown. */
int gm_process_parent(int pid);

/* The environment of a process at its start, `*n` bytes of "NAME=VALUE", each ended by a 0. The
 * caller frees it. NULL: errno has the reason. */
char *gm_process_environment(int pid, size_t *n);

/* The value of a variable there; NULL: not set. */
const char *gm_process_variable(const char *environment, size_t n, const char *name);

/* Find the counters and logs of a process. An inherited file belongs to the process that writes to
 * it. False: it has no counters. */
bool gm_process_find(int pid, struct gm_process *out);

/* Why gm_process_find fails: "no such process". */
const char *gm_process_why(int pid);

#endif
