/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checksum against faults of storage, not against an adversary. Eight words at a time enter eight
 * lanes. Each step is a bijection of the lane for a given word, and of the word for a given lane.
 * So data that differ in one aligned word of 8 bytes never have the same checksum. Other data that
 * differ have the same one with a probability of 2^-64. Some 8 bytes a cycle.
 */
#ifndef GM_BASE_CHECKSUM_H
#define GM_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of `n` bytes, a multiple of 64, at an address that is a multiple of 8. `seed`: the
 * place of the data, so that equal data of another place have another checksum. Any thread. */
uint64_t gm_checksum(const void *data, size_t n, uint64_t seed);

#endif
