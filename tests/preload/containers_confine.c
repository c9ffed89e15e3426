/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a command with fewer resources, as containers and batch systems do.
 *
 *     confine WHAT... -- COMMAND [ARGUMENT]...
 *
 *     deny=ERROR:CALL,...   these system calls answer EPERM, ENOSYS or EACCES
 *     trap=CALL,...         these system calls kill the process with SIGSYS
 *     threads=0             a new thread kills the process with SIGSYS; new processes are fine
 *     limit=NAME:NUMBER     set this resource limit
 *     close=N               close this descriptor
 *     cpus=N                only the first N of the available processors
 *     uid=N                 another user and group, without further groups
 *
 * The changes are made in the given order. One that is impossible ends the program with status 125.
 */
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

struct name {
	const char *name;
	long number;
};

/* A number where older headers lack the call; new calls have the same number on every machine. */
static const struct name calls[] = {
	{"clone", SYS_clone},
	{"clone3", 435},
	{"close_range", 436},
	{"connect", SYS_connect},
	{"fadvise64", SYS_fadvise64},
	{"fallocate", SYS_fallocate},
	{"fstatfs", SYS_fstatfs},
	{"getrandom", SYS_getrandom},
	{"io_uring_setup", 425},
	{"madvise", SYS_madvise},
	{"membarrier", SYS_membarrier},
	{"memfd_create", SYS_memfd_create},
	{"openat2", 437},
	{"perf_event_open", SYS_perf_event_open},
	{"pidfd_getfd", 438},
	{"pidfd_open", 434},
	{"process_vm_readv", SYS_process_vm_readv},
	{"ptrace", SYS_ptrace},
	{"sched_getaffinity", SYS_sched_getaffinity},
	{"socket", SYS_socket},
	{"statx", SYS_statx},
	{"userfaultfd", SYS_userfaultfd},
};

static const struct name errors[] = {{"EACCES", EACCES}, {"ENOSYS", ENOSYS}, {"EPERM", EPERM}};

static const struct name limits[] = {
	{"AS", RLIMIT_AS},	   {"CORE", RLIMIT_CORE},   {"FSIZE", RLIMIT_FSIZE},
	{"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC},
};

static void cannot(const char *what)
{
	fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
	exit(125);
}

static long find(const struct name *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].number;
	errno = EINVAL;
	cannot(name);
	return -1;
}
#define FIND(names, name) find(names, sizeof names / sizeof *names, name)

static void install(struct sock_filter *code, size_t n)
{
	struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		cannot("seccomp");
}

#define DATA(member) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
#define RETURN(answer) BPF_STMT(BPF_RET | BPF_K, answer)
#define UNLESS(test, value, skipped) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, 0, skipped)

static void filter_calls(char *list, uint32_t answer)
{
	struct sock_filter code[100] = {
		DATA(arch),
		UNLESS(BPF_JEQ, ARCH, 1), /* else arch stays, no call's number */
		DATA(nr),
	};
	size_t n = 3;
	for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
		uint32_t number = (uint32_t)FIND(calls, word);
		code[n++] = (struct sock_filter)UNLESS(BPF_JEQ, number, 1);
		code[n++] = (struct sock_filter)RETURN(answer);
	}
	code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	install(code, n);
}

/* A filter cannot read clone3's flags, which are in memory; without clone3 glibc uses clone. */
static void filter_threads(void)
{
	struct sock_filter code[] = {
		DATA(nr),
		UNLESS(BPF_JEQ, 435, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		UNLESS(BPF_JEQ, SYS_clone, 3),
		DATA(args[0]),
		UNLESS(BPF_JSET, CLONE_THREAD, 1),
		RETURN(SECCOMP_RET_TRAP),
		RETURN(SECCOMP_RET_ALLOW),
	};
	install(code, sizeof code / sizeof *code);
}

/* split "FIRST:REST" at the colon */
static char *behind_colon(char *text)
{
	char *colon = strchr(text, ':');
	if (!colon) {
		errno = EINVAL;
		cannot(text);
		return text;
	}
	*colon = 0;
	return colon + 1;
}

static void limit(char *text)
{
	rlim_t number = strtoul(behind_colon(text), NULL, 10);
	struct rlimit both = {number, number};
	if (setrlimit((__rlimit_resource_t)FIND(limits, text), &both))
		cannot(text);
}

static void keep_cpus(int n)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set))
		cannot("sched_getaffinity");
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set) && n-- <= 0)
			CPU_CLR(i, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		cannot("sched_setaffinity");
}

static void become(unsigned id)
{
	if (setgroups(0, NULL) || setgid(id) || setuid(id))
		cannot("uid");
}

static void apply(char *what)
{
	char *value = strchr(what, '=');
	size_t n = value ? (size_t)(value++ - what) : 0;
	if (n == 4 && strncmp(what, "deny", n) == 0) {
		char *list = behind_colon(value);
		filter_calls(list, SECCOMP_RET_ERRNO | (uint32_t)FIND(errors, value));
	} else if (n == 4 && strncmp(what, "trap", n) == 0)
		filter_calls(value, SECCOMP_RET_TRAP);
	else if (n == 7 && strncmp(what, "threads", n) == 0)
		filter_threads();
	else if (n == 5 && strncmp(what, "limit", n) == 0)
		limit(value);
	else if (n == 5 && strncmp(what, "close", n) == 0)
		close(atoi(value));
	else if (n == 4 && strncmp(what, "cpus", n) == 0)
		keep_cpus(atoi(value));
	else if (n == 3 && strncmp(what, "uid", n) == 0)
		become((unsigned)atoi(value));
	else {
		errno = EINVAL;
		cannot(what);
	}
}

int main(int argc, char **argv)
{
	int i = 1;
	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		apply(argv[i]);
	if (i + 1 >= argc) {
		fprintf(stderr, "usage: confine WHAT... -- COMMAND [ARGUMENT]...\n");
		return 125;
	}
	execvp(argv[i + 1], argv + i + 1);
	cannot(argv[i + 1]);
	return 125;
}
