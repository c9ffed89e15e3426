/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that can be put to sleep: sleeps hold. It fills blocks, prints "ready PID", and obeys
 * commands, lines of its standard input, with a line of output each. HANDLED=1: it handles SIGSEGV.
 *
 *     where    asleep or awake, by a read of the blocks' memory
 *     check    all blocks by cuMemcpyDtoH: right, or the number of wrong ones
 *     fill     by cuMemsetD8, which check then expects
 *     touch    by cuMemsetD8, of one byte, with its old value
 *     ask      cuMemGetInfo: the same values as after the first allocations
 *     point    cuPointerGetAttribute: device memory
 *     questions  asks all about blocks, sleeps, and asks again: equal answers, and none wakes
 *     free     the first half of the blocks; take: new ones in their place
 *     others   allocates memory of five kinds outside the pool, exports some, and pins a block
 *     room     the MiB that cuMemGetInfo answers; full: takes the whole device, and keeps it
 *     host N   uses N MiB of host memory; big N: a block of N MiB
 *     more N   a block of N MiB, if there is one; big 0: frees the newest of big
 *     managed N  N MiB of managed memory; second N: a block of N MiB on device 1. For check, too
 *     submit   a thread submits to a stream of its own all the time; quiet ends it
 *     capture  begins a capture, uncapture ends it; hold, release: an endless kernel
 *     exec     becomes a program that ends at once
 *     fork     a child prints the answer of a driver call; reset: ends the context
 *     open P   opens the device P; close closes it
 *     fail C N call C of the driver fails when it is made for the Nth time from now; N=0: none
 *     peak     takes 60% of the device and frees it
 *     idle N   takes N MiB and frees them; create N: N MiB by cuMemCreate
 *     load P   loads the library P, and keeps it
 *     nccl     looks a kernel up as NCCL does; table: requests an unknown function table
 *     entry F  asks for the function F of the driver by dlsym; proc F: by cuGetProcAddress
 *     calls F  sleeps before each call that the file F names; prints the calls that do not wake it
 *     copy     copies 24 MiB of pageable memory to the device and back: right, or wrong
 *     ask D    the table of functions with this identifier: private.h has this and its calls
 *     export   prints a handle of the last block; import H: opens and reads it: right, wrong, error
 *     attach H likewise, and keeps it open; detach: closes it; drop: frees the last block
 *     shutall  closes all descriptors but the standard ones
 *     pin      sets SYNC_MEMOPS of the last block
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ahead.h"
#include "apart.h"
#include "private.h"
#include "program.h"
#include "sim/sim.h"
#include "steer.h"

enum { BLOCKS = 12 };

static CUdeviceptr blocks[BLOCKS];
static unsigned char byte = 1;
static size_t available;
static CUstream stream;

static size_t block_size(unsigned i)
{
	static const size_t sizes[] = {1000, 100000, 3 * MIB, 7 * MIB + 12345};
	return sizes[i % 4];
}

static void block_fill(unsigned i)
{
	MUST(cuMemsetD8_v2(blocks[i], (unsigned char)(byte + i), block_size(i)));
}

static void blocks_make(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		MUST(cuMemAlloc_v2(&blocks[i], block_size(i)));
		block_fill(i);
	}
}

static unsigned blocks_wrong(void)
{
	static unsigned char host[8 * MIB];
	unsigned wrong = managed.size && !apart_is(&managed);
	wrong += second.size && !apart_is(&second);
	for (unsigned i = 0; i < BLOCKS; i++) {
		bool right = true;
		if (!blocks[i])
			continue;
		MUST(cuMemcpyDtoH_v2(host, blocks[i], block_size(i)));
		for (size_t at = 0; at < block_size(i) && right; at++)
			right = host[at] == (unsigned char)(byte + i);
		wrong += !right;
	}
	return wrong;
}

/* Device memory is host memory here, and is unmapped while the process sleeps. syscall() instead of
 * write(): another process, gpumemstat, orders the read after the move. ThreadSanitizer does not
 * see that, and would report a race in write(). */
static bool is_awake(void)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(1);
	bool readable = syscall(SYS_write, ends[1], blocks[BLOCKS - 1], 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return readable;
}

static size_t available_now(void)
{
	size_t left, total;
	MUST(cuMemGetInfo_v2(&left, &total));
	return left;
}

/* The same answer as awake, without a wake. */
static bool answer_stays(void)
{
	bool awake = is_awake();
	return available_now() == available && is_awake() == awake;
}

/* --- every call that submits --- */

typedef CUresult any_call(long a, long b, long c, long d, long e, long f, long g, long h, long i,
			  long j, long k, long l, long m, long n);

static void self_sleep(void)
{
	char command[4200];
	snprintf(command, sizeof command, "\"$TOOL\" sleep %d >/dev/null", (int)getpid());
	if (system(command) != 0 || is_awake()) {
		puts("it does not sleep");
		exit(1);
	}
}

static void call_all(const char *path)
{
	static const unsigned char zeros[4096];
	CUdeviceptr at;
	char symbol[64];
	unsigned n = 0;
	CUgraph graph;
	FILE *names = fopen(path, "re");
	while (names && fscanf(names, "%63s", symbol) == 1) {
		any_call *call = (any_call *)dlsym(RTLD_DEFAULT, symbol);
		bool box = !strncmp(symbol, "cuMemcpy2D", 10) || !strncmp(symbol, "cuMemcpy3D", 10);
		bool takes = !strcmp(symbol, "cuMemAlloc_v2"); /* wakes only for memory */
		if (!call)
			continue;
		if (is_awake())
			self_sleep();
		call(box     ? (long)(uintptr_t)zeros
		     : takes ? (long)(uintptr_t)&at
			     : 0,
		     takes ? 100 : 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
		n++;
		if (!is_awake())
			printf("%s ", symbol);
		if (!strncmp(symbol, "cuStreamBegin", 13))
			cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	}
	printf("%s\n", n > 100 ? "all" : "few");
}

/* --- questions about blocks --- */

enum { ATTRIBUTES = 24, ADDRESSES = 4, ANSWER = 16 };

struct answers {
	CUresult result[ADDRESSES][ATTRIBUTES + 3];
	unsigned char bytes[ADDRESSES][ATTRIBUTES + 3][ANSWER];
};

/* The begin and the inside of a block, a freed block, and memory of the host. */
static void questions_ask(struct answers *a, const CUdeviceptr *about)
{
	memset(a, 0xa5, sizeof *a);
	for (unsigned i = 0; i < ADDRESSES; i++) {
		CUpointer_attribute pair[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					      CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
		void *out[] = {a->bytes[i][0], a->bytes[i][0] + 8};
		for (unsigned k = 1; k <= ATTRIBUTES; k++)
			a->result[i][k] = cuPointerGetAttribute(a->bytes[i][k],
								(CUpointer_attribute)k, about[i]);
		a->result[i][0] = cuPointerGetAttributes(2, pair, out, about[i]);
		CUdeviceptr base = 0;
		size_t size = 0;
		a->result[i][ATTRIBUTES + 1] = cuMemGetAddressRange_v2(&base, &size, about[i]);
		memcpy(a->bytes[i][ATTRIBUTES + 1], &base, sizeof base);
		memcpy(a->bytes[i][ATTRIBUTES + 1] + 8, &size, sizeof size);
		a->result[i][ATTRIBUTES + 2] = cuMemAlloc_v2(i & 1 ? &base : NULL, i & 1 ? 0 : 100);
	}
}

static void questions_compare(void)
{
	static struct answers awake, asleep;
	unsigned answered = 0, differ = 0;
	CUdeviceptr about[ADDRESSES] = {blocks[3], blocks[3] + 5000, 0, (uintptr_t)&awake};
	MUST(cuMemAlloc_v2(&about[2], 100000));
	MUST(cuMemFree_v2(about[2]));
	questions_ask(&awake, about);
	self_sleep();
	questions_ask(&asleep, about);
	for (unsigned i = 0; i < ADDRESSES; i++)
		for (unsigned k = 0; k < ATTRIBUTES + 3; k++) {
			answered += awake.result[i][k] == CUDA_SUCCESS;
			if (awake.result[i][k] == asleep.result[i][k] &&
			    !memcmp(awake.bytes[i][k], asleep.bytes[i][k], ANSWER))
				continue;
			differ++;
			printf("question %u about address %u differs; ", k, i);
		}
	printf("%s, %u differ, %s\n", answered > 2 * 15 ? "answered" : "too few answers", differ,
	       is_awake() ? "awake" : "asleep");
}

/* --- a thread that submits --- */

static pthread_t submitter;
static atomic_bool submitting;
static atomic_ulong submitted;

static void *submit(void *context)
{
	CUstream own;
	CUdeviceptr at;
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc_v2(&at, 4096));
	while (atomic_load(&submitting)) {
		MUST(cuMemsetD8Async(at, 7, 4096, own));
		atomic_fetch_add(&submitted, 1);
	}
	return NULL; /* a free would wait for a stream that is held */
}

static void submit_begin(void)
{
	CUcontext context;
	MUST(cuCtxGetCurrent(&context));
	atomic_store(&submitting, true);
	if (pthread_create(&submitter, NULL, submit, context))
		exit(1);
	while (!atomic_load(&submitted))
		usleep(1000);
	puts("submits");
}

static void submit_end(void)
{
	atomic_store(&submitting, false);
	pthread_join(submitter, NULL);
	puts("quiet");
}

/* --- host memory --- */

static void host_use(unsigned mib)
{
	static char *used;
	static size_t size;
	if (size)
		munmap(used, size);
	size = mib * MIB;
	if (!size)
		return;
	used = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (used == MAP_FAILED)
		exit(1);
	memset(used, 1, size);
}

/* --- commands --- */

static void child_ask(void)
{
	CUdeviceptr p;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		say("child", cuMemAlloc_v2(&p, 1000));
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* Open as ibv_open_device does; the kernel lists the descriptor even if the device is absent. */
static void device_open(const char *path)
{
	static int fd = -1;
	if (fd >= 0)
		close(fd);
	fd = *path ? open(path, O_PATH | O_CLOEXEC) : -1;
	puts(!*path || fd >= 0 ? "done" : "cannot be opened");
}

static void peak_reach(void)
{
	size_t left, total;
	CUdeviceptr at;
	MUST(cuMemGetInfo_v2(&left, &total));
	CUresult result = cuMemAlloc_v2(&at, total / 10 * 6);
	if (result == CUDA_SUCCESS)
		MUST(cuMemFree_v2(at));
	say("peak", result);
}

static void idle_make(unsigned mib)
{
	CUdeviceptr at;
	MUST(cuMemAlloc_v2(&at, mib * MIB));
	MUST(cuMemFree_v2(at));
	puts("done");
}

static CUdeviceptr big;

/* Of 0 MiB: free the newest. */
static void big_make(unsigned mib)
{
	if (!mib) {
		MUST(cuMemFree_v2(big));
	} else {
		MUST(cuMemAlloc_v2(&big, mib * MIB));
		MUST(cuMemsetD8_v2(big, 3, mib * MIB));
		MUST(cuCtxSynchronize());
	}
	puts("done");
}

static void more_make(unsigned mib)
{
	CUdeviceptr at;
	say("cuMemAlloc_v2", cuMemAlloc_v2(&at, mib * MIB));
}

static void create(unsigned mib)
{
	CUmemGenericAllocationHandle handle;
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	say("create", cuMemCreate(&handle, mib * MIB, &prop, 0));
}

static void table_ask(void)
{
	static const CUuuid id;
	const void *table;
	CUresult (*ask)(const void **, const CUuuid *) =
		(CUresult(*)(const void **, const CUuuid *))dlsym(RTLD_DEFAULT, "cuGetExportTable");
	say("cuGetExportTable", ask(&table, &id));
}

static void block_pin(void)
{
	const unsigned on = 1;
	MUST(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, blocks[BLOCKS - 1]));
}

static void others_make(void)
{
	CUdeviceptr at;
	CUarray array;
	CUmemGenericAllocationHandle handle;
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = MIB, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	int descriptor;
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	MUST(cuMemAllocAsync(&at, 4 * MIB, stream));
	MUST(cuMemAllocManaged(&at, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	MUST(cuMemExportToShareableHandle(&descriptor, handle,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cuArrayCreate_v2(&array, &shape));
	block_pin();
	puts("made");
}

/* --- copies, and memory of other processes --- */

static void copy_both_ways(void)
{
	enum { SIZE = 24 * MIB };
	static unsigned char there[SIZE], back[SIZE];
	static unsigned seed;
	CUdeviceptr at;
	seed++;
	for (size_t i = 0; i < SIZE; i++)
		there[i] = (unsigned char)(i * 7 + i / 4096 + seed);
	MUST(cuMemAlloc_v2(&at, SIZE));
	MUST(cuMemcpyHtoD_v2(at, there, SIZE));
	MUST(cuMemcpyDtoH_v2(back, at, SIZE));
	MUST(cuMemFree_v2(at));
	puts(memcmp(there, back, SIZE) == 0 ? "right" : "wrong");
}

static void block_export(void)
{
	CUipcMemHandle handle;
	CUresult result = cuIpcGetMemHandle(&handle, blocks[BLOCKS - 1]);
	for (size_t i = 0; i < sizeof handle.reserved && result == CUDA_SUCCESS; i++)
		printf("%02x", (unsigned char)handle.reserved[i]);
	puts(result == CUDA_SUCCESS ? "" : result_name(result));
}

static CUdeviceptr attached;

static void block_import(const char *text, bool keep)
{
	static unsigned char host[8 * MIB];
	CUipcMemHandle handle = {.reserved = {0}};
	CUdeviceptr at;
	unsigned value, wrong = 0;
	for (size_t i = 0; i < sizeof handle.reserved && sscanf(text, "%2x", &value) == 1; i++) {
		handle.reserved[i] = (char)value;
		text += 2;
	}
	CUresult result = cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result != CUDA_SUCCESS) {
		puts(result_name(result));
		return;
	}
	MUST(cuMemcpyDtoH_v2(host, at, block_size(BLOCKS - 1)));
	if (keep)
		attached = at;
	else
		MUST(cuIpcCloseMemHandle(at));
	for (size_t i = 0; i < block_size(BLOCKS - 1); i++)
		wrong += host[i] != (unsigned char)(1 + BLOCKS - 1);
	puts(wrong ? "wrong" : "right");
}

static void command_obey(const char *command)
{
	CUgraph graph;
	CUfunction function;
	char call[64];
	unsigned nth;
	if (!strcmp(command, "where")) {
		puts(is_awake() ? "awake" : "asleep");
	} else if (!strcmp(command, "check")) {
		unsigned wrong = blocks_wrong();
		printf(wrong ? "%u wrong\n" : "right\n", wrong);
	} else if (!strcmp(command, "fill")) {
		byte += 50;
		for (unsigned i = 0; i < BLOCKS; i++)
			block_fill(i);
		puts("filled");
	} else if (!strcmp(command, "touch")) {
		SAY(cuMemsetD8_v2(blocks[0], byte, 1));
	} else if (!strcmp(command, "ask")) {
		puts(answer_stays() ? "the same" : "differs");
	} else if (!strcmp(command, "point")) {
		unsigned type = 0;
		MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, blocks[1]));
		puts(type == CU_MEMORYTYPE_DEVICE ? "device" : "other");
	} else if (!strcmp(command, "questions")) {
		questions_compare();
	} else if (!strcmp(command, "room")) {
		printf("%zu\n", available_now() / MIB);
	} else if (!strcmp(command, "full")) {
		CUdeviceptr at;
		for (size_t size = 64 * MIB; size >= 2 * MIB; size /= 2)
			while (cuMemAlloc_v2(&at, size) == CUDA_SUCCESS)
				;
		puts("full");
	} else if (!strcmp(command, "submit")) {
		submit_begin();
	} else if (!strcmp(command, "quiet")) {
		submit_end();
	} else if (sscanf(command, "host %u", &nth) == 1) {
		host_use(nth);
		puts("used");
	} else if (sscanf(command, "big %u", &nth) == 1) {
		big_make(nth);
	} else if (sscanf(command, "managed %u", &nth) == 1) {
		managed_make(nth);
	} else if (sscanf(command, "second %u", &nth) == 1) {
		second_make(nth);
	} else if (sscanf(command, "more %u", &nth) == 1) {
		more_make(nth);
	} else if (!strcmp(command, "free")) {
		for (unsigned i = 0; i < BLOCKS / 2; i++) {
			MUST(cuMemFree_v2(blocks[i]));
			blocks[i] = 0;
		}
		puts("freed");
	} else if (!strcmp(command, "take")) {
		blocks_make(BLOCKS / 2);
		puts("taken");
	} else if (!strcmp(command, "others")) {
		others_make();
	} else if (!strcmp(command, "capture")) {
		SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	} else if (!strcmp(command, "uncapture")) {
		SAY(cuStreamEndCapture(stream, &graph));
	} else if (!strcmp(command, "hold")) {
		gm_sim_hold(stream);
		SAY(cuMemsetD8Async(blocks[0], 1, 1, stream));
	} else if (!strcmp(command, "release")) {
		gm_sim_release(stream, (unsigned)-1);
		puts("released");
	} else if (!strcmp(command, "fork")) {
		child_ask();
	} else if (!strcmp(command, "exec")) {
		execlp("true", "true", NULL);
	} else if (!strcmp(command, "reset")) {
		SAY(cuDevicePrimaryCtxReset_v2(0));
	} else if (!strncmp(command, "open ", 5) || !strcmp(command, "close")) {
		device_open(*command == 'o' ? command + 5 : "");
	} else if (sscanf(command, "fail %63s %u", call, &nth) == 2) {
		gm_sim_fail(call, nth, nth ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
		puts("done");
	} else if (sscanf(command, "lack %u", &nth) == 1) {
		gm_sim_fail("cuMemCreate", nth, CUDA_ERROR_OUT_OF_MEMORY);
		puts("done");
	} else if (sscanf(command, "idle %u", &nth) == 1) {
		idle_make(nth);
	} else if (sscanf(command, "create %u", &nth) == 1) {
		create(nth);
	} else if (!strcmp(command, "copy")) {
		copy_both_ways();
	} else if (!strcmp(command, "export")) {
		block_export();
	} else if (!strncmp(command, "import ", 7)) {
		block_import(command + 7, false);
	} else if (!strncmp(command, "attach ", 7)) {
		block_import(command + 7, true);
	} else if (!strcmp(command, "detach")) {
		SAY(cuIpcCloseMemHandle(attached));
	} else if (!strcmp(command, "drop")) {
		SAY(cuMemFree_v2(blocks[BLOCKS - 1]));
		blocks[BLOCKS - 1] = 0;
	} else if (!strcmp(command, "shutall")) {
		say("syscall",
		    syscall(SYS_close_range, 3, ~0U, 0) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
	} else if (!strcmp(command, "pin")) {
		block_pin();
		puts("pinned");
	} else if (!strcmp(command, "peak")) {
		peak_reach();
	} else if (!strncmp(command, "load ", 5)) {
		puts(dlopen(command + 5, RTLD_NOW) ? "done" : dlerror());
	} else if (!strcmp(command, "nccl")) {
		say("kernel", cuModuleGetFunction(&function, NULL, "_Z21ncclDevKernel_Generic24"));
	} else if (sscanf(command, "entry %63s", call) == 1) {
		puts(dlsym(RTLD_DEFAULT, call) ? "found" : "none");
	} else if (sscanf(command, "proc %63s", call) == 1) {
		void *entry = NULL;
		int version;
		MUST(cuDriverGetVersion(&version)); /* a later one is refused */
		CUresult result = cuGetProcAddress(call, &entry, version, 0, NULL);
		puts(result == CUDA_SUCCESS && entry ? "found" : "none");
	} else if (!strcmp(command, "table")) {
		table_ask();
	} else if (!strncmp(command, "calls ", 6)) {
		call_all(command + 6);
	} else {
		const char *answer = private_obey(command);
		puts(answer ? answer : "no such command");
	}
	fflush(stdout);
}

static void fault_end(int signal)
{
	(void)signal;
	_exit(1);
}

int main(void)
{
	char line[4200];
	if (getenv("HANDLED"))
		signal(SIGSEGV, fault_end);
	MUST(cuInit(0));
	use_device(0);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	blocks_make(BLOCKS);
	available = available_now();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		command_obey(line);
	}
	return 0;
}
