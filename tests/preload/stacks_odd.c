/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates where a walk up the stack finds odd things: stacks_odd WAY [NUMBER]
 *   coroutine NUMBER  in a coroutine whose first frame returns to NUMBER
 *   made              below code made at run time, with another register than a frame's in rbp
 *   unreadable        the same, in a page that can be executed only
 *   registered        below such code whose frame information is registered
 *   thread NUMBER     in a thread with a stack of NUMBER KiB
 *   signal NUMBER     in a signal handler on a stack of NUMBER KiB
 * Prints the result of each allocation's call, and whether the way ended.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "program.h"

#define PLACE __attribute__((noinline, noclone))
#define STAYS() __asm__ volatile("" ::: "memory")

static unsigned allocated;

static PLACE void odd_leaf(void)
{
	CUdeviceptr block;
	MUST(cuMemAlloc(&block, MIB));
	allocated++;
	STAYS();
}

#if defined(__x86_64__)

static _Alignas(64) unsigned char coroutine_stack[1 << 18];
static void *coroutine_caller;

static PLACE void coroutine_body(void)
{
	odd_leaf();
	__asm__ volatile("movq %0, %%rsp\n\tjmp coroutine_left" ::"m"(coroutine_caller));
}

static PLACE void way_coroutine(unsigned long returns_to)
{
	unsigned long *top = (unsigned long *)(coroutine_stack + sizeof coroutine_stack - 64);
	top[-1] = returns_to;
	__asm__ volatile(
		"pushq %%rbp\n\tpushq %%rbx\n\tpushq %%r12\n\tpushq %%r13\n\tpushq %%r14\n\t"
		"pushq %%r15\n\tmovq %%rsp, %0\n\tmovq %1, %%rsp\n\tjmp *%2\n"
		"coroutine_left:\n\tpopq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\t"
		"popq %%r12\n\tpopq %%rbx\n\tpopq %%rbp"
		: "=m"(coroutine_caller)
		: "r"(&top[-1]), "r"(coroutine_body)
		: "memory", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
}

/* push rbp; mov rbp, 0xdead0000deadbeef; call rdi; pop rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0xbd, 0xef, 0xbe, 0xad, 0xde, 0,
				     0,	   0xad, 0xde, 0xff, 0xd7, 0x5d, 0xc3};

/* A CIE with the rules at a call (the frame's begin is rsp + 8, the return address below it), an
 * FDE for `code`, in which rbp is on the stack from the second byte on, and the end of the list. */
static struct {
	uint32_t cie_length, cie_id;
	unsigned char cie[16];
	uint32_t fde_length, fde_to_cie;
	const unsigned char *begin;
	uint64_t size;
	unsigned char fde[8];
	uint32_t end;
} __attribute__((packed)) information = {20,
					 0,
					 {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1},
					 28,
					 28,
					 NULL,
					 sizeof code,
					 {0, 0x41, 0x0e, 16, 0x86, 2},
					 0};

static PLACE void way_made(int protection, bool registered)
{
	unsigned char *at =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *library = registered ? dlopen("libgcc_s.so.1", RTLD_NOW) : NULL;
	void (*frames_register)(const void *);
	if (at == MAP_FAILED || (registered && !library))
		exit(1);
	memcpy(at, code, sizeof code);
	mprotect(at, 4096, protection);
	if (registered) {
		*(void **)&frames_register = dlsym(library, "__register_frame");
		information.begin = at;
		frames_register(&information);
	}
	((void (*)(void (*)(void)))(void *)at)(odd_leaf);
	STAYS();
}

#endif

static void *thread_run(void *arg)
{
	use_device(0);
	for (unsigned i = 0; i < 100; i++)
		odd_leaf();
	return arg;
}

static void way_thread(size_t size)
{
	pthread_attr_t attributes;
	pthread_t thread;
	if (pthread_attr_init(&attributes) != 0 ||
	    pthread_attr_setstacksize(&attributes, size) != 0 ||
	    pthread_create(&thread, &attributes, thread_run, NULL) != 0)
		exit(1);
	pthread_join(thread, NULL);
}

static void signal_handle(int number)
{
	(void)number;
	odd_leaf();
}

static void way_signal(size_t size)
{
	const stack_t stack = {.ss_sp = malloc(size), .ss_size = size};
	const struct sigaction action = {.sa_handler = signal_handle, .sa_flags = SA_ONSTACK};
	if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		exit(1);
	for (unsigned i = 0; i < 100; i++)
		raise(SIGUSR1);
	free(stack.ss_sp);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	const unsigned long number = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	MUST(cuInit(0));
	use_device(0);
	if (strcmp(way, "thread") == 0)
		way_thread(number << 10);
	else if (strcmp(way, "signal") == 0)
		way_signal(number << 10);
#if defined(__x86_64__)
	else if (strcmp(way, "coroutine") == 0)
		way_coroutine(number);
	else if (strcmp(way, "made") == 0)
		way_made(PROT_READ | PROT_EXEC, false);
	else if (strcmp(way, "unreadable") == 0)
		way_made(PROT_EXEC, false);
	else if (strcmp(way, "registered") == 0)
		way_made(PROT_READ | PROT_EXEC, true);
#endif
	else
		return 2;
	printf("%u allocations\n", allocated);
	return 0;
}
