/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What works on a chunk of host memory between two chunks of device memory, beyond what mapping.cu
 * shows; run natively. Usage: hostchunk [MIB]... A line is a case: chunk_MiB; case; us; GB/s or -;
 * right | WRONG | refused: NAME | faults; notes. A chunk of device memory in its place says what is
 * right. Each size has a process of its own, and another one after a case that ends it.
 */
#include <cstring>

#include "hostchunk.h"
#include "hostchunk_calls.h"
#include "hostchunk_reach.h"

enum { ALONE = 1, TWO = 2 }; /* the case checks itself; it needs two devices */

struct Case {
	const char *name;
	const char *(*op)(Work &w);
	int flags;
};

#define SCOPES(name, ...)                                         \
	{name ", _block", atomics<__VA_ARGS__, BLOCK>, 0},        \
		{name, atomics<__VA_ARGS__, DEVICE>, 0},          \
	{                                                         \
		name ", _system", atomics<__VA_ARGS__, SYSTEM>, 0 \
	}

/* Those that may fault come last; those before them that change the access of the chunk. */
static const Case cases[] = {
	SCOPES("atomicAdd 32", Add<uint32_t>),
	SCOPES("atomicAdd 64", Add<Wide>),
	SCOPES("atomicAdd 32, returned", Fetch<uint32_t>),
	SCOPES("atomicAdd 64, returned", Fetch<Wide>),
	SCOPES("atomicCAS 32", Cas<uint32_t>),
	SCOPES("atomicCAS 64", Cas<Wide>),
	SCOPES("atomicExch 32", Exchange<uint32_t>),
	SCOPES("atomicExch 64", Exchange<Wide>),
	SCOPES("atomicMin 32", Least<uint32_t>),
	SCOPES("atomicMin 64", Least<Wide>),
	SCOPES("atomicMax 32", Most<uint32_t>),
	SCOPES("atomicMax 64", Most<Wide>),
	SCOPES("atomicAdd float", Real<float>),
	SCOPES("atomicAdd double", Real<double>),
	{"cudaMemsetAsync", memset_bytes, 0},
	{"cuMemsetD16Async", memset_halves, 0},
	{"cuMemsetD32Async, all three", memset_words, 0},
	{"cudaMemset2DAsync", memset_rows, 0},
	{"D2D, over both borders", copy_over_borders, 0},
	{"D2D, over both borders, back", copy_over_borders_back, 0},
	{"D2D, inside the chunk", copy_inside, 0},
	{"2D copy, device to chunk", copy_rows, 0},
	{"copy to pageable memory", copy_to<PAGEABLE>, 0},
	{"copy from pageable memory", copy_from<PAGEABLE>, 0},
	{"copy to pinned memory", copy_to<PINNED>, 0},
	{"copy from pinned memory", copy_from<PINNED>, 0},
	{"copy to managed memory", copy_to<MANAGED>, 0},
	{"copy from managed memory", copy_from<MANAGED>, 0},
	{"kernel: managed to chunk", managed_to_chunk, 0},
	{"kernel: chunk to managed", chunk_to_managed, 0},
	{"cublasSgemm", gemm<float>, 0},
	{"cublasDgemm", gemm<double>, 0},
	{"cublasGemmEx bf16", gemm<__nv_bfloat16>, 0},
	{"cublasLtMatmul bf16, bias", lt_matmul, 0},
	{"cooperative launch", cooperative, 0},
	{"graph: memset, kernel, copies", graph_nodes, 0},
	{"cudaPointerGetAttributes", attributes, ALONE},
	{"cuMemPrefetchAsync to device", prefetch<CU_MEM_LOCATION_TYPE_DEVICE>, ALONE},
	{"cuMemPrefetchAsync to host", prefetch<CU_MEM_LOCATION_TYPE_HOST>, ALONE},
	{"cuMemAdvise read mostly", advise<CU_MEM_ADVISE_SET_READ_MOSTLY>, ALONE},
	{"cuMemAdvise location", advise<CU_MEM_ADVISE_SET_PREFERRED_LOCATION>, ALONE},
	{"cuMemAdvise accessed by", advise<CU_MEM_ADVISE_SET_ACCESSED_BY>, ALONE},
	{"cudaHostRegister", host_register, ALONE},
	{"cuIpcGetMemHandle", legacy_ipc, ALONE},
	{"IPC by descriptor", ipc, 0},
	{"peer: access for both", peer_access, TWO | ALONE},
	{"peer: its kernel reads", peer_reads, TWO},
	{"peer: its kernel writes", peer_writes, TWO},
	{"peer: its kernel, atomics", peer_atomics, TWO},
	{"cuMemcpyPeer from the chunk", copy_to_peer, TWO},
	{"cuMemcpyPeer to the chunk", copy_from_peer, TWO},
	{"CPU load, no access set", cpu_load, ALONE},
	{"CPU store, no access set", cpu_store, ALONE},
	{"cuMemSetAccess for the host", host_access, ALONE},
	{"CPU: first touch of all pages", cpu_touch, ALONE},
	{"CPU load of the chunk", cpu_load_all, ALONE},
	{"CPU store to the chunk", cpu_store_all, ALONE},
	SCOPES("atomicAdd half2", Half2),
	SCOPES("atomicAdd bf162", Bf162),
	{"texture, linear", linear_texture, 0},
	{"texture, pitched", pitched_texture, 0},
	{"cp.async", shared_copy, 0},
	{"cp.async.bulk in", bulk_copy_in, 0},
	{"cp.async.bulk out", bulk_copy_out, 0},
	SCOPES("red.v4.f32", Four),
	{"cp.reduce.async.bulk add.u32", bulk_reduce<ADD_U32>, 0},
	{"cp.reduce.async.bulk add.u64", bulk_reduce<ADD_U64>, 0},
	{"cp.reduce.async.bulk min.u32", bulk_reduce<MIN_U32>, 0},
	{"cp.reduce.async.bulk add.f32", bulk_reduce<ADD_F32>, 0},
	{"cp.reduce.async.bulk add.bf16", bulk_reduce<ADD_BF16>, 0},
};
enum { CASES = sizeof cases / sizeof *cases, SECONDS = 10 };

static void row(size_t chunk, const char *name, const Work *w, const char *verdict,
		const std::string &notes)
{
	char us[32] = "-", speed[32] = "-";
	if (w && w->us >= 0)
		snprintf(us, sizeof us, "%.1f", w->us);
	if (w && w->us > 0 && w->moved)
		snprintf(speed, sizeof speed, "%.2f", w->moved / w->us / 1e3);
	printf("%zu; %s; %s; %s; %s%s%s\n", chunk / MIB, name, us, speed, verdict,
	       notes.empty() ? "" : "; ", notes.c_str());
	fflush(stdout);
}

/* An error after which a context is of no use: it may be the other device's. */
static bool is_fault(const char *error)
{
	for (const char *name :
	     {"CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED",
	      "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	      "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_HARDWARE_STACK_ERROR",
	      "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_LAUNCH_TIMEOUT"})
		if (!strcmp(error, name))
			return true;
	return false;
}

/* What a case returns is a verdict, or the name of an error. */
static std::string verdict(const char *error)
{
	if (!error)
		return "right";
	if (!strcmp(error, "WRONG") || !strcmp(error, "faults"))
		return error;
	return std::string("refused: ") + error;
}

static __global__ void differ(const uint32_t *a, const uint32_t *b, uint64_t words, Wide *count)
{
	unsigned here = 0;
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		here += a[i] != b[i];
	if (here)
		atomicAdd(count, (Wide)here);
}

/* Counts of words: [0] that the two differ in, [1] that the case changed in the first. */
static const char *compare(const Work &a, const Work &b, Wide *counts, Wide (&found)[2])
{
	size_t all = 3 * a.chunk / 4, one = a.chunk / 4;
	TRY(cudaMemset(counts, 0, sizeof found));
	differ<<<FLAT, THREADS>>>((uint32_t *)a.all, (uint32_t *)b.all, all, counts);
	differ<<<FLAT, THREADS>>>((uint32_t *)a.out, (uint32_t *)b.out, one, counts);
	verify<<<FLAT, THREADS>>>((uint32_t *)a.all, all, FILLED, counts + 1);
	verify<<<FLAT, THREADS>>>((uint32_t *)a.out, one, OUT_FILLED, counts + 1);
	TRY(cudaMemcpy(found, counts, sizeof found, cudaMemcpyDeviceToHost));
	return NULL;
}

static const char *apply(const Case &c, Work &w)
{
	w.us = -1;
	w.moved = 0;
	w.note[0] = '\0';
	fill<<<FLAT, THREADS>>>((uint32_t *)w.all, 3 * w.chunk / 4, FILLED);
	fill<<<FLAT, THREADS>>>((uint32_t *)w.out, w.chunk / 4, OUT_FILLED);
	TRY(cudaDeviceSynchronize());
	const char *error = c.op(w);
	if (error)
		w.us = -1;
	return error;
}

/* Prints the row of a case. False: an error of the device stays; another process must go on. */
static bool one_case(const Case &c, Work &device, Work &host, Wide *counts)
{
	const char *expected = apply(c, device), *broken = error_name(cudaDeviceSynchronize());
	std::string notes = "device memory: ";
	if (broken) {
		row(host.chunk, c.name, NULL, "faults",
		    std::string("device memory, too: ") + broken);
		return false;
	}
	char us[40];
	snprintf(us, sizeof us, "%.1f us", device.us);
	notes += expected || device.us < 0 ? verdict(expected) : std::string(us);
	if (device.note[0])
		notes += std::string(", ") + device.note;
	const char *error = apply(c, host);
	broken = error_name(cudaDeviceSynchronize());
	if (host.note[0])
		notes = std::string(host.note) + "; " + notes;
	if (broken) {
		row(host.chunk, c.name, NULL, "faults", broken + ("; " + notes));
		return false;
	}
	if (error && is_fault(error)) {
		row(host.chunk, c.name, NULL, "faults", error + ("; " + notes));
		return false;
	}
	std::string found = verdict(error);
	if (!error && !expected && !(c.flags & ALONE)) {
		Wide words[2];
		if (const char *failed = compare(device, host, counts, words)) {
			row(host.chunk, c.name, NULL, "faults", std::string("compared: ") + failed);
			return false;
		}
		if (words[0])
			notes = std::to_string(words[0]) + " words differ; " + notes;
		else if (!words[1])
			notes = "the case changed nothing; " + notes;
		found = words[0] || !words[1] ? "WRONG" : "right";
	}
	state->wrong += found == "WRONG";
	row(host.chunk, c.name, &host, found.c_str(), notes);
	return true;
}

/* The process of one size, from case state->next on. */
static int run_cases(size_t chunk)
{
	Wide *counts;
	int devices;
	Work device = {}, host = {};
	MUST(cudaFree(NULL));
	MUST(cudaGetDeviceCount(&devices));
	MUST(cudaMalloc((void **)&counts, 2 * sizeof *counts));
	for (Work *w : {&device, &host}) {
		w->chunk = chunk;
		w->host = w == &host;
		if (const char *error = make_range(*w)) {
			row(chunk, w->host ? "host memory is made" : "device memory is made", NULL,
			    verdict(error).c_str(), "");
			state->next = CASES;
			return 0;
		}
		MUST(cudaMalloc((void **)&w->out, chunk));
		MUST(cudaStreamCreateWithFlags(&w->s, cudaStreamNonBlocking));
	}
	if (state->next == 0)
		printf("# %zu MiB of host memory: %s, devices: %d\n", chunk / MIB,
		       host_place.type == CU_MEM_LOCATION_TYPE_HOST ? "HOST" : "HOST_NUMA",
		       devices);
	while (state->next < CASES) {
		const Case &c = cases[state->next++];
		if ((c.flags & TWO) && devices < 2)
			continue;
		alarm(SECONDS);
		if (!one_case(c, device, host, counts))
			_exit(1);
		alarm(0);
	}
	fflush(stdout);
	_exit(0); /* with memory still mapped: the driver frees it all */
}

/* Runs the cases of a size, in as many processes as it takes. */
static void run_size(size_t chunk)
{
	state->next = 0;
	while (state->next < CASES) {
		int before = state->next;
		int status = run_self({"run", std::to_string(chunk)});
		if (WIFSIGNALED(status) && state->next > 0)
			row(chunk, cases[state->next - 1].name, NULL, "faults",
			    std::string("signal ") + std::to_string(WTERMSIG(status)));
		if (state->next == before) {
			row(chunk, "the process", NULL, "faults", "it ended before a case");
			state->wrong++;
			return;
		}
	}
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "run")) {
		attach_state(atoi(argv[2]));
		return run_cases(strtoull(argv[3], NULL, 10));
	}
	if (argc > 4 && !strcmp(argv[1], "import")) {
		attach_state(atoi(argv[2]));
		return import_chunk(strtoull(argv[3], NULL, 10), atoi(argv[4]));
	}
	create_state();
	for (int i = 1; i < argc; i++)
		run_size(strtoull(argv[i], NULL, 10) * MIB);
	if (argc == 1)
		for (size_t chunk : {2 * MIB, 32 * MIB, 512 * MIB})
			run_size(chunk);
	return state->wrong != 0;
}
