/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own threads, as a program sees them. */
#ifndef GM_TESTS_PRELOAD_LIBRARY_THREADS_H
#define GM_TESTS_PRELOAD_LIBRARY_THREADS_H

#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Voluntary context switches of the library's threads so far, and their number. */
static inline unsigned long library_threads_switches(unsigned *n)
{
	char path[300], line[128];
	unsigned long sum = 0;
	DIR *folder = opendir("/proc/self/task");
	*n = 0;
	for (struct dirent *task = folder ? readdir(folder) : NULL; task; task = readdir(folder)) {
		unsigned long one = 0;
		bool ours = false;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
		FILE *file = fopen(path, "r");
		while (file && fgets(line, sizeof line, file)) {
			ours |= strncmp(line, "Name:\tgpumem", 12) == 0;
			sscanf(line, "voluntary_ctxt_switches: %lu", &one);
		}
		if (file)
			fclose(file);
		sum += ours ? one : 0;
		*n += ours;
	}
	if (folder)
		closedir(folder);
	return sum;
}

/* Wait until the library, if it is preloaded, has its threads, one for idle memory and one for
 * requests, and glibc does not count them. A new thread is in /proc before its creator takes it out
 * of the count: a last thread that ends meanwhile is not the last one counted, and another one runs
 * the exit handlers. Memory must have been idle before. */
static inline void library_threads_await(void)
{
	unsigned n = 0;
	while (getenv("LD_PRELOAD") && n < 2)
		library_threads_switches(&n);
	const unsigned *volatile count = dlsym(RTLD_DEFAULT, "__nptl_nthreads");
	for (unsigned i = 0; count && *(const volatile unsigned *)count > 1 && i < 10000; i++)
		usleep(1000);
}

#endif
