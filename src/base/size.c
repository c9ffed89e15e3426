/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * Digits with an optional fraction, exact in integers: value * scale, rounded down. *rest is set to
 * the first character behind the number. False: no digits, or the result does not fit.
 */
static bool number_parse(const char *text, uint64_t scale, uint64_t *out, const char **rest)
{
	const char *p = text;
	uint64_t whole = 0;
	while (*p >= '0' && *p <= '9') {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return false;
		p++;
	}
	if (p == text)
		return false;
	uint64_t value;
	if (__builtin_mul_overflow(whole, scale, &value))
		return false;
	if (*p == '.') {
		const char *digits = ++p;
		uint64_t part = 0, unit = 1;
		for (; *p >= '0' && *p <= '9'; p++)
			if (unit < 1000000) {
				part = part * 10 + (uint64_t)(*p - '0');
				unit *= 10;
			}
		if (p == digits)
			return false;
		uint64_t add = (uint64_t)((unsigned __int128)part * scale / unit);
		if (__builtin_add_overflow(value, add, &value))
			return false;
	}
	*out = value;
	*rest = p;
	return true;
}

struct unit {
	const char *name;
	uint64_t scale;
};

/* The unit is found before the number is read, because the fraction is scaled exactly. */
static bool scaled_parse(const char *text, const struct unit *units, size_t n, uint64_t *out)
{
	const char *name = text + strspn(text, "0123456789.");
	for (size_t i = 0; i < n; i++) {
		const char *rest;
		uint64_t value;
		if (strcasecmp(name, units[i].name) != 0)
			continue;
		if (!number_parse(text, units[i].scale, &value, &rest) || rest != name)
			return false;
		*out = value;
		return true;
	}
	return false;
}

bool gm_size_parse(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"B", 1},
		{"K", GM_KIB},
		{"KB", GM_KIB},
		{"KiB", GM_KIB},
		{"M", GM_MIB},
		{"MB", GM_MIB},
		{"MiB", GM_MIB},
		{"G", GM_GIB},
		{"GB", GM_GIB},
		{"GiB", GM_GIB},
		{"T", GM_GIB << 10},
		{"TB", GM_GIB << 10},
		{"TiB", GM_GIB << 10},
	};
	return scaled_parse(text, units, sizeof units / sizeof *units, bytes);
}

bool gm_percent_parse(const char *text, uint32_t *ppm)
{
	static const struct unit percent[] = {{"%", 10000}};
	uint64_t value;
	if (!scaled_parse(text, percent, 1, &value) || value > 1000000)
		return false;
	*ppm = (uint32_t)value;
	return true;
}

bool gm_time_parse(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"ns", 1},	   {"us", 1000},       {"ms", 1000000},
		{"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000},
	};
	if (strcmp(text, "0") == 0) {
		*ns = 0;
		return true;
	}
	return scaled_parse(text, units, sizeof units / sizeof *units, ns);
}

/* value / scale with three significant digits. */
static char *scaled_format(uint64_t value, uint64_t scale, const char *unit, char *buf, size_t n)
{
	double x = (double)value / (double)scale;
	int decimals = scale == 1 ? 0 : x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
	snprintf(buf, n, "%.*f %s", decimals, x, unit);
	return buf;
}

char *gm_size_format(uint64_t bytes, char *buf, size_t n)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned i = 0;
	while (i < 6 && bytes >> (10 * i) >= 1000)
		i++;
	return scaled_format(bytes, (uint64_t)1 << (10 * i), names[i], buf, n);
}

char *gm_time_format(uint64_t ns, char *buf, size_t n)
{
	uint64_t s = ns / 1000000000;
	if (ns < 1000)
		return scaled_format(ns, 1, "ns", buf, n);
	if (ns < 1000000)
		return scaled_format(ns, 1000, "us", buf, n);
	if (ns < 1000000000)
		return scaled_format(ns, 1000000, "ms", buf, n);
	if (s < 120)
		return scaled_format(ns, 1000000000, "s", buf, n);
	if (s < 7200)
		snprintf(buf, n, "%u m %02u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else
		snprintf(buf, n, "%llu h %02u m", (unsigned long long)(s / 3600),
			 (unsigned)(s / 60 % 60));
	return buf;
}
