/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

/* --- functions --- */

static long integers(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,
		     long k, long l, long m, long n, long o, long p, long q, long r, long s, long t)
{
	const long v[] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t};
	unsigned long sum = 0;
	for (size_t x = 0; x < sizeof v / sizeof *v; x++)
		sum = sum * 3 + (unsigned long)v[x];
	return (long)sum;
}

static double mixed(long a, double b, int c, float d, double e, double f, void *g, long h, long i,
		    double j, double k, double l, double m, double n, char o, long p)
{
	return (double)a + b * 2 + c * 3 + (double)d * 4 + e * 5 + f * 6 +
	       (double)(uintptr_t)g * 7 + (double)h * 8 + (double)i * 9 + j * 10 + k * 11 + l * 12 +
	       m * 13 + n * 14 + o * 15 + (double)p * 16;
}

static struct gm_sim_big big(struct gm_sim_big b, long a)
{
	for (size_t i = 0; i < sizeof b.v / sizeof *b.v; i++)
		b.v[i] += a;
	return b;
}

static long double wide(long double a)
{
	return a * 1.25L;
}

static double variadic(int n, ...)
{
	double sum = 0;
	va_list args;
	va_start(args, n);
	for (int i = 0; i < n; i++) {
		sum = sum * 3 + (double)va_arg(args, long);
		sum += va_arg(args, double);
	}
	va_end(args);
	return sum;
}

static long call(long (*f)(long), long a)
{
	return f(a) + 1;
}

static CUresult fill(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream)
{
	CUresult (*set)(CUdeviceptr, unsigned char, size_t, CUstream);
	*(void **)&set = gm_sim_symbol(NULL, "cuMemsetD8Async");
	return set(at, value, bytes, stream);
}

/* Vectors of 32 bytes, where the processor has them. */
#ifdef __x86_64__
__attribute__((target("avx"))) static gm_sim_four four(gm_sim_four a, gm_sim_four b)
{
	return a + b * 2;
}
#define FOUR .four = four
#else
#define FOUR .four = NULL
#endif

/* --- tables --- */

#define FUNCTIONS                                                                           \
	{                                                                                   \
		.bytes = sizeof(struct gm_sim_table), .integers = integers, .mixed = mixed, \
		.big = big, .wide = wide, .variadic = variadic, .call = call, .fill = fill, \
		.all = UINTPTR_MAX, .number = 42, FOUR                                      \
	}

static const struct {
	CUuuid id;
	size_t bytes;
} known[] = {
#define GM_TABLE(id, bytes, driver, how, libraries) {{id}, bytes},
#define GM_TABLE_TOOL(id, name)
#include "driver/tables.def"
#undef GM_TABLE
#undef GM_TABLE_TOOL
};

static const CUuuid tools[] = {
#define GM_TABLE(id, bytes, driver, how, libraries)
#define GM_TABLE_TOOL(id, name) {id},
#include "driver/tables.def"
#undef GM_TABLE
#undef GM_TABLE_TOOL
};

#define ROWS(array) (sizeof(array) / sizeof *(array))

static const void *known_table(size_t row)
{
	static size_t words[ROWS(known)][128];
	const char *more = getenv("SIM_TABLES");
	size_t bytes = known[row].bytes;
	for (size_t i = 0; i < ROWS(*words) - 1; i++)
		words[row][i] = (size_t)(uintptr_t)integers;
	words[row][ROWS(*words) - 1] = 0;
	if (bytes)
		words[row][0] = bytes + (more ? strtoul(more, NULL, 10) : 0);
	return words[row];
}

static const void *simulated_table(enum gm_sim_table_kind kind)
{
	static const size_t empty = sizeof empty;
	static const struct gm_sim_table functions = FUNCTIONS, again = FUNCTIONS;
	static const struct gm_sim_table *const unsized = &functions;
	static const size_t large[513] = {sizeof large};
	switch (kind) {
	case GM_SIM_TABLE_EMPTY:
		return &empty;
	case GM_SIM_TABLE_FUNCTIONS:
		return &functions;
	case GM_SIM_TABLE_AGAIN:
		return &again;
	case GM_SIM_TABLE_UNSIZED:
		return &unsized->integers;
	default:
		return large;
	}
}

static const void *table_find(const CUuuid *id)
{
	static const struct gm_sim_table of_tools[ROWS(tools)] = {[0 ... ROWS(tools) - 1] =
									  FUNCTIONS};
	for (size_t i = 0; i < ROWS(known); i++)
		if (memcmp(id, &known[i].id, sizeof *id) == 0)
			return known_table(i);
	for (size_t i = 0; i < ROWS(tools); i++)
		if (memcmp(id, &tools[i], sizeof *id) == 0)
			return &of_tools[i];
	for (int i = 0; i < GM_SIM_TABLES; i++) {
		const CUuuid simulated = GM_SIM_TABLE(i);
		if (memcmp(id, &simulated, sizeof *id) == 0)
			return simulated_table((enum gm_sim_table_kind)i);
	}
	return NULL;
}

CUresult sim_cuGetExportTable(const void **table, const CUuuid *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = table_find(id);
	return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
