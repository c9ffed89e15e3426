/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda-checkpoint's calls on a process, as its tool makes them: lock, checkpoint, restore, unlock.
 *
 *     parent   makes the calls
 *     client   has blocks, memory of kernels, a graph; checks them after each restore, and goes on
 *     taker    takes the device's memory while the client is away, so that a restore lacks memory
 */
#include "gpu.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 40, NODES = 4096 };

struct Shared {
	std::atomic<int> client, asked, taken, given_back;
};
static Shared *shared;

__device__ int *nodes[NODES];
__device__ unsigned long long nodes_wrong;

__global__ void nodes_make(int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n && (nodes[i] = (int *)malloc(64)))
		for (int k = 0; k < 16; k++)
			nodes[i][k] = i + k;
}

__global__ void nodes_check(int n, bool free_them)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	for (int k = 0; k < 16; k++)
		if (!nodes[i] || nodes[i][k] != i + k)
			atomicAdd(&nodes_wrong, 1ull);
	if (free_them)
		free(nodes[i]);
}

#define PATIENCE 60000 /* ms */

static void wait_for(std::atomic<int> &word, int value)
{
	for (int i = 0; word.load() < value; i++) {
		if (i == PATIENCE) {
			printf("no answer within %d s\n", PATIENCE / 1000);
			_exit(4);
		}
		usleep(1000);
	}
}

/* --- client --- */

struct Block {
	uint32_t *at;
	size_t words;
	uint32_t tag;
};

static Block block_make(Random &random, uint32_t tag)
{
	Block b = {NULL, 64 + random.below(tag % 4 ? 1 << 18 : 64 << 20), tag};
	MUST(cudaMalloc(&b.at, b.words * 4));
	fill<<<64, 256>>>(b.at, b.words, tag);
	return b;
}

static void client_check(Block *blocks, int turn, cudaGraphExec_t graph, uint32_t *drawn,
			 size_t words)
{
	unsigned long long *bad, wrong, in_kernels;
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMemset(bad, 0, sizeof *bad));
	for (int i = 0; i < BLOCKS; i++)
		verify<<<64, 256>>>(blocks[i].at, blocks[i].words, blocks[i].tag, bad);
	MUST(cudaMemset(drawn, 0, words * 4));
	MUST(cudaGraphLaunch(graph, 0));
	verify<<<64, 256>>>(drawn, words, 99, bad);
	if (words) /* else they were freed */
		nodes_check<<<NODES / 256, 256>>>(NODES, false);
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	MUST(cudaMemcpyFromSymbol(&in_kernels, nodes_wrong, sizeof in_kernels));
	MUST(cudaFree(bad));
	printf("client, turn %d: %llu words of blocks wrong, %llu of kernels\n", turn, wrong,
	       in_kernels);
	fflush(stdout);
}

static void client_run()
{
	Random random = {7};
	Block blocks[BLOCKS];
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	uint32_t *drawn;
	size_t words = 100000;
	for (uint32_t i = 0; i < BLOCKS; i++)
		blocks[i] = block_make(random, i);
	MUST(cudaMalloc(&drawn, words * 4));
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	fill<<<64, 256, 0, stream>>>(drawn, words, 99);
	MUST(cudaStreamEndCapture(stream, &graph));
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	nodes_make<<<NODES / 256, 256>>>(NODES);
	MUST(cudaDeviceSynchronize());
	for (int turn = 1; turn <= 3; turn++) {
		shared->client.store(turn);
		wait_for(shared->asked, turn);
		client_check(blocks, turn, exec, drawn, words);
		for (uint32_t i = (uint32_t)turn; i < BLOCKS;
		     i += 3) { /* memory comes and goes as before */
			MUST(cudaFree(blocks[i].at));
			blocks[i] = block_make(random, i + 100 * (uint32_t)turn);
		}
		MUST(cudaDeviceSynchronize());
	}
	nodes_check<<<NODES / 256, 256>>>(NODES, true);
	MUST(cudaDeviceSynchronize());
	client_check(blocks, 4, exec, drawn, 0);
}

/* --- taker --- */

static void taker_run()
{
	std::vector<void *> all;
	wait_for(shared->taken, 1);
	for (size_t size = (size_t)1 << 30; size >= (size_t)2 << 20; size /= 2) {
		void *p;
		while (cudaMalloc(&p, size) == cudaSuccess)
			all.push_back(p);
		cudaGetLastError();
	}
	shared->taken.store(2);
	wait_for(shared->given_back, 1);
	for (void *p : all)
		MUST(cudaFree(p));
	_exit(0); /* a pool may keep memory until the process ends */
}

/* --- parent --- */

static pid_t child(void (*body)())
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		body();
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

static CUprocessState state_show(pid_t pid)
{
	CUprocessState state = (CUprocessState)-1;
	int result = cuCheckpointProcessGetState(pid, &state);
	printf("state: %d, %d\n", result, (int)state);
	return state;
}

static void away(pid_t pid)
{
	CUcheckpointLockArgs lock = {10000};
	state_show(pid);
	SHOW(cuCheckpointProcessLock(pid, &lock));
	state_show(pid);
	SHOW(cuCheckpointProcessCheckpoint(pid, NULL));
	state_show(pid);
}

/* The driver may take a while to have memory that another process has given back. A client that
 * cannot come back is killed: it would wait for ever. */
static void back(pid_t pid)
{
	int result = cuCheckpointProcessRestore(pid, NULL);
	for (int i = 0; i < 50 && result; i++) {
		usleep(100000);
		result = cuCheckpointProcessRestore(pid, NULL);
	}
	printf("restored: %d\n", result);
	state_show(pid);
	SHOW(cuCheckpointProcessUnlock(pid, NULL));
	if (state_show(pid) != CU_PROCESS_STATE_RUNNING)
		kill(pid, SIGKILL);
}

int main()
{
	int status;
	void *p;
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = (Shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t client = child(client_run), taker = child(taker_run);
	MUST(cudaMalloc(&p, 1 << 20));
	wait_for(shared->client, 1);
	printf("locked and unlocked\n");
	CUcheckpointLockArgs lock = {10000};
	SHOW(cuCheckpointProcessLock(client, &lock));
	SHOW(cuCheckpointProcessUnlock(client, NULL));
	shared->asked.store(1);
	wait_for(shared->client, 2);
	printf("checkpoint and restore\n");
	away(client);
	back(client);
	shared->asked.store(2);
	wait_for(shared->client, 3);
	printf("a restore that lacks memory\n");
	away(client);
	shared->taken.store(1);
	wait_for(shared->taken, 2);
	SHOW(cuCheckpointProcessRestore(client, NULL));
	state_show(client);
	shared->given_back.store(1);
	waitpid(taker, &status, 0);
	printf("taker ended with %d\n", status);
	back(client);
	shared->asked.store(3);
	waitpid(client, &status, 0);
	printf("client ended with %d\n", status);
	MUST(cudaFree(p));
	return 0;
}
