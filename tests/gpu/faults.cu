/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose handler repairs pages of the host buffers of its copies, as collectors and
 * checkpoints do. SIGSEGV: a page in the middle is protected, and the handler gives the rights
 * back. SIGBUS: a mapped file is cut in the middle, and the handler makes it long again. The
 * handler must run on the thread that copies, and the copy goes on.
 *
 *   before   the damage is done before each copy: one signal a copy
 *   during   another thread does the damage at some time during the copy, or after it; so the
 *            number of signals is only on standard error
 */
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu.h"

enum { TIMES = 100, WARM = 40 };

static const size_t SIZE = (size_t)32 << 20, WORDS = SIZE / sizeof(uint32_t), MIDDLE = SIZE / 2;
static const size_t MIDDLE_WORD = MIDDLE / sizeof(uint32_t), PAGE = 4096;

static uint32_t *host, *device;
static unsigned long long *bad;
static int file = -1;
static bool to_device;

/* --- the handler --- */

static pid_t main_thread;
static thread_local unsigned mine;
static volatile unsigned repaired, elsewhere;

static void repair(int signal, siginfo_t *info, void *)
{
	char *at = (char *)((uintptr_t)info->si_addr / PAGE * PAGE), *begin = (char *)host;
	int saved = errno;
	if (at < begin || at >= begin + SIZE) { /* not ours: it comes again, and ends the process */
		struct sigaction action = {};
		action.sa_handler = SIG_DFL;
		sigaction(signal, &action, NULL);
		return;
	}
	repaired = repaired + 1;
	elsewhere = elsewhere + (mine != 4711 || syscall(SYS_gettid) != main_thread);
	if (signal == SIGBUS ? ftruncate(file, SIZE) : mprotect(at, PAGE, PROT_READ | PROT_WRITE))
		_exit(3);
	errno = saved;
}

static void handle(int signal)
{
	struct sigaction action = {};
	action.sa_sigaction = repair;
	action.sa_flags = SA_SIGINFO;
	MUST(sigaction(signal, &action, NULL));
}

/* --- damage --- */

/* `page`: which one from the middle on; of a file, the place of the cut. */
static void damage(size_t page)
{
	char *at = (char *)host + MIDDLE + page * PAGE;
	if (file >= 0)
		MUST(ftruncate(file, (off_t)(MIDDLE + page * PAGE)));
	else
		MUST(mprotect(at, PAGE, to_device ? PROT_NONE : PROT_READ));
}

static void make_pages(bool of_file)
{
	if (of_file) {
		file = memfd_create("faults", 0);
		MUST(file < 0);
		MUST(ftruncate(file, SIZE));
	}
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
	MUST(at == MAP_FAILED);
	host = (uint32_t *)at;
}

static void drop_pages()
{
	MUST(munmap(host, SIZE));
	if (file >= 0)
		MUST(close(file));
	file = -1;
}

/* --- a second thread --- */

static std::atomic<unsigned> begun, done; /* copies */

/* Some microseconds after each copy has begun. */
static void *damage_during(void *)
{
	Random random = {88172645463325252ull};
	for (unsigned i = 1; i <= TIMES; i++) {
		while (begun.load() < i)
			usleep(50);
		usleep((useconds_t)random.below(3000));
		damage(random.below(1000));
		done.store(i);
	}
	return NULL;
}

/* --- copies --- */

/* Only the words before a cut are known: the others may be lost. */
static size_t known_words(bool during)
{
	return file >= 0 && (during || to_device) ? MIDDLE_WORD : WORDS;
}

static bool copy_is_right(uint32_t tag, bool during)
{
	size_t words = known_words(during);
	if (to_device) {
		unsigned long long wrong = 0;
		MUST(cudaMemset(bad, 0, sizeof *bad));
		verify<<<256, 256>>>(device, words, tag, bad);
		MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
		return !wrong;
	}
	for (size_t i = 0; i < words; i++)
		if (host[i] != pattern(tag, i))
			return false;
	return true;
}

static void prepare(uint32_t tag)
{
	if (to_device)
		for (size_t i = 0; i < WORDS; i++)
			host[i] = pattern(tag, i);
	else
		memset(host, 0, SIZE);
	if (to_device)
		MUST(cudaMemset(device, 0, SIZE));
	else
		fill<<<256, 256>>>(device, WORDS, tag);
	MUST(cudaDeviceSynchronize());
}

static cudaError_t copy()
{
	return to_device ? cudaMemcpy(device, host, SIZE, cudaMemcpyHostToDevice)
			 : cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost);
}

static bool copies(bool of_file, bool to, bool during)
{
	unsigned right = 0, failed = 0;
	pthread_t thread;
	to_device = to;
	make_pages(of_file);
	repaired = elsewhere = 0;
	begun = done = 0;
	if (during)
		MUST(pthread_create(&thread, NULL, damage_during, NULL));
	for (unsigned i = 1; i <= TIMES; i++) {
		prepare(i);
		if (!during)
			damage(i);
		begun.store(i);
		cudaError_t error = copy();
		while (during && done.load() < i)
			usleep(50);
		if (error != cudaSuccess && !failed++)
			printf("copy %u: %s\n", i, cudaGetErrorName(error));
		right += error == cudaSuccess && copy_is_right(i, during);
	}
	if (during)
		MUST(pthread_join(thread, NULL));
	const char *what = of_file ? "SIGBUS" : "SIGSEGV", *way = to ? "to" : "from";
	printf("%s %s a copy %s the device: %u of %d copies are right, %u signals elsewhere\n",
	       what, during ? "during" : "before", way, right, TIMES, elsewhere);
	if (!during)
		printf("%u pages repaired\n", repaired);
	fprintf(stderr, "%s, %s: %u signals\n", what, way, repaired);
	fflush(stdout);
	drop_pages();
	return right == TIMES && !elsewhere && (during || repaired == TIMES);
}

/* Before anything is damaged, and often enough that staging pays (GPUMEM_COPY=auto). */
static void warm_up()
{
	make_pages(false);
	for (unsigned i = 0; i < WARM; i++) {
		to_device = i % 2;
		MUST(copy());
	}
	drop_pages();
}

int main()
{
	bool good = true;
	mine = 4711;
	main_thread = (pid_t)syscall(SYS_gettid);
	MUST(cudaMalloc(&device, SIZE));
	MUST(cudaMalloc(&bad, sizeof *bad));
	warm_up();
	handle(SIGSEGV);
	handle(SIGBUS);
	for (bool during : {false, true})
		for (bool of_file : {false, true})
			for (bool to : {true, false})
				good = copies(of_file, to, during) && good;
	printf("faults: %s\n", good ? "ok" : "not ok");
	return !good;
}
