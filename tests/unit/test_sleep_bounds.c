/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds of a sleep (shim/sleep_bounds.h): GPUMEM_SLEEP_STORE and the time of GPUMEM_SLEEP. */
#include "../../shim/sleep_bounds.h"

#include "base/size.h"

#include "../tap.h"

#define SECOND UINT64_C(1000000000)

int main(void)
{
	TAP_IS(gm_sleep_pinned(20 * GM_GIB, 4096), 10 * GM_GIB,
	       "at most half of the memory is pinned");
	TAP_IS(gm_sleep_pinned(200 * GM_GIB, 4096), 30 * GM_GIB,
	       "page tables of pinned memory have at most 60 MiB");
	TAP_IS(gm_sleep_pinned(2000 * GM_GIB, 65536), 480 * GM_GIB,
	       "the bound follows the size of pages");
	TAP_IS(gm_sleep_pause(SECOND), SECOND / 8, "a process falls asleep at most an eighth late");
	TAP_IS(gm_sleep_pause(0), SECOND / 1000, "two checks are at least 1 ms apart");
	return tap_done();
}
