/* SPDX-License-Identifier: BSD-3-Clause */
/* For hostchunk.cu: the chunk in other processes, on another device, and on the CPU. */
#ifndef GM_TESTS_GPU_HOSTCHUNK_REACH_H
#define GM_TESTS_GPU_HOSTCHUNK_REACH_H

#include <csetjmp>
#include <csignal>
#include <fcntl.h>

#include "hostchunk_calls.h"

/* A case in a case. */
#define DO(call)                             \
	do {                                 \
		if (const char *e_ = (call)) \
			return e_;           \
	} while (0)

/* --- another process: a chunk made for that is exported as a descriptor --- */

enum { SENT = 60, ANSWERED };

static int imported(size_t size, int fd)
{
	CUmemGenericAllocationHandle handle;
	CUmemAccessDesc access = {};
	CUdeviceptr at;
	Wide *bad, found = 0;
	int error;
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if ((error = (int)cudaMalloc((void **)&bad, sizeof *bad)) != 0 ||
	    (error = (int)cudaMemset(bad, 0, sizeof *bad)) != 0)
		return error;
	double begin = now_us();
	if ((error = cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) ||
	    (error = cuMemAddressReserve(&at, size, 0, 0, 0)) ||
	    (error = cuMemMap(at, size, 0, handle, 0)) ||
	    (error = cuMemSetAccess(at, size, &access, 1)))
		return error;
	state->us = now_us() - begin;
	verify<<<FLAT, THREADS>>>((uint32_t *)at, size / 4, SENT, bad);
	fill<<<FLAT, THREADS>>>((uint32_t *)at, size / 4, ANSWERED);
	if ((error = (int)cudaMemcpy(&found, bad, sizeof found, cudaMemcpyDeviceToHost)) != 0)
		return error;
	return found ? -1 : 0;
}

static int import_chunk(size_t size, int fd)
{
	MUST(cudaFree(NULL));
	alarm(8);
	state->error = imported(size, fd);
	_exit(0);
}

/* Its time is the import's and the mapping's in the other process. */
static const char *ipc(Work &w)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	int fd;
	TRY(make_chunk(&handle, w.chunk, w.host, true));
	TRY(cuMemAddressReserve(&at, w.chunk, 0, 0, 0));
	TRY(cuMemMap(at, w.chunk, 0, handle, 0));
	DO(set_access(at, w.chunk, CU_MEM_LOCATION_TYPE_DEVICE, 0));
	fill<<<FLAT, THREADS>>>((uint32_t *)at, w.chunk / 4, SENT);
	TRY(cudaDeviceSynchronize());
	TRY(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	fcntl(fd, F_SETFD, 0);
	state->error = CUDA_ERROR_UNKNOWN;
	int status = run_self({"import", std::to_string(w.chunk), std::to_string(fd)});
	close(fd);
	if (status != 0)
		snprintf(w.note, sizeof w.note, "status of the process: %#x", (unsigned)status);
	if (state->error < 0)
		return "WRONG";
	if (state->error)
		snprintf(w.note, sizeof w.note, "in the other process");
	TRY((CUresult)state->error);
	TRY(cudaMemcpy(w.out, (void *)at, w.chunk, cudaMemcpyDeviceToDevice));
	TRY(cudaDeviceSynchronize()); /* such a copy may return before its end */
	TRY(cuMemUnmap(at, w.chunk));
	TRY(cuMemRelease(handle));
	TRY(cuMemAddressFree(at, w.chunk));
	w.us = state->us;
	return NULL;
}

/* --- another device --- */

/* Until the end of a scope device 1 is current. */
struct Other {
	Other()
	{
		cudaSetDevice(1);
	}
	~Other()
	{
		cudaSetDevice(0);
	}
};

static const char *peer_access(Work &w)
{
	CUmemAccessDesc both[2] = {};
	for (int i = 0; i < 2; i++) {
		both[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		both[i].location.id = i;
		both[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	BEGIN(w);
	TRY(cuMemSetAccess((CUdeviceptr)w.all, 3 * w.chunk, both, 2));
	END(w, 0);
	return NULL;
}

/* A buffer on device 1, made once; device 1 is current. */
static const char *second(const Work &w, char **at)
{
	static char *made;
	if (!made)
		TRY(cudaMalloc((void **)&made, w.chunk));
	*at = made;
	return NULL;
}

static const char *peer_kernel(Work &w, bool writes)
{
	char *there;
	{
		Other other;
		DO(second(w, &there));
		uint32_t *at = (uint32_t *)there;
		fill<<<FLAT, THREADS>>>(at, w.chunk / 4, 70);
		BEGIN(w);
		mix<<<FLAT, THREADS>>>(writes ? at : w.word(), writes ? w.word() : at, w.chunk / 4,
				       71);
		LAUNCHED();
		END(w, w.chunk);
	}
	if (!writes)
		TRY(cudaMemcpyPeer(w.out, 0, there, 1, w.chunk));
	return NULL;
}

static const char *peer_reads(Work &w)
{
	DO(peer_access(w));
	return peer_kernel(w, false);
}

static const char *peer_writes(Work &w)
{
	DO(peer_access(w));
	return peer_kernel(w, true);
}

static __global__ void add_system(uint32_t *at, uint64_t words)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	if (i < words)
		atomicAdd_system(&at[i], pattern(72, i));
}

/* Kernels of both devices add to the same words at the same time. */
/* Both devices add to the same words at the same time. Without atomics on PCIe additions to memory
 * of the host get lost, so this row may be WRONG (H200: it is). */
static const char *peer_atomics(Work &w)
{
	DO(peer_access(w));
	uint64_t words = (uint64_t)FLAT * THREADS;
	BEGIN(w);
	{
		Other other;
		for (int i = 0; i < 8; i++)
			add_system<<<FLAT, THREADS>>>(w.word(), words);
		LAUNCHED();
	}
	for (int i = 0; i < 8; i++)
		add_system<<<FLAT, THREADS, 0, w.s>>>(w.word(), words);
	LAUNCHED();
	{
		Other other;
		TRY(cudaDeviceSynchronize());
	}
	END(w, 16 * words * 4);
	return NULL;
}

static const char *peer_copy(Work &w, bool from)
{
	CUcontext context[2];
	CUdeviceptr at = (CUdeviceptr)w.at, other_at;
	char *there;
	for (int i = 0; i < 2; i++)
		TRY(cuDevicePrimaryCtxRetain(&context[i], i));
	{
		Other other;
		DO(second(w, &there));
		fill<<<FLAT, THREADS>>>((uint32_t *)there, w.chunk / 4, 73);
		TRY(cudaDeviceSynchronize());
	}
	other_at = (CUdeviceptr)there;
	BEGIN(w);
	if (from)
		TRY(cuMemcpyPeer(at, context[0], other_at, context[1], w.chunk));
	else
		TRY(cuMemcpyPeer(other_at, context[1], at, context[0], w.chunk));
	END(w, w.chunk);
	if (!from)
		TRY(cudaMemcpyPeer(w.out, 0, there, 1, w.chunk));
	return NULL;
}

static const char *copy_to_peer(Work &w)
{
	return peer_copy(w, false);
}

static const char *copy_from_peer(Work &w)
{
	return peer_copy(w, true);
}

/* --- the CPU --- */

/* Loads may be slow, should they not be cached. */
#define CPU_MOST (64 * MIB)

static sigjmp_buf out_of_fault;

static void on_fault(int)
{
	siglongjmp(out_of_fault, 1);
}

/* False: the CPU faulted in it. */
template <class F> static bool survives(F use)
{
	struct sigaction handler = {}, before[2];
	volatile bool survived = false;
	handler.sa_handler = on_fault;
	sigaction(SIGSEGV, &handler, &before[0]);
	sigaction(SIGBUS, &handler, &before[1]);
	if (sigsetjmp(out_of_fault, 1) == 0) {
		use();
		survived = true;
	}
	sigaction(SIGSEGV, &before[0], NULL);
	sigaction(SIGBUS, &before[1], NULL);
	return survived;
}

/* Loads the words and counts those that do not have a pattern. */
static const char *loads(Work &w, size_t bytes, uint32_t tag)
{
	volatile const uint32_t *at = w.word();
	volatile size_t wrong = 0;
	BEGIN(w);
	bool survived = survives([&] {
		size_t n = 0;
		for (size_t i = 0; i < bytes / 4; i++)
			n += at[i] != pattern(tag, w.chunk / 4 + i); /* filled from `all` on */
		wrong = n;
	});
	END(w, bytes);
	return !survived ? "faults" : wrong ? "WRONG" : NULL;
}

/* Stores words; the device reads them. */
static const char *stores(Work &w, size_t bytes, uint32_t tag)
{
	volatile uint32_t *at = w.word();
	BEGIN(w);
	bool survived = survives([&] {
		for (size_t i = 0; i < bytes / 4; i++)
			at[i] = pattern(tag, i);
	});
	END(w, bytes);
	if (!survived)
		return "faults";
	Wide *bad, found;
	TRY(cudaMalloc((void **)&bad, sizeof *bad));
	TRY(cudaMemset(bad, 0, sizeof *bad));
	verify<<<FLAT, THREADS>>>(w.word(), bytes / 4, tag, bad);
	TRY(cudaMemcpy(&found, bad, sizeof found, cudaMemcpyDeviceToHost));
	TRY(cudaFree(bad));
	return found ? "WRONG" : NULL;
}

static const char *cpu_load(Work &w)
{
	return loads(w, 4, FILLED);
}

static const char *cpu_store(Work &w)
{
	return stores(w, 4, 80);
}

static const char *set_host_access(Work &w)
{
	if (w.host)
		return set_access((CUdeviceptr)w.at, w.chunk, host_place.type, host_place.id);
	return set_access((CUdeviceptr)w.at, w.chunk, CU_MEM_LOCATION_TYPE_HOST, 0);
}

static const char *host_access(Work &w)
{
	unsigned long long before = ~0ull, after = ~0ull;
	CUmemLocation place = host_place;
	CUresult asked = cuMemGetAccess(&before, &place, (CUdeviceptr)w.at);
	BEGIN(w);
	const char *error = set_host_access(w);
	END(w, 0);
	CUresult again = cuMemGetAccess(&after, &place, (CUdeviceptr)w.at);
	const char *names[] = {error_name(asked), error_name(again)};
	snprintf(w.note, sizeof w.note, "flags before: %s %lld, after: %s %lld",
		 names[0] ? names[0] : "", names[0] ? -1 : (long long)before,
		 names[1] ? names[1] : "", names[1] ? -1 : (long long)after);
	return error;
}

static void touch(const volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4096)
		(void)at[i];
}

/* The case before gave access. Only the first page may have been used by the CPU. */
static const char *cpu_touch(Work &w)
{
	const volatile char *at = w.at;
	size_t bytes = w.chunk;
	if (const char *error = set_host_access(w)) {
		snprintf(w.note, sizeof w.note, "access: %s", error);
		return survives([=] { touch(at, bytes); }) ? NULL : "faults";
	}
	BEGIN(w);
	bool survived = survives([=] { touch(at, bytes); });
	END(w, 0);
	if (!survived)
		return "faults";
	double begin = now_us();
	touch(at, bytes);
	snprintf(w.note, sizeof w.note, "again: %.1f us", now_us() - begin);
	return NULL;
}

static const char *cpu_load_all(Work &w)
{
	DO(set_host_access(w));
	return loads(w, w.chunk < CPU_MOST ? w.chunk : CPU_MOST, FILLED);
}

static const char *cpu_store_all(Work &w)
{
	DO(set_host_access(w));
	return stores(w, w.chunk < CPU_MOST ? w.chunk : CPU_MOST, 81);
}

#endif
