/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/size.h"

#include "../tap.h"

int main(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"512", 512},
		{"512B", 512},
		{"4k", 4096},
		{"512M", 512 * GM_MIB},
		{"2GiB", 2 * GM_GIB},
		{"1.5g", GM_GIB + GM_GIB / 2},
		{"16777215T", 16777215 * (GM_GIB << 10)},
		{"18446744073709551615", UINT64_MAX},
	};
	static const char *const bad[] = {"",	       "M",   "-1", "1x",    "1 M",
					  ".5G",       "1.G", "5%", "1.2.3", "18446744073709551616",
					  "16777216T", "0x10"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		uint64_t bytes = 1;
		TAP_OK(gm_size_parse(good[i].text, &bytes), "'%s' is a size", good[i].text);
		TAP_IS(bytes, good[i].bytes, "the value of that size is right");
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		uint64_t bytes = 77;
		TAP_OK(!gm_size_parse(bad[i], &bytes) && bytes == 77, "'%s' is no size", bad[i]);
	}
	uint32_t ppm = 7;
	TAP_OK(gm_percent_parse("75%", &ppm) && ppm == 750000, "75%% is a percentage");
	TAP_OK(gm_percent_parse("0.5%", &ppm) && ppm == 5000, "0.5%% is a percentage");
	TAP_OK(!gm_percent_parse("101%", &ppm) && !gm_percent_parse("75", &ppm) && ppm == 5000,
	       "101%% and 75 are no percentages");
	uint64_t ns = 7;
	TAP_OK(gm_time_parse("100ms", &ns) && ns == 100000000, "100ms is a time");
	TAP_OK(gm_time_parse("1.5s", &ns) && ns == 1500000000, "1.5s is a time");
	TAP_OK(gm_time_parse("0", &ns) && ns == 0, "0 needs no unit");
	ns = 7;
	TAP_OK(!gm_time_parse("100", &ns) && !gm_time_parse("1d", &ns) && ns == 7,
	       "a time needs a known unit");
	char text[32];
	TAP_STR(gm_size_format(512, text, sizeof text), "512 B", "a size is written in bytes");
	TAP_STR(gm_size_format(32 * GM_MIB, text, sizeof text), "32.0 MiB",
		"a size is written in mebibytes");
	TAP_STR(gm_size_format(1000, text, sizeof text), "0.98 KiB", "sizes have three digits");
	TAP_STR(gm_size_format(UINT64_MAX, text, sizeof text), "16.0 EiB",
		"the largest size is written in exbibytes");
	TAP_STR(gm_time_format(850, text, sizeof text), "850 ns",
		"a time is written in nanoseconds");
	TAP_STR(gm_time_format(12400000000, text, sizeof text), "12.4 s",
		"a time is written in seconds");
	TAP_STR(gm_time_format(3725000000000, text, sizeof text), "62 m 05 s",
		"a time is written in minutes");
	TAP_STR(gm_time_format(9000000000000, text, sizeof text), "2 h 30 m",
		"a time is written in hours");
	return tap_done();
}
