/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/checksum.h"

#define LANES 8
#define FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd: multiplication is a bijection */

static inline uint64_t lane_step(uint64_t lane, uint64_t word)
{
	lane = (lane ^ word) * FACTOR;
	return lane << 29 | lane >> 35;
}

uint64_t gm_checksum(const void *data, size_t n, uint64_t seed)
{
	const uint64_t *words = data;
	uint64_t lanes[LANES], sum = seed;
	for (unsigned l = 0; l < LANES; l++)
		lanes[l] = lane_step(seed, l);
	for (size_t i = 0; i + LANES <= n / sizeof *words; i += LANES)
		for (unsigned l = 0; l < LANES; l++)
			lanes[l] = lane_step(lanes[l], words[i + l]);
	for (unsigned l = 0; l < LANES; l++)
		sum = lane_step(sum, lanes[l]);
	return sum;
}
