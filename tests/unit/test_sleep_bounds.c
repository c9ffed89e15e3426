/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds of a sleep (shim/sleep/sleep_bounds.h): GPUMEM_SLEEP_STORE and the time of GPUMEM_SLEEP.
 */
#include "../../shim/sleep/sleep_bounds.h"

#include "base/size.h"

#include "../tap.h"

#define SECOND UINT64_C(1000000000)

int main(void)
{
	TAP_IS(gm_sleep_pinned(16 * GM_GIB, 0, 15 * GM_GIB), 8 * GM_GIB,
	       "half of the memory at most is pinned");
	TAP_IS(gm_sleep_pinned(16 * GM_GIB, GM_GIB, 5 * GM_GIB), 4 * GM_GIB,
	       "an eighth of the memory stays unpinned, whoever uses the rest");
	TAP_IS(gm_sleep_pinned(16 * GM_GIB, GM_GIB, GM_GIB), GM_GIB,
	       "pinned memory stays so where there is no room");
	TAP_IS(gm_sleep_pinned(16 * GM_GIB, 9 * GM_GIB, UINT64_MAX), 8 * GM_GIB,
	       "an unknown room is no bound");
	TAP_OK(gm_sleep_threads(1) == 0 && gm_sleep_threads(2) == 1 && gm_sleep_threads(96) == 8,
	       "half of the cores make pages, and at most eight");
	TAP_IS(gm_sleep_pause(SECOND), SECOND / 8, "a process falls asleep at most an eighth late");
	TAP_IS(gm_sleep_pause(0), SECOND / 1000, "two checks are at least 1 ms apart");
	return tap_done();
}
