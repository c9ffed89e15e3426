/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, values of options and memory, of all programs. What is wrong ends the process. */
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

bool pr_list_has(const struct pr_list *list, uint64_t value);
uint64_t pr_list_most(const struct pr_list *list);

/* One line on standard error, behind the program's name, and the end: 1 a failure, 2 wrong options.
 */
void pr_fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
double pr_now_ms(void);

/* A number with k, M, G, T or Ki, Mi, Gi, Ti, within bounds. */
uint64_t pr_number(const char *option, const char *text, uint64_t least, uint64_t most);
/* Numbers with commas; `zero`: a word for 0, or NULL. */
void pr_numbers(const char *option, char *text, uint64_t least, uint64_t most, const char *zero,
		struct pr_list *out);
/* The place of a name in `name`. */
uint64_t pr_name(const char *option, const char *text, const char *const *name, unsigned names);
/* Names with commas. */
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
/* Memory of the host, all 0; ends the process if there is none. The caller frees it. */
void *pr_host_take(uint64_t count, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
