/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading and running a further module makes the multiprocessors drop their cached lines of code.
 */
extern "C" __global__ void gm_empty(void)
{
}
