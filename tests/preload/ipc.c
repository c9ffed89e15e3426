/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes share memory by cuIpcGetMemHandle: `ipc SCENE`. An exporter and an importer take
 * turns, so that their output has a fixed order. Each variable names a role, exporter or importer:
 * IPC_PLAIN runs it without the preload, IPC_USER as another user, IPC_NET in another network
 * namespace. IPC_FAIL names a driver call; call number IPC_FAIL_AT of the importer fails. Status
 * 77: impossible here.
 */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "ipc_turns.h"
#include "steer.h"

/* newer toolkits rename this call */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static const char *role;

/* --- every size; both write; references --- */

static const size_t sizes[] = {100, 5000, 70000, MIB, 3 * MIB, 5 * MIB + 4, 40 * MIB, 140 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void bytes_export(void)
{
	for (unsigned i = 0; i < SIZES; i++) {
		CUdeviceptr before, p; /* moves the shared block away from the begin of its chunk */
		MUST(cuMemAlloc(&before, sizes[i] < MIB ? sizes[i] : 3 * MIB));
		p = share(sizes[i], i);
		await_turn();
		printf("%zu bytes: written by the other: %d\n", sizes[i],
		       is_filled(p, sizes[i], i + 100));
		MUST(cuMemFree(p));
		MUST(cuMemFree(before));
		pass_turn();
	}
}

static void bytes_import(void)
{
	for (unsigned i = 0; i < SIZES; i++) {
		struct block b;
		CUdeviceptr p = get(&b), again = 0, base = 0;
		size_t size = 0;
		printf("read: %d\n", is_filled(p, b.size, b.seed));
		MUST(OPEN(&again, b.handle));
		printf("opened again, the same: %d\n", again == p);
		MUST(cuMemGetAddressRange(&base, &size, p + b.size / 2));
		printf("its range: %d\n", base == p && size == b.size);
		MUST(cuIpcCloseMemHandle(p));
		fill(p, b.size, b.seed + 100);
		SAY(cuIpcCloseMemHandle(p));
		SAY(cuIpcCloseMemHandle(p));
		pass_turn();
		await_turn();
	}
}

/* --- wrong calls --- */

static void wrong_export(void)
{
	CUipcMemHandle handle, interior;
	CUdeviceptr p, q;
	memset(&handle, 0, sizeof handle);
	MUST(cuMemAlloc(&p, 4 * MIB));
	SAY(cuIpcGetMemHandle(NULL, p));
	MUST(cuIpcGetMemHandle(&handle, p));
	SAY(cuIpcGetMemHandle(&interior, p + MIB));
	printf("a handle of an interior address is the block's: %d\n",
	       memcmp(&handle, &interior, sizeof handle) == 0);
	SAY(OPEN(&q, handle));
	tell(&handle, sizeof handle);
	await_turn();
	MUST(cuMemFree(p));
	SAY(cuIpcGetMemHandle(&handle, p));
	MUST(cuCtxSetCurrent(NULL));
	SAY(cuIpcGetMemHandle(&handle, p));
	pass_turn();
}

static void wrong_import(void)
{
	CUipcMemHandle handle, garbage;
	CUdeviceptr p = 0, own, q = 0;
	memset(&garbage, 0x5a, sizeof garbage);
	hear(&handle, sizeof handle);
	SAY(cuIpcOpenMemHandle(&p, handle, 0));
	SAY(OPEN(NULL, handle));
	SAY(OPEN(&p, garbage));
	printf("written: %d\n", p != 0);
	MUST(OPEN(&p, handle));
	SAY(cuMemFree(p));
	SAY(cuIpcCloseMemHandle(p + 512));
	MUST(cuMemAlloc(&own, MIB));
	SAY(cuIpcCloseMemHandle(own));
	SAY(cuIpcCloseMemHandle(0));
	pass_turn();
	await_turn();
	printf("freed by the exporter, still there: %d\n", cuMemcpyDtoH(&q, p, sizeof q));
	SAY(cuIpcCloseMemHandle(p));
	SAY(OPEN(&q, handle));
	MUST(cuCtxSetCurrent(NULL));
	SAY(OPEN(&q, handle));
}

/* --- as PyTorch shares tensors: segments, offsets, one open a segment --- */

enum { SEGMENTS = 2, TENSORS = 12, TENSOR = 1500 * 512 };

struct tensor {
	CUipcMemHandle handle;
	size_t offset;
	unsigned seed;
};

static void tensors_export(void)
{
	CUdeviceptr segments[SEGMENTS];
	for (unsigned i = 0; i < SEGMENTS; i++)
		MUST(cuMemAlloc(&segments[i], 20 * MIB));
	for (unsigned i = 0; i < TENSORS; i++) {
		CUdeviceptr base, p = segments[i % SEGMENTS] + (i / SEGMENTS) * TENSOR;
		struct tensor t = {.seed = i};
		size_t size;
		fill(p, TENSOR, i);
		MUST(cuMemGetAddressRange(&base, &size, p));
		MUST(cuIpcGetMemHandle(&t.handle, base));
		t.offset = p - base;
		tell(&t, sizeof t);
	}
	await_turn();
	for (unsigned i = 0; i < SEGMENTS; i++)
		MUST(cuMemFree(segments[i]));
}

static void tensors_import(void)
{
	CUipcMemHandle known[TENSORS];
	CUdeviceptr bases[TENSORS];
	unsigned n = 0, right = 0;
	for (unsigned i = 0; i < TENSORS; i++) {
		struct tensor t;
		unsigned k = 0;
		hear(&t, sizeof t);
		while (k < n && memcmp(&known[k], &t.handle, sizeof t.handle) != 0)
			k++;
		if (k == n) {
			known[n] = t.handle;
			MUST(OPEN(&bases[n++], t.handle));
		}
		right += is_filled(bases[k] + t.offset, TENSOR, t.seed);
	}
	printf("%u handles, %u tensors right\n", n, right);
	for (unsigned i = 0; i < n; i++)
		MUST(cuIpcCloseMemHandle(bases[i]));
	pass_turn();
}

/* --- ends --- */

static void exit_export(void)
{
	share(MIB, 1);
	share(30 * MIB, 2);
	share(4 * MIB, 3);
	await_turn();
}

static void exit_import(void)
{
	struct block b, c, d;
	CUdeviceptr p = get(&b), q = get(&c), r;
	char byte;
	hear(&d, sizeof d);
	pass_turn();
	printf("it has ended: %d\n", !hears(&byte, 1));
	printf("its memory: %d %d\n", is_filled(p, b.size, 1), is_filled(q, c.size, 2));
	SAY(OPEN(&r, d.handle));
	SAY(OPEN(&r, b.handle)); /* b is already open here */
	MUST(cuIpcCloseMemHandle(r));
	MUST(cuIpcCloseMemHandle(p));
	SAY(OPEN(&r, b.handle));
	SAY(cuIpcCloseMemHandle(q));
}

/* Exporters are killed at any moment: opens succeed or fail as natively, and no process hangs. */
static void killed_export(void)
{
	pid_t me = getpid();
	tell(&me, sizeof me);
	for (unsigned i = 0;; i++) {
		CUdeviceptr p = share((i % 3 + 1) * MIB, i);
		await_turn();
		MUST(cuMemFree(p));
	}
}

static unsigned pause_of(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 16 & 1023;
}

static void killed_import(void)
{
	struct block b;
	pid_t exporter, killer;
	unsigned seed = (unsigned)getpid(), wrong = 0;
	hear(&exporter, sizeof exporter);
	fflush(stdout);
	if ((killer = fork()) == 0) {
		for (unsigned i = 0; i < 20; i++)
			usleep(pause_of(&seed));
		kill(exporter, SIGKILL);
		_exit(0);
	}
	while (hears(&b, sizeof b)) {
		CUdeviceptr p;
		CUresult result = OPEN(&p, b.handle);
		if (result == CUDA_SUCCESS)
			cuIpcCloseMemHandle(p);
		wrong += result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_HANDLE;
		if (write(to_other, "", 1) != 1)
			break;
	}
	waitpid(killer, NULL, 0);
	printf("wrong answers: %u\n", wrong);
}

/* An importer is killed with memory open. */
static void dead_export(void)
{
	struct block b;
	pid_t importer;
	CUdeviceptr p = share(3 * MIB, 5);
	hear(&importer, sizeof importer);
	kill(importer, SIGKILL);
	printf("it has ended: %d\n", !hears(&b, sizeof b));
	printf("the memory: %d\n", is_filled(p, 3 * MIB, 5));
	SAY(cuMemFree(p));
}

static void dead_import(void)
{
	struct block b;
	pid_t me = getpid();
	get(&b);
	tell(&me, sizeof me);
	for (;;)
		pause();
}

/* --- forks of either side --- */

static void forks_export(void)
{
	int status;
	pid_t child;
	share(2 * MIB, 6);
	await_turn();
	if ((child = fork()) == 0)
		_exit(cuInit(0) == CUDA_SUCCESS);
	waitpid(child, &status, 0);
	printf("exporter's child: %d\n", status);
	share(2 * MIB, 7);
	await_turn();
	fflush(stdout);
	if (fork() == 0) { /* outlives its parent, and must not answer for it */
		char byte;
		close(to_other);
		_exit(read(from_other, &byte, 1) != 0);
	}
}

static void forks_import(void)
{
	struct block b, c;
	char byte;
	int status;
	pid_t child;
	CUdeviceptr p = get(&b);
	if ((child = fork()) == 0) {
		close(to_other);
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("after a fork: %d, %d\n", status, is_filled(p, b.size, b.seed));
	pass_turn();
	hear(&c, sizeof c);
	MUST(cuIpcCloseMemHandle(p));
	p = 0;
	SAY(OPEN(&p, c.handle));
	printf("of a process that has forked: %d\n", is_filled(p, c.size, c.seed));
	MUST(cuIpcCloseMemHandle(p));
	pass_turn();
	printf("it has ended: %d\n", !hears(&byte, 1));
	SAY(OPEN(&p, c.handle));
}

/* --- contexts and resets --- */

static void reset_export(void)
{
	CUdevice device;
	CUcontext context = use_device(0);
	MUST(cuCtxGetDevice(&device));
	share(2 * MIB, 8);
	share(200, 9);
	await_turn();
	MUST(cuDevicePrimaryCtxReset(device));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	pass_turn();
	await_turn();
	share(2 * MIB, 10);
	await_turn();
}

static void reset_import(void)
{
	CUdevice device;
	CUcontext first, second;
	struct block b, c;
	size_t size;
	CUdeviceptr p = get(&b), q;
	MUST(cuCtxGetCurrent(&first));
	MUST(cuCtxGetDevice(&device));
	hear(&c, sizeof c);
	pass_turn();
	await_turn();
	SAY(OPEN(&q, c.handle));
	pass_turn();
	p = get(&b);
	MUST(cuCtxCreate_v2(&second, 0, device));
	SAY(cuIpcCloseMemHandle(p));
	MUST(OPEN(&q, b.handle));
	printf("each context has its own: %d, %d\n", p != q, is_filled(q, b.size, b.seed));
	MUST(cuCtxDestroy(second));
	MUST(cuCtxSetCurrent(first));
	SAY(cuMemGetAddressRange(NULL, &size, q));
	printf("the first's: %d\n", is_filled(p, b.size, b.seed));
	MUST(cuDevicePrimaryCtxReset(device));
	MUST(cuDevicePrimaryCtxRetain(&first, device));
	MUST(cuCtxSetCurrent(first));
	SAY(cuMemGetAddressRange(NULL, &size, p));
	SAY(cuIpcCloseMemHandle(p));
	MUST(OPEN(&p, b.handle));
	printf("after a reset: %d\n", is_filled(p, b.size, b.seed));
	pass_turn();
}

/* --- one block; the output depends on the side without the preload --- */

static void one_export(void)
{
	struct block b = {.size = 0};
	const char *size = getenv("IPC_SIZE");
	CUdeviceptr p;
	b.size = size ? strtoul(size, NULL, 0) : 4 * MIB;
	MUST(cuMemAlloc(&p, b.size));
	fill(p, b.size, 11);
	if (SAY(cuIpcGetMemHandle(&b.handle, p)) != CUDA_SUCCESS)
		return;
	tell(&b, sizeof b);
	await_turn();
}

static void one_import(void)
{
	struct block b;
	CUdeviceptr p = 0;
	if (!hears(&b, sizeof b))
		return;
	if (getenv("IPC_FAIL"))
		gm_sim_fail(getenv("IPC_FAIL"), (unsigned)atoi(getenv("IPC_FAIL_AT")),
			    CUDA_ERROR_UNKNOWN);
	if (SAY(OPEN(&p, b.handle)) == CUDA_SUCCESS)
		printf("read: %d\n", is_filled(p, b.size, 11));
	cuIpcCloseMemHandle(p);
	pass_turn();
}

static void says_node(const char *when)
{
	printf("%s: %u threads, %u sockets\n", when, count_threads("gpumem-node"), count_sockets());
	fflush(stdout);
}

/* The node closes a guest's connection after the guest has closed it. */
static void await_guests_end(void)
{
	for (unsigned tries = 0; tries < 10000 && count_sockets() > 1; tries++)
		usleep(1000);
}

static void node_export(void)
{
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, 4 * MIB));
	fill(p, 4 * MIB, 0);
	says_node("nothing exported");
	MUST(cuMemFree(p));
	p = share(MIB, 12);
	share(MIB, 13);
	await_turn();
	await_guests_end();
	says_node("opened by another");
	MUST(cuMemFree(p));
}

static void node_import(void)
{
	struct block b, c;
	get(&b);
	get(&c);
	says_node("the other");
	pass_turn();
}

/* Small blocks leave idle memory behind, which counts for GPUMEM_LIMIT until it is returned. */
static void idle_export(void)
{
	CUdeviceptr small[20], p;
	for (unsigned i = 0; i < 20; i++)
		MUST(cuMemAlloc(&small[i], 700000));
	for (unsigned i = 0; i < 20; i++)
		MUST(cuMemFree(small[i]));
	SAY(cuMemAlloc(&p, 8 * MIB));
	SAY(cuMemAlloc(&p, 8 * MIB));
}

/* Memory of the pool that is in use counts beside what the driver has served. */
static void live_export(void)
{
	CUdeviceptr p;
	for (unsigned i = 0; i < 20; i++)
		MUST(cuMemAlloc(&p, 700000));
	SAY(cuMemAlloc(&p, 4 * MIB));
	SAY(cuMemAlloc(&p, 4 * MIB));
}

static void no_import(void)
{
}

/* The same in a context of the other device, whose kernels and copies reach the block. */
static void elsewhere_import(void)
{
	struct block b;
	unsigned access = 0;
	CUdeviceptr own;
	use_device(1);
	CUdeviceptr p = get(&b);
	MUST(cuMemAlloc(&own, b.size));
	SAY(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
	printf("it reads and writes: %d\n", access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	SAY(cuMemcpyDtoD(own, p, b.size));
	printf("copied: %d\n", is_filled(own, b.size, 11));
	fill(own, b.size, 12);
	SAY(cuMemcpyDtoD(p, own, b.size));
	printf("and back: %d\n", is_filled(p, b.size, 12));
	SAY(cuIpcCloseMemHandle(p));
	pass_turn();
}

/* The same while a capture is open in the importer, where it cannot wait for its work. */
static void capture_import(void)
{
	struct block b;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr p = get(&b);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuIpcCloseMemHandle(p));
	printf("read: %d\n", is_filled(p, b.size, 11)); /* still mapped */
	SAY(cuStreamEndCapture(stream, &graph));
	SAY(OPEN(&p, b.handle));
	SAY(cuIpcCloseMemHandle(p));
	pass_turn();
}

/* --- roles --- */

static const struct {
	const char *name;
	void (*exporter)(void), (*importer)(void);
} scenes[] = {
	{"bytes", bytes_export, bytes_import},
	{"wrong", wrong_export, wrong_import},
	{"tensors", tensors_export, tensors_import},
	{"exit", exit_export, exit_import},
	{"killed", killed_export, killed_import},
	{"dead", dead_export, dead_import},
	{"forks", forks_export, forks_import},
	{"reset", reset_export, reset_import},
	{"one", one_export, one_import},
	{"idle", idle_export, no_import},
	{"live", live_export, no_import},
	{"elsewhere", one_export, elsewhere_import},
	{"node", node_export, node_import},
	{"capture", one_export, capture_import},
};

static int play(const char *scene, bool exports)
{
	MUST(cuInit(0));
	use_device(0);
	for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
		if (strcmp(scenes[i].name, scene) == 0)
			exports ? scenes[i].exporter() : scenes[i].importer();
	return 0;
}

/* Start again without the preload. A sanitizer's runtime has to stay. */
static void play_plain(char **argv)
{
	char text[2][16];
	const char *sanitizer = getenv("SANITIZE_LIB");
	if (sanitizer && *sanitizer)
		setenv("LD_PRELOAD", sanitizer, 1);
	else
		unsetenv("LD_PRELOAD");
	snprintf(text[0], sizeof text[0], "%d", from_other);
	snprintf(text[1], sizeof text[1], "%d", to_other);
	execl(argv[0], argv[0], argv[1], role, text[0], text[1], (char *)NULL);
	exit(4);
}

static bool is_role(const char *variable)
{
	const char *value = getenv(variable);
	return value && strcmp(value, role) == 0;
}

static pid_t start(char **argv, const char *name, int pipes[2][2], int in)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid)
		return pid;
	role = name;
	from_other = pipes[in][0];
	to_other = pipes[!in][1];
	close(pipes[in][1]);
	close(pipes[!in][0]);
	if (is_role("IPC_USER") && setresuid(65534, 65534, 65534))
		exit(77);
	if (is_role("IPC_NET") && unshare(CLONE_NEWNET))
		exit(77);
	if (is_role("IPC_PLAIN"))
		play_plain(argv);
	exit(play(argv[1], in == 0));
}

/* Some scenes kill a child on purpose. */
static int status_failed(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1;
}

int main(int argc, char **argv)
{
	int pipes[2][2], status, failed = 0;
	signal(SIGPIPE, SIG_IGN);
	if (argc == 5) {
		role = argv[2];
		from_other = atoi(argv[3]);
		to_other = atoi(argv[4]);
		return play(argv[1], strcmp(role, "exporter") == 0);
	}
	if (argc != 2 || pipe(pipes[0]) || pipe(pipes[1]))
		return 2;
	pid_t exporter = start(argv, "exporter", pipes, 0);
	pid_t importer = start(argv, "importer", pipes, 1);
	for (int i = 0; i < 2; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	waitpid(exporter, &status, 0);
	failed = status_failed(status);
	waitpid(importer, &status, 0);
	return status_failed(status) ? status_failed(status) : failed;
}
