/* SPDX-License-Identifier: BSD-3-Clause */
/* The door is shut for a sleep, when all work of the process is complete. By the thread that uses
 * the mover, with the gate of driver calls entered. */
#ifndef GM_SHIM_SLEEP_SLEEP_DOOR_H
#define GM_SHIM_SLEEP_SLEEP_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "residency/move.h"

#define GM_SLEEP_DOOR_SHUT 50000000u /* ns that submissions wait for the GPU, at the first try */

/* Shut the door, and wait until `until` (ns of CLOCK_MONOTONIC) for work that came meanwhile. The
 * door is open after a refusal. `gives_up` (NULL: never) is true when nobody waits for the door any
 * more. */
enum gm_refusal gm_sleep_door_try(uint64_t until, bool (*gives_up)(void));

/* Wait with the door open for all work submitted so far, then shut it: submissions wait only for
 * work that came meanwhile. If that work takes too long, they go on before the next try, which may
 * take twice as long, but not longer than the work before. So work that never ends holds none. */
enum gm_refusal gm_sleep_door_close(uint64_t end);

#endif
