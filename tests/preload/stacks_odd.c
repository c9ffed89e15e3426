/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates where a walk up the stack finds odd things: stacks_odd WAY [NUMBER]
 *   coroutine NUMBER  in a coroutine whose first frame returns to NUMBER
 *   made              below code made at run time, with another register than a frame's in rbp
 *   unreadable        the same, in a page that can be executed only
 *   registered        below such code whose frame information is registered
 *   thread NUMBER     in a thread with a stack of NUMBER KiB
 *   signal NUMBER     in a signal handler on a stack of NUMBER KiB
 *   lengths           twice each below two frames of a function, which differ in length
 *   shorter           in a coroutine, and again where its stack is half as long
 *   faults            in a handler of faults: of a call of NULL, and of two writes by one function
 * Prints the result of each allocation's call, and whether the way ended.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "program.h"

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

/* --- frames of one function with different lengths --- */

static void *volatile kept;

static PLACE void length_inner(size_t length)
{
	kept = alloca(length);
	odd_leaf();
	STAYS();
}

static PLACE void length_first(void)
{
	kept = alloca(64);
	length_inner(512);
	STAYS();
}

static PLACE void length_second(void)
{
	kept = alloca(512);
	length_inner(64);
	STAYS();
}

static PLACE void way_lengths(void)
{
	void (*volatile via[])(void) = {length_first, length_second};
	for (volatile unsigned i = 0; i < 4; i++)
		via[i % 2]();
}

static ucontext_t outside;
static size_t length_now;

static void length_run(void)
{
	length_inner(length_now);
}

static void length_coroutine(char *stack, size_t size, size_t length)
{
	ucontext_t inside;
	length_now = length;
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = size;
	inside.uc_link = &outside;
	makecontext(&inside, length_run, 0);
	swapcontext(&outside, &inside);
}

/* The innermost frames are at the same places. */
static void way_shorter(void)
{
	char *stack =
		mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		exit(1);
	length_coroutine(stack, 2 * MIB, MIB + 4096);
	mprotect(stack + MIB, MIB, PROT_NONE);
	length_coroutine(stack, MIB, 4096);
}

/* --- faults --- */

static sigjmp_buf before_fault;

static void fault_handle(int number)
{
	(void)number;
	odd_leaf();
	siglongjmp(before_fault, 1);
}

static PLACE void fault_make(void (*call)(void))
{
	if (sigsetjmp(before_fault, 1))
		return;
	if (call)
		*(volatile int *)call = 1;
	call();
	STAYS();
}

static void way_faults(void)
{
	signal(SIGSEGV, fault_handle);
	fault_make(NULL);
	for (unsigned i = 0; i < 2; i++)
		fault_make((void (*)(void))(uintptr_t)8);
}

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
	else if (strcmp(way, "lengths") == 0)
		way_lengths();
	else if (strcmp(way, "shorter") == 0)
		way_shorter();
	else if (strcmp(way, "faults") == 0)
		way_faults();
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
