/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured programs. Each of them knows nothing of gpumem. It creates its context, prints
 * "ready", and then obeys the commands on standard input, one a line, with one line of answer each:
 * "ok NUMBER...". A call that fails ends the program with "error TEXT". So preloaded and native
 * programs can be started together, and asked by turns.
 */
#ifndef GM_BENCH_CLIENT_H
#define GM_BENCH_CLIENT_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_MUST(call)                                                                   \
	do {                                                                               \
		int must_ = (int)(call);                                                   \
		if (must_ != 0) {                                                          \
			printf("error %s:%d: %s: %d\n", __FILE__, __LINE__, #call, must_); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#define BENCH_WORDS 8

/* words[0] is the command's name; the number of words after it is in the table. */
struct bench_command {
	const char *name;
	int words;
	void (*run)(char **words);
};

/* Obey commands until the end of input. The table ends with a row without a name. */
int bench_serve(const struct bench_command *table);

/* CLOCK_MONOTONIC, in microseconds. */
double bench_now(void);

/* A word as a whole number; another word ends the program. */
uint64_t bench_number(const char *word);

/* Sorts the n > 0 values, and returns the middle one. */
double bench_median(double *values, size_t n);

/* The commands of client.c. Times are in microseconds. */
void bench_pair(char **words);	      /* pair plain|ordered SIZE TIME */
void bench_first(char **words);	      /* first SIZE */
void bench_threads(char **words);     /* threads plain|ordered N SIZE same|mixed TIME */
void bench_free_under(char **words);  /* free_under SIZE KERNEL_TIME ROUNDS */
void bench_launch(char **words);      /* launch TIME */
void bench_launch_gate(char **words); /* launch_gate TIME */
void bench_copy(char **words);	      /* copy h2d|d2h plain|pinned|fresh SIZE TIME */
void bench_hold(char **words);	      /* hold SIZE */
void bench_held(char **words);	      /* held */
void bench_touch(char **words);	      /* touch */
void bench_room(char **words);	      /* room */
void bench_checkpoint(char **words);  /* checkpoint PID */
void bench_replay(char **words);      /* replay FILE */
void bench_replay_used(char **words); /* replay_used FILE */

/* Launches an empty kernel, or one that runs for `us` microseconds. */
void bench_kernel_empty(cudaStream_t stream);
void bench_kernel_spin(cudaStream_t stream, uint64_t us);

/* An image for cuModuleLoadData, with an empty kernel named "nothing". */
const void *bench_kernel_image(void);

#ifdef __cplusplus
}
#endif
#endif
