/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading and running any further module makes the multiprocessors forget lines of code that they
 * hold. */
extern "C" __global__ void gm_empty(void)
{
}
