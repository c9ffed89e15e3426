/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and times as text: "512M", "2GiB", "75%", "100ms". */
#ifndef GM_BASE_SIZE_H
#define GM_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_KIB ((uint64_t)1 << 10)
#define GM_MIB ((uint64_t)1 << 20)
#define GM_GIB ((uint64_t)1 << 30)

/* Round `n` up to a multiple of the power of two `step`. pre: the result fits. */
static inline uint64_t gm_round_up(uint64_t n, uint64_t step)
{
	return (n + step - 1) & ~(step - 1);
}

/* `ppm` parts per million of `total`, rounded down. pre: at most 1000000 of them. */
static inline uint64_t gm_share_of(uint64_t total, uint32_t ppm)
{
	return total / 1000000 * ppm + total % 1000000 * ppm / 1000000;
}

/*
 * Read a size: digits, an optional fraction, an optional unit (B, K, KB, KiB, M ... T; all powers
 * of 1024; any case). True and *bytes on success; false, *bytes untouched, on anything else,
 * overflow included. Any thread.
 */
bool gm_size_parse(const char *text, uint64_t *bytes);

/* Read a percentage ("75%", 0 to 100, fractions allowed) as parts per million of the whole. */
bool gm_percent_parse(const char *text, uint32_t *ppm);

/* Read a time ("100ms", "10s", "2m", "1h", "250us", "5ns") into nanoseconds; a unit is required
 * unless the number is 0. */
bool gm_time_parse(const char *text, uint64_t *ns);

/* The shortest exact or three-significant-digit text of a size ("512 B", "32.0 MiB", "139 GiB").
 * Writes at most `n` bytes including the terminator and returns `buf`. */
char *gm_size_format(uint64_t bytes, char *buf, size_t n);

/* As gm_size_format, for a time ("850 ns", "12.4 s", "1 h 02 m"). */
char *gm_time_format(uint64_t ns, char *buf, size_t n);

#endif
