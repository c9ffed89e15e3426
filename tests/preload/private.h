/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of programs that call the functions of a private table. An answer a line; natively the
 * same, but for `ask`. Include it in one source file. */
#ifndef GM_TESTS_PRELOAD_PRIVATE_H
#define GM_TESTS_PRELOAD_PRIVATE_H

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"
#include "sim/sim.h"
#include "steer.h"

typedef CUresult (*private_get)(const void **table, const CUuuid *id);

static const struct gm_sim_table *private_table; /* that of the last request */

/* Up to 32 hexadecimal digits; the rest is 0. */
static CUuuid private_id(const char *digits)
{
	CUuuid id = {{0}};
	unsigned byte;
	for (unsigned i = 0; i < sizeof id.bytes && sscanf(digits + 2 * i, "%2x", &byte) == 1;
	     i++) {
		id.bytes[i] = (char)byte;
		if (!digits[2 * i + 2])
			break;
	}
	return id;
}

/* Is the table that `get` gives the driver's own? */
static const char *private_ask(private_get get, const char *digits)
{
	const void *table = NULL, *again = NULL, *own = NULL;
	const CUuuid id = private_id(digits);
	const private_get drivers = (private_get)gm_sim_symbol(NULL, "cuGetExportTable");
	CUresult result = get(&table, &id);
	if (result != CUDA_SUCCESS)
		return result_name(result);
	MUST(drivers(&own, &id));
	MUST(get(&again, &id));
	if (again != table)
		return "another at the second request";
	private_table = table;
	return table == own ? "its own" : "a copy";
}

static private_get private_getter(void)
{
	return (private_get)dlsym(RTLD_DEFAULT, "cuGetExportTable");
}

/* --- values --- */

static long private_twice(long a)
{
	return private_table->call(labs, a) * 2;
}

#ifdef __x86_64__
__attribute__((target("avx"))) static bool private_four_right(double k)
{
	const gm_sim_four a = {k, k + 1, k + 2, k + 3};
	const gm_sim_four b = private_table->four(a, a);
	return b[0] == 3 * k && b[1] == 3 * (k + 1) && b[2] == 3 * (k + 2) && b[3] == 3 * (k + 3);
}
#define FOUR_RIGHT(k) (!__builtin_cpu_supports("avx") || private_four_right(k))
#else
#define FOUR_RIGHT(k) true
#endif

static bool private_values_right(long k)
{
	const struct gm_sim_table *t = private_table;
	long sum = 0;
	struct gm_sim_big big = {{k, 1, 2, 3, 4, 5, 6, 7, 8}};
	for (long i = 0; i < 20; i++)
		sum = sum * 3 + k + i;
	bool right = t->integers(k, k + 1, k + 2, k + 3, k + 4, k + 5, k + 6, k + 7, k + 8, k + 9,
				 k + 10, k + 11, k + 12, k + 13, k + 14, k + 15, k + 16, k + 17,
				 k + 18, k + 19) == sum;
	double mixed = t->mixed(k, 2, 3, 4, 5, 6, (void *)7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
	right = right && mixed == (double)k + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 81 + 100 + 121 +
					  144 + 169 + 196 + 225 + 256;
	big = t->big(big, 3);
	right = right && big.v[0] == k + 3 && big.v[8] == 11;
	right = right && t->wide(k) == (long double)k * 1.25L;
	double variadic = t->variadic(6, k, 1.5, 2L, 2.5, 3L, 3.5, 4L, 4.5, 5L, 5.5, 6L, 6.5);
	double expected = 0;
	for (int i = 0; i < 6; i++)
		expected = expected * 3 + (i ? i + 1 : (double)k) + 1.5 + i;
	return right && variadic == expected && t->call(private_twice, k) == 2 * (k + 1) + 1 &&
	       FOUR_RIGHT((double)k) && !t->none && t->all == UINTPTR_MAX && t->number == 42;
}

static void *private_values(void *from)
{
	for (long k = (long)(intptr_t)from; k % 1000 < 500; k++)
		if (!private_values_right(k))
			return "wrong";
	return "right";
}

static const char *private_threads(void)
{
	pthread_t threads[8];
	const char *all = "right";
	for (size_t i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, private_values, (void *)(i * 1000));
	for (size_t i = 0; i < 8; i++) {
		void *answer;
		pthread_join(threads[i], &answer);
		all = strcmp(answer, "right") ? answer : all;
	}
	return all;
}

/* --- requests at the same time --- */

static pthread_barrier_t private_start;

static void *private_race_ask(void *id)
{
	const void *table = NULL;
	pthread_barrier_wait(&private_start);
	return private_getter()(&table, id) == CUDA_SUCCESS ? (void *)(uintptr_t)table : NULL;
}

static const char *private_race(const char *digits)
{
	CUuuid id = private_id(digits);
	pthread_t threads[8];
	void *tables[8];
	bool right = true;
	pthread_barrier_init(&private_start, NULL, 8);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, private_race_ask, &id);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &tables[i]);
		right = right && tables[i] && tables[i] == tables[0];
	}
	return right ? "one" : "several";
}

/* --- signals --- */

static atomic_uint private_handled;

static void private_handle(int number)
{
	(void)number;
	if (!private_values_right(5))
		_exit(9);
	atomic_fetch_add(&private_handled, 1);
}

/* Handlers of a thread's own stack, and of another one, interrupt calls. */
static const char *private_signals(void)
{
	static char stack[256 << 10];
	const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	bool right = true;
	for (int i = 0; i < 2; i++) {
		const struct sigaction action = {.sa_handler = private_handle,
						 .sa_flags = SA_RESTART | (i ? SA_ONSTACK : 0)};
		atomic_store(&private_handled, 0);
		sigaltstack(&own, NULL);
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
		for (long k = 0; atomic_load(&private_handled) < 200; k++)
			right = private_values_right(k) && right;
		setitimer(ITIMER_REAL, &never, NULL);
	}
	return right ? "right" : "wrong";
}

/* --- calls that do not return --- */

static jmp_buf private_place;

static long private_jump(long a)
{
	longjmp(private_place, (int)a);
}

static const char *private_jumps(void)
{
	static volatile int n;
	for (n = 0; n < 100; n++)
		if (!setjmp(private_place))
			private_table->call(private_jump, 1);
	return n == 100 ? "jumped" : "?";
}

static long private_exit(long a)
{
	pthread_exit((void *)a);
}

static void *private_leave(void *arg)
{
	private_table->call(private_exit, 3);
	return arg;
}

static const char *private_leaves(void)
{
	bool right = true;
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *answer;
		pthread_create(&thread, NULL, private_leave, NULL);
		pthread_join(thread, &answer);
		right = right && answer == (void *)3;
	}
	return right ? "left" : "?";
}

static long private_fork(long a)
{
	pid_t child = fork();
	if (child == 0)
		return -1;
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 42 ? a : 0;
}

static const char *private_forks(void)
{
	long answer = private_table->call(private_fork, 4);
	if (answer == 0) /* in the child */
		_exit(private_values_right(3) ? 42 : 1);
	return answer == 5 ? "forked" : "?";
}

/* --- a call that stays --- */

static pthread_t private_inside;
static atomic_bool private_is_in, private_goes;

static long private_wait(long a)
{
	atomic_store(&private_is_in, true);
	while (!atomic_load(&private_goes))
		usleep(100);
	return a;
}

static void *private_stay(void *arg)
{
	private_table->call(private_wait, 1);
	return arg;
}

static const char *private_enter(void)
{
	atomic_store(&private_is_in, false);
	atomic_store(&private_goes, false);
	pthread_create(&private_inside, NULL, private_stay, NULL);
	while (!atomic_load(&private_is_in))
		usleep(100);
	return "inside";
}

static const char *private_go(void)
{
	atomic_store(&private_goes, true);
	pthread_join(private_inside, NULL);
	return "outside";
}

/* NULL: no such command. */
static const char *private_obey(const char *command)
{
	static void *library;
	if (!strncmp(command, "ask ", 4))
		return private_ask(private_getter(), command + 4);
	if (!strncmp(command, "get ", 4))
		return private_ask(private_getter(), command + 4), "done";
	if (!strncmp(command, "race ", 5))
		return private_race(command + 5);
	if (!strncmp(command, "library ", 8))
		return (library = dlopen(command + 8, RTLD_NOW)) ? "done" : dlerror();
	if (!strncmp(command, "through ", 8))
		return private_ask((private_get)dlsym(library, "private_get"), command + 8);
	if (!strcmp(command, "values"))
		return private_values((void *)1);
	if (!strcmp(command, "threads"))
		return private_threads();
	if (!strcmp(command, "signals"))
		return private_signals();
	if (!strcmp(command, "jumps"))
		return private_jumps();
	if (!strcmp(command, "leaves"))
		return private_leaves();
	if (!strcmp(command, "forks"))
		return private_forks();
	if (!strcmp(command, "enter"))
		return private_enter();
	if (!strcmp(command, "go"))
		return private_go();
	return NULL;
}

#endif
