/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and messages that the programs share. A wrong option ends the process with status 2. */
#ifndef PR_ARGS_H
#define PR_ARGS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PR_VALUES 16 /* of a list */

struct pr_list {
	uint64_t value[PR_VALUES];
	unsigned count;
};

/* Of main: stands in front of messages. */
extern const char *const pr_program;

/* One line on standard error, and the end: 1 a failure, 2 wrong options. */
void pr_fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
double pr_now_ms(void);

/* A number with k, M, G or Ki, Mi, Gi, within bounds. */
uint64_t pr_number(const char *option, const char *text, uint64_t least, uint64_t most);
/* Numbers with commas. */
void pr_numbers(const char *option, char *text, uint64_t least, uint64_t most, struct pr_list *out);
/* Names with commas: the values are their places in `name`. */
void pr_names(const char *option, char *text, const char *const *name, unsigned names,
	      struct pr_list *out);

#define PR_MUST(call)                                                              \
	do {                                                                       \
		cudaError_t must_ = (call);                                        \
		if (must_ != cudaSuccess)                                          \
			pr_fail(1, "%.60s: %s", #call, cudaGetErrorString(must_)); \
	} while (0)

/* Device memory; ends the process if the device lacks it. The caller frees it by cudaFree. */
void *pr_take(uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
