/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cores.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/entries.h"
#include "base/sys.h"

#define WORDS (sizeof(cpu_set_t) / sizeof(unsigned long))

static atomic_ulong known[WORDS];

/* Add the cores of a thread; 0: the calling one. */
static void thread_learn(pid_t thread)
{
	unsigned long words[WORDS] = {0};
	if (syscall(SYS_sched_getaffinity, thread, sizeof words, words) < 0)
		return;
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] & ~atomic_load_explicit(&known[i], memory_order_relaxed))
			atomic_fetch_or_explicit(&known[i], words[i], memory_order_relaxed);
}

void gm_cores_begin(void)
{
	thread_learn(0);
}

static bool entry_learn(void *arg, const char *name)
{
	(void)arg;
	thread_learn((pid_t)strtol(name, NULL, 10));
	return false;
}

void gm_cores_learn(void)
{
	int folder = gm_sys_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (folder < 0)
		return;
	gm_entries_visit(folder, entry_learn, NULL);
	gm_sys_close(folder);
}

bool gm_cores_get(cpu_set_t *cores)
{
	unsigned long words[WORDS];
	for (size_t i = 0; i < WORDS; i++)
		words[i] = atomic_load_explicit(&known[i], memory_order_relaxed);
	memcpy(cores, words, sizeof words);
	return CPU_COUNT(cores) > 0;
}

void gm_cores_use(void)
{
	cpu_set_t cores;
	if (gm_cores_get(&cores))
		syscall(SYS_sched_setaffinity, 0, sizeof cores, &cores);
}
