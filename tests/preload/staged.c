/* SPDX-License-Identifier: BSD-3-Clause */
/* Large copies between host memory and the device, of each kind: staged COMMAND. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "releases.h"
#include "turn.h"

#define ROOM (24 * MIB)

static CUdeviceptr device;
static unsigned char *host, *back;

static void *pages(size_t n)
{
	void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		exit(1);
	return at;
}

/* In words: bytes would take minutes under a sanitizer. */
static void paint(unsigned char *at, size_t n, unsigned seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t word = (i + seed) * 0x9e3779b97f4a7c15u;
		memcpy(at + i, &word, sizeof word);
	}
}

static unsigned sum(const unsigned char *at, size_t n)
{
	uint64_t s = 0, word = 0;
	for (size_t i = 0; i < n; i += 8) {
		memcpy(&word, at + i, n - i < 8 ? n - i : 8);
		s = (s ^ word) * 0x100000001b3u;
	}
	return (unsigned)(s >> 32);
}

static void set_up(void)
{
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&device, ROOM));
	host = pages(ROOM);
	back = pages(ROOM);
	paint(host, ROOM, 1);
}

/* --- lines and rectangles --- */

static void there_and_back(size_t at, size_t n)
{
	memset(back, 0, at + n + 4096);
	MUST(cuMemsetD8(device, 0, ROOM));
	MUST(cuMemcpyHtoD(device + at, host + 3 * at, n));
	MUST(cuMemcpyDtoH(back + at, device + at, n));
	printf("%zu bytes at %zu: %s, %08x\n", n, at,
	       memcmp(host + 3 * at, back + at, n) == 0 ? "equal" : "not equal", sum(back, ROOM));
}

static void lines(void)
{
	static const size_t sizes[] = {
		1, 64 << 10, 4 << 20, (4 << 20) - 1, (8 << 20) + 1, 10000001, (16 << 20) + 4095};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t at = 0; at < 3000; at += 1717)
			there_and_back(at, sizes[i]);
	memset(back, 0, ROOM);
	SAY(cuMemcpy((CUdeviceptr)back, device, 9 * MIB));
	SAY(cuMemcpy(device + MIB, (CUdeviceptr)host, 9 * MIB));
	printf("%08x\n", sum(back, ROOM));
	SAY(cuMemcpyDtoH(back, device, ROOM));
	printf("%08x\n", sum(back, ROOM));
}

static CUresult rectangle(bool to_device, size_t width, size_t rows, size_t pitch, size_t at,
			  bool unaligned)
{
	CUDA_MEMCPY2D c = {.WidthInBytes = width,
			   .Height = rows,
			   .srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
			   .dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
			   .srcHost = host,
			   .dstHost = back,
			   .srcDevice = device,
			   .dstDevice = device,
			   .srcPitch = to_device ? pitch : 8192,
			   .dstPitch = to_device ? 8192 : pitch,
			   .srcXInBytes = at,
			   .dstXInBytes = at,
			   .srcY = 2,
			   .dstY = 1};
	return unaligned ? cuMemcpy2DUnaligned(&c) : cuMemcpy2D(&c);
}

static void rectangles(void)
{
	memset(back, 0, ROOM);
	MUST(cuMemsetD8(device, 0, ROOM));
	SAY(rectangle(true, 5000, 2000, 6000, 100, false));
	SAY(rectangle(false, 5000, 1900, 6000, 100, false));
	printf("%08x\n", sum(back, ROOM));
	SAY(rectangle(true, 8192, 2000, 8192, 0, true));
	SAY(rectangle(false, 8192, 1900, 8192, 0, true));
	printf("%08x\n", sum(back, ROOM));
	SAY(rectangle(true, 64, 2500, 128, 0, false));
	SAY(rectangle(false, 6000, 1900, 5000, 0, false));
	printf("%08x\n", sum(back, ROOM));
}

/* --- errors --- */

static void errors(void)
{
	paint(back, ROOM, 2);
	MUST(cuMemsetD8(device, 0x5a, ROOM));
	unsigned was = sum(back, ROOM);
	SAY(cuMemcpyHtoD(device, host, ROOM + 1));
	SAY(cuMemcpyDtoH(back, device + 1, ROOM));
	SAY(cuMemcpyDtoH(back, device - 1, 9 * MIB));
	SAY(cuMemcpyHtoD(1, host, 9 * MIB));
	SAY(cuMemcpyHtoD(device, NULL, 9 * MIB));
	SAY(cuMemcpyDtoH(NULL, device, 9 * MIB));
	printf("%s\n", sum(back, ROOM) == was ? "the host is unchanged" : "the host has changed");
	MUST(cuMemcpyDtoH(back, device, ROOM));
	printf("%08x\n", sum(back, ROOM));
	CUcontext context, popped;
	MUST(cuCtxGetCurrent(&context));
	MUST(cuCtxPopCurrent(&popped));
	MUST(cuCtxSetCurrent(NULL));
	SAY(cuMemcpyHtoD(device, host, 9 * MIB));
	MUST(cuCtxSetCurrent(context));
	gm_sim_break(NULL, CUDA_ERROR_ILLEGAL_ADDRESS);
	SAY(cuMemcpyHtoD(device, host, 9 * MIB));
	SAY(cuMemcpyDtoH(back, device, 9 * MIB));
	gm_sim_break(NULL, CUDA_SUCCESS);
	SAY(cuMemcpyHtoD(device, host, 9 * MIB));
	MUST(cuMemFree(device));
	SAY(cuMemcpyHtoD(device, host, 9 * MIB));
}

/* An unmapped page ends the process as natively. */
static void hole(void)
{
	munmap(host + 4 * MIB, 4096);
	cuMemcpyHtoD(device, host, 9 * MIB);
}

static void readonly(void)
{
	mprotect(back + 4 * MIB, 4096, PROT_READ);
	cuMemcpyDtoH(back, device, 9 * MIB);
}

/* --- captures --- */

static void capture_with(CUstreamCaptureMode mode, unsigned flags, const char *name)
{
	CUstream stream;
	CUgraph graph = NULL;
	printf("%s:\n", name);
	MUST(cuStreamCreate(&stream, flags));
	MUST(cuStreamBeginCapture(stream, mode));
	SAY(cuMemcpyHtoD(device, host, 9 * MIB));
	SAY(cuMemcpyDtoH(back, device, 9 * MIB));
	SAY(cuStreamEndCapture(stream, &graph));
	if (graph)
		MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy(stream));
}

static void captures(void)
{
	capture_with(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, "global");
	capture_with(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_NON_BLOCKING, "relaxed");
	capture_with(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_DEFAULT, "blocking");
	there_and_back(0, 9 * MIB);
}

/* --- other kinds of memory --- */

static void both_ways(const char *name, CUdeviceptr there, void *here)
{
	printf("%s: %s", name, result_name(cuMemcpyHtoD(there, here, 9 * MIB)));
	printf(", %s", result_name(cuMemcpyDtoH(here, there, 9 * MIB)));
	printf(", %08x\n", sum(here, 9 * MIB));
}

static void kinds(void)
{
	void *pinned;
	CUdeviceptr managed, ordered;
	MUST(cuMemAllocHost(&pinned, 9 * MIB));
	memset(pinned, 3, 9 * MIB);
	both_ways("pinned", device, pinned);
	MUST(cuMemHostRegister(back, 9 * MIB, 0));
	both_ways("registered", device, back);
	MUST(cuMemHostUnregister(back));
	MUST(cuMemAllocManaged(&managed, 9 * MIB, CU_MEM_ATTACH_GLOBAL));
	memset((void *)managed, 4, 9 * MIB);
	both_ways("managed, of the host", device, (void *)managed);
	both_ways("managed, of the device", managed, host);
	MUST(cuMemAllocAsync(&ordered, 9 * MIB, NULL));
	MUST(cuStreamSynchronize(NULL));
	if (getenv("ORDERED"))
		both_ways("ordered", ordered, host);
	MUST(cuMemFreeAsync(ordered, NULL));
	MUST(cuMemFree(managed));
	MUST(cuMemFreeHost(pinned));
}

/* A copy of memory that is registered at one end, and a rectangle of it. */
static void registered_at(const char *name, size_t at)
{
	MUST(cuMemHostRegister(back + at, 2 * MIB, 0));
	both_ways(name, device, back);
	SAY(rectangle(false, 5000, 1900, 5000, 0, false));
	printf("%08x\n", sum(back, 10 * MIB));
	MUST(cuMemHostUnregister(back + at));
}

static void parts(void)
{
	registered_at("the first part", 0);
	registered_at("the last part", 8 * MIB);
}

/* --- asynchronous copies --- */

/* Both copies wait for a fill, and are complete when they return. */
static void behind(const char *name, CUstream stream)
{
	paint(host, 9 * MIB, 5);
	MUST(cuMemsetD8Async(device, 1, 9 * MIB + 512, stream));
	MUST(cuMemcpyHtoDAsync(device, host, 9 * MIB, stream));
	memset(host, 0, 9 * MIB);
	MUST(cuMemsetD8Async(device + 4096, 2, 4096, stream));
	MUST(cuMemcpyDtoHAsync(back, device, 9 * MIB + 512, stream));
	printf("%s: %08x\n", name, sum(back, 9 * MIB + 512));
}

/* The same, with fills that end when a copy waits for them. */
static void behind_held(const char *name, CUstream stream)
{
	struct releases releases;
	gm_sim_hold(stream);
	releases_begin(&releases, stream);
	behind(name, stream);
	releases_end(&releases);
}

static void async(void)
{
	CUstream own, waiting;
	MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&waiting, CU_STREAM_DEFAULT));
	behind_held("own", own);
	behind_held("own, blocking", waiting);
	behind_held("legacy", CU_STREAM_LEGACY);
	behind("default", NULL);
	behind("per thread", CU_STREAM_PER_THREAD);
	MUST(cuStreamDestroy(own));
	MUST(cuStreamDestroy(waiting));
}

/* Calls in streams for which the driver's treatment of pageable memory is unknown. */
static void unstaged(void)
{
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = host,
			     .srcPitch = MIB,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = device,
			     .dstPitch = MIB,
			     .WidthInBytes = MIB,
			     .Height = 9};
	MUST(cuMemcpy2DAsync(&box, NULL));
	MUST(cuStreamSynchronize(NULL));
	MUST(cuMemcpyDtoH(back, device, MIB));
	printf("%08x\n", sum(back, MIB));
}

/* --- processes and threads --- */

static void forks(void)
{
	int status = -1;
	there_and_back(0, 9 * MIB);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		paint(host, ROOM, 3);
		_exit(sum(host, MIB) == 0);
	}
	waitpid(child, &status, 0);
	printf("child: %d\n", status);
	there_and_back(0, 9 * MIB);
}

static void *copies_first(void *unused)
{
	(void)unused;
	use_device(0);
	MUST(cuMemcpyHtoD(device, host, 9 * MIB));
	atomic_store_explicit(&turn_begun, true, memory_order_relaxed); /* natively no call stops */
	return NULL;
}

/* The first large copy decides for all whether copies are staged. It stops in the middle. */
static void together(void)
{
	pthread_t thread;
	gm_sim_before("cuPointerGetAttribute", turn_hold);
	pthread_create(&thread, NULL, copies_first, NULL);
	turn_await();
	MUST(cuMemcpyHtoD(device + 12 * MIB, host, 9 * MIB));
	turn_end();
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < 2; i++) {
		MUST(cuMemcpyDtoH(back, device + i * 12 * MIB, 9 * MIB));
		printf("%s\n", memcmp(host, back, 9 * MIB) == 0 ? "equal" : "not equal");
	}
}

static void *copies_for_ever(void *unused)
{
	unsigned char *mine = pages(5 * MIB);
	CUdeviceptr there;
	(void)unused;
	use_device(0);
	MUST(cuMemAlloc(&there, 5 * MIB));
	while (cuMemcpyHtoD(there, mine, 5 * MIB) == CUDA_SUCCESS)
		;
	return NULL;
}

static void exits(void)
{
	for (unsigned i = 0; i < 3; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, copies_for_ever, NULL);
	}
	for (unsigned i = 0; i < 20; i++)
		MUST(cuMemcpyDtoH(back, device, 9 * MIB));
	printf("the end\n");
	exit(0);
}

/* Only gpumem's threads remain after the end of main. */
static void ends(void)
{
	there_and_back(0, 9 * MIB);
	fflush(stdout);
	pthread_exit(NULL);
}

static unsigned handled, elsewhere;
static pthread_t main_thread;

static void handler(int signal)
{
	(void)signal;
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	if (!pthread_equal(pthread_self(), main_thread))
		__atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELAXED);
}

static void signals(void)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 500}, {0, 500}};
	main_thread = pthread_self();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < 10 || !__atomic_load_n(&handled, __ATOMIC_RELAXED); i++) {
		memset(back, 0, 9 * MIB);
		MUST(cuMemcpyHtoD(device, host, 9 * MIB));
		MUST(cuMemcpyDtoH(back, device, 9 * MIB));
		if (memcmp(host, back, 9 * MIB) != 0)
			printf("not equal\n");
	}
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	printf("signals in other threads: %u\n", elsewhere);
}

/* Copies 9 MiB six times. */
static void repeat(void)
{
	for (unsigned i = 0; i < 6; i++)
		MUST(cuMemcpyHtoD(device, host, 9 * MIB));
	printf("six copies\n");
}

/* After a staged copy the driver makes five of 1 MiB and five of 32 KiB, and five from the device.
 */
static void beside(void)
{
	MUST(cuMemcpyHtoD(device, host, 9 * MIB));
	for (unsigned i = 0; i < 5; i++)
		MUST(cuMemcpyHtoD(device, host, MIB));
	for (unsigned i = 0; i < 5; i++)
		MUST(cuMemcpyHtoD(device, host, MIB / 32));
	for (unsigned i = 0; i < 5; i++)
		MUST(cuMemcpyDtoH(back, device, MIB));
	printf("sixteen copies\n");
}

/* Of each direction the 272nd copy is the 16th that is queried; the next one is the 523rd. */
static void small(void)
{
	for (unsigned i = 0; i < 600; i++) {
		MUST(cuMemcpyHtoD(device, host, 1000));
		if (i % 2)
			MUST(cuMemcpyDtoH(back, device, 1000));
	}
}

static void host_pause(void *unused)
{
	(void)unused;
	usleep(300); /* calls are frequent: less than 1 ms apart */
}

/* Prints the nanoseconds in small copies to the host, each of which waits for the host function
 * before it. Those to the device do not wait. */
static void waits(void)
{
	CUstream stream;
	struct releases releases;
	struct timespec begin, end;
	int64_t ns = 0;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(stream);
	releases_begin(&releases, stream);
	for (unsigned i = 0; i < 300; i++) {
		for (unsigned k = 0; k < i % 3; k++)
			MUST(cuMemcpyHtoDAsync(device, host, 1000, stream));
		MUST(cuLaunchHostFunc(stream, host_pause, NULL));
		clock_gettime(CLOCK_MONOTONIC, &begin);
		MUST(cuMemcpyDtoHAsync(back, device, 1000, stream));
		clock_gettime(CLOCK_MONOTONIC, &end);
		ns += (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
	}
	releases_end(&releases);
	MUST(cuStreamDestroy(stream));
	printf("%lld\n", (long long)ns);
}

/* Slots that are unused for GPUMEM_TRIM_AFTER are returned. */
static void idle(void)
{
	MUST(cuMemcpyHtoD(device, host, 9 * MIB));
	while (!gm_sim_calls("cuMemHostUnregister"))
		usleep(10000);
	MUST(cuMemcpyDtoH(back, device, 9 * MIB));
	printf("%s\n", memcmp(host, back, 9 * MIB) == 0 ? "equal" : "not equal");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} table[] = {
		{"lines", lines}, {"rectangles", rectangles}, {"errors", errors},
		{"hole", hole},	  {"readonly", readonly},     {"captures", captures},
		{"kinds", kinds}, {"forks", forks},	      {"exits", exits},
		{"ends", ends},	  {"signals", signals},	      {"repeat", repeat},
		{"idle", idle},	  {"small", small},	      {"waits", waits},
		{"async", async}, {"unstaged", unstaged},     {"together", together},
		{"parts", parts}, {"beside", beside},
	};
	set_up();
	for (size_t i = 0; argc > 1 && i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].name, argv[1]) == 0)
			return table[i].run(), 0;
	return 2;
}
