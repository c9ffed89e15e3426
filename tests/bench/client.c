/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that allocates, frees and launches: see client.h. */
#include "client.h"

static void device(char **words)
{
	struct cudaDeviceProp properties;
	int version;
	(void)words;
	BENCH_MUST(cudaGetDeviceProperties(&properties, 0));
	BENCH_MUST(cudaDriverGetVersion(&version));
	printf("ok %zu %d %s\n", properties.totalGlobalMem, version, properties.name);
}

int main(void)
{
	static const struct bench_command table[] = {
		{"device", 0, device},
		{"pair", 3, bench_pair},
		{"first", 1, bench_first},
		{"threads", 5, bench_threads},
		{"free_under", 3, bench_free_under},
		{"launch", 1, bench_launch},
		{"launch_gate", 1, bench_launch_gate},
		{"copy", 4, bench_copy},
		{"hold", 1, bench_hold},
		{"held", 0, bench_held},
		{"touch", 0, bench_touch},
		{"room", 0, bench_room},
		{"checkpoint", 1, bench_checkpoint},
		{"replay", 1, bench_replay},
		{"replay_used", 1, bench_replay_used},
		{NULL, 0, NULL},
	};
	return bench_serve(table);
}
