/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cores that the process may use. A program binds threads of its own to few cores, and a new
 * thread inherits the cores of its creator. So the process's cores are those of the thread that
 * loaded the library, at that time, and those that any thread has later, when they are asked for.
 * Any thread, no lock. Systems with more than CPU_SETSIZE cores: unknown.
 */
#ifndef GM_BASE_CORES_H
#define GM_BASE_CORES_H

#include <sched.h>
#include <stdbool.h>

/* At load, by its one constructor (msg.c). */
void gm_cores_begin(void);

/* Add the cores of the threads that exist now. Reads /proc/self/task. */
void gm_cores_learn(void);

/* The cores known so far. False: unknown. */
bool gm_cores_get(cpu_set_t *cores);

/* Let the calling thread, one of ours, run on the known cores. The kernel leaves out those that the
 * process's cpuset does not have. */
void gm_cores_use(void);

#endif
