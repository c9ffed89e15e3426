/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works under a filter of system calls, for x86-64: filtered WHEN ANSWER [CALL...]
 * The filter begins before or after cuInit. Calls that are not named answer EPERM, or kill the
 * process. The work: blocks of all sizes, large copies, a lack of memory, a handle for other
 * processes, work on another thread, idle memory, the end of a context.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

#define STATEMENT(code, k) ((struct sock_filter)BPF_STMT(code, k))
#define LOAD(member) \
	STATEMENT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))

/* Calls by number. */
static bool filter(uint32_t answer, char **calls)
{
	struct sock_filter code[256] = {LOAD(nr)};
	unsigned short n = 1;
	for (; *calls && n + 3 < 256; calls++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (uint32_t)atoi(*calls), 0, 1);
		code[n++] = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = STATEMENT(BPF_RET | BPF_K, answer);
	const struct sock_fprog program = {.len = n, .filter = code};
	return !*calls && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void work(void)
{
	static char host[40 * MIB];
	CUdeviceptr block, kept;
	CUipcMemHandle handle;
	size_t free_bytes, total;
	use_device(0);
	for (size_t i = 1; i <= 30; i++) {
		MUST(cuMemAlloc(&block, i * MIB));
		MUST(cuMemcpyHtoD(block, host, i * MIB));
		MUST(cuMemcpyDtoH(host, block, i * MIB));
		MUST(cuMemFree(block));
		MUST(cuMemAlloc(&block, i * 1000));
		MUST(cuMemFree(block));
	}
	SAY(cuMemAlloc(&block, (size_t)1 << 50));
	MUST(cuMemAlloc(&kept, 3 * MIB));
	SAY(cuIpcGetMemHandle(&handle, kept));
	SAY(cuMemGetInfo(&free_bytes, &total));
	SAY(cuMemFree(kept));
}

static void *thread_run(void *arg)
{
	work();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc < 3)
		return 2;
	const bool after = strcmp(argv[1], "after") == 0;
	const uint32_t answer = strcmp(argv[2], "kill") == 0 ? (uint32_t)SECCOMP_RET_KILL_PROCESS
							     : SECCOMP_RET_ERRNO | (uint32_t)EPERM;
	if (!after && !filter(answer, argv + 3))
		return 3;
	MUST(cuInit(0));
	if (after && !filter(answer, argv + 3))
		return 3;
	work();
	if (pthread_create(&thread, NULL, thread_run, NULL) != 0)
		return 4;
	pthread_join(thread, NULL);
	usleep(100000);
	SAY(cuDevicePrimaryCtxReset(0));
	return 0;
}
