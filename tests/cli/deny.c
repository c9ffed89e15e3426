/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a command whose system calls that begin with NAME fail with EPERM, as under containers'
 * seccomp: deny NAME COMMAND...
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	unsigned number;
} calls[] = {{"memfd_create", SYS_memfd_create},
	     {"readlinkat", SYS_readlinkat},
	     {"fallocate", SYS_fallocate},
#ifdef SYS_readlink
	     {"readlink", SYS_readlink}
#endif
};

static bool deny(const char *name)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		struct sock_filter steps[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		const struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
		if (strncmp(calls[i].name, name, strlen(name)) != 0)
			continue;
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			return false;
	}
	return true;
}

/* Status 77: the calls cannot be refused here. */
int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (!deny(argv[1])) {
		perror("deny");
		return 77;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
