/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemCreate and managed memory in a process that sleeps: created WHAT. WHAT is `cases`,
 * `managed`, `random SEED N`, or `failing`. Prints a line for each case; exit status 1: a case is
 * wrong. Contents are compared with a copy in host memory.
 */
#include <errno.h>
#include <unistd.h>

#include "../preload/program.h"
#include "../preload/steer.h"
#include "api/gpumem.h"

enum { HANDLES = 8, PAGE = 2 * MIB, VIEWS = 2 };

/* A memory of the program, and what it must contain. */
struct owned {
	CUmemGenericAllocationHandle handle; /* 0: none, or released */
	CUdeviceptr at[VIEWS];		     /* 0: not mapped */
	size_t size;
	unsigned char byte; /* of all its contents */
};

static struct owned all[HANDLES];
static unsigned wrong;

static void is(bool right, const char *what)
{
	if (!right) {
		printf("WRONG: %s\n", what);
		wrong++;
	}
}

static CUmemAllocationProp prop_device(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

static void view_make(struct owned *o, unsigned view)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	MUST(cuMemAddressReserve(&o->at[view], o->size, 0, 0, 0));
	MUST(cuMemMap(o->at[view], o->size, 0, o->handle, 0));
	MUST(cuMemSetAccess(o->at[view], o->size, &access, 1));
}

static void view_end(struct owned *o, unsigned view)
{
	MUST(cuMemUnmap(o->at[view], o->size));
	MUST(cuMemAddressFree(o->at[view], o->size));
	o->at[view] = 0;
}

static CUdeviceptr view_any(const struct owned *o)
{
	return o->at[0] ? o->at[0] : o->at[1];
}

static void fill(struct owned *o, unsigned char byte)
{
	if (!view_any(o))
		return;
	MUST(cuMemsetD8_v2(view_any(o), byte, o->size));
	o->byte = byte;
}

static void make(struct owned *o, size_t size, unsigned char byte)
{
	const CUmemAllocationProp prop = prop_device();
	*o = (struct owned){.size = size};
	MUST(cuMemCreate(&o->handle, size, &prop, 0));
	view_make(o, 0);
	fill(o, byte);
}

static void end(struct owned *o)
{
	for (unsigned i = 0; i < VIEWS; i++)
		if (o->at[i])
			view_end(o, i);
	if (o->handle)
		MUST(cuMemRelease(o->handle));
	*o = (struct owned){0};
}

static bool contents_are(const struct owned *o)
{
	static unsigned char host[4 * PAGE];
	bool same = true;
	for (unsigned view = 0; view < VIEWS; view++) {
		if (!o->at[view])
			continue;
		memset(host, (unsigned char)~o->byte, o->size);
		MUST(cuMemcpyDtoH_v2(host, o->at[view], o->size));
		same = same && host[0] == o->byte && memcmp(host, host + 1, o->size - 1) == 0;
	}
	return same;
}

static bool all_are(void)
{
	for (unsigned i = 0; i < HANDLES; i++)
		if (all[i].size && !contents_are(&all[i]))
			return false;
	return true;
}

/* Device memory is host memory here: mapped memory can be read. */
static bool is_mapped(CUdeviceptr at)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(1);
	bool readable = write(ends[1], (const void *)(uintptr_t)at, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return readable;
}

/* The driver's own answer. */
static size_t device_free(void)
{
	CUresult (*ask)(size_t *, size_t *) =
		(CUresult(*)(size_t *, size_t *))gm_sim_symbol(NULL, "cuMemGetInfo_v2");
	size_t left = 0, total = 0;
	MUST(ask(&left, &total));
	return left;
}

static size_t program_free(void)
{
	size_t left = 0, total = 0;
	MUST(cuMemGetInfo_v2(&left, &total));
	return left;
}

static void case_sleeps(void)
{
	make(&all[0], 4 * PAGE, 11);
	make(&all[1], PAGE, 22);
	view_make(&all[1], 1);
	size_t awake = device_free(), answer = program_free();
	is(gpumem_sleep() == CUDA_SUCCESS, "the process sleeps");
	is(!is_mapped(all[0].at[0]) && !is_mapped(all[1].at[1]), "both are away");
	is(device_free() >= awake + 5 * PAGE, "the device has their memory back");
	is(program_free() == answer, "cuMemGetInfo answers as awake");
	is(!is_mapped(all[0].at[0]), "and does not wake");
	is(all_are(), "contents return at the first copy, at both addresses");
	fill(&all[1], 23);
	is(all_are(), "both mappings are the same memory");
	end(&all[0]);
	end(&all[1]);
	puts("sleeps");
}

static void case_books(void)
{
	CUmemGenericAllocationHandle again = 0;
	CUmemAllocationProp prop;
	unsigned long long flags = 7;
	const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	make(&all[0], PAGE, 33);
	make(&all[1], PAGE, 44);
	make(&all[2], PAGE, 55);
	view_end(&all[2], 0);
	size_t before = device_free();
	MUST((CUresult)gpumem_sleep());
	is(device_free() >= before + 3 * PAGE, "memory without a mapping leaves as well");
	is(cuMemRetainAllocationHandle(&again, (void *)(all[0].at[0] + 9)) == CUDA_SUCCESS &&
		   again == all[0].handle,
	   "a handle can be retained, and is the same");
	is(cuMemRelease(again) == CUDA_SUCCESS, "and released");
	is(cuMemGetAllocationPropertiesFromHandle(&prop, again) == CUDA_SUCCESS &&
		   prop.location.id == 0 &&
		   prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	   "its properties are known");
	is(cuMemGetAccess(&flags, &device, all[0].at[0]) == CUDA_SUCCESS &&
		   flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	   "its access is known");
	is(cuMemAddressFree(all[0].at[0], PAGE) != CUDA_SUCCESS, "mapped addresses are not freed");
	end(&all[1]);
	is(!is_mapped(all[0].at[0]), "none of these wakes the process");
	view_make(&all[2], 0);
	is(is_mapped(all[0].at[0]), "a mapping does");
	is(all_are(), "contents without a mapping are kept");
	is(cuMemRelease(again) == CUDA_SUCCESS && cuMemRelease(again) == CUDA_ERROR_INVALID_VALUE,
	   "a released handle is refused");
	all[0].handle = 0;
	MUST((CUresult)gpumem_sleep());
	is(!is_mapped(all[0].at[0]) && all_are(), "memory that has only a mapping sleeps");
	end(&all[0]);
	end(&all[2]);
	puts("books");
}

static void case_stays(void)
{
	int descriptor = -1;
	CUmemGenericAllocationHandle theirs;
	make(&all[0], PAGE, 66);
	make(&all[1], PAGE, 77);
	MUST(cuMemExportToShareableHandle(&descriptor, all[0].handle,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cuMemImportFromShareableHandle(&theirs, (void *)(uintptr_t)descriptor,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	struct owned view = {.handle = theirs, .size = PAGE, .byte = 66};
	view_make(&view, 0);
	MUST((CUresult)gpumem_sleep());
	is(is_mapped(all[0].at[0]) && !is_mapped(all[1].at[0]), "exported memory stays");
	is(contents_are(&view), "what was imported is its memory");
	fill(&all[0], 67);
	view.byte = 67;
	is(contents_are(&view) && all_are(), "and stays so");
	end(&view);
	close(descriptor);
	end(&all[0]);
	end(&all[1]);
	puts("stays");
}

/* --- managed memory --- */

static bool managed_is(CUdeviceptr at, size_t size, unsigned char byte)
{
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)at;
	return bytes[0] == byte && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* How the process sleeps with managed memory: its pages leave if they can, and it sleeps anyway. */
static void managed_sleep(CUdeviceptr at, size_t size, bool leave, const char *what)
{
	make(&all[0], PAGE, 5);
	size_t awake = device_free();
	MUST((CUresult)gpumem_sleep());
	is(!is_mapped(all[0].at[0]), "the process sleeps");
	is((device_free() >= awake + PAGE + size) == leave, what);
	is(managed_is(at, size, 88), "the host reads managed memory of a process that sleeps");
	is(!is_mapped(all[0].at[0]), "and does not wake it");
	is(all_are(), "it wakes");
	end(&all[0]);
}

static void managed_run(void)
{
	CUdeviceptr at;
	const size_t size = 8 * PAGE;
	/* cuda.h has another form since 13.0 */
	CUresult (*fetch)(CUdeviceptr, size_t, CUdevice, CUstream) = (CUresult(*)(
		CUdeviceptr, size_t, CUdevice, CUstream))gm_sim_symbol(NULL, "cuMemPrefetchAsync");
	MUST(cuMemAllocManaged(&at, size, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemsetD8_v2(at, 88, size));
	gm_sim_fail("cuMemPrefetchAsync", 1, CUDA_ERROR_INVALID_DEVICE);
	managed_sleep(at, size, false, "memory that cannot be prefetched stays");
	managed_sleep(at, size, true, "managed memory goes to the host");
	MUST(fetch(at, size, 0, NULL));
	managed_sleep(at, size, true, "and again, after it was on the device");
	MUST(cuMemFree_v2(at));
	MUST((CUresult)gpumem_sleep());
	printf("managed: %s\n", wrong ? "WRONG" : "right");
}

/* --- random operations --- */

static unsigned long long seed;

static unsigned dice(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static void change(struct owned *o)
{
	unsigned view = dice(VIEWS);
	switch (dice(6)) {
	case 0:
		end(o);
		break;
	case 1:
		if (!o->at[view] && o->handle)
			view_make(o, view);
		break;
	case 2:
		if (o->at[view] && (o->handle || o->at[!view]))
			view_end(o, view);
		break;
	case 3:
		if (o->handle && view_any(o)) {
			MUST(cuMemRelease(o->handle));
			o->handle = 0;
		}
		break;
	case 4:
		if (!o->handle)
			MUST(cuMemRetainAllocationHandle(&o->handle, (void *)view_any(o)));
		break;
	default:
		fill(o, (unsigned char)dice(256));
	}
}

static void random_run(unsigned n)
{
	unsigned slept = 0;
	for (unsigned i = 0; i < n; i++) {
		struct owned *o = &all[dice(HANDLES)];
		if (dice(8) == 0)
			slept += gpumem_sleep() == CUDA_SUCCESS;
		else if (!o->size)
			make(o, PAGE << dice(3), (unsigned char)dice(256));
		else
			change(o);
		if (dice(16) == 0)
			is(all_are(), "contents");
	}
	is(all_are(), "contents at the end");
	is(slept > n / 16, "it slept");
	for (unsigned i = 0; i < HANDLES; i++)
		end(&all[i]);
	printf("random: %s\n", wrong ? "WRONG" : "right");
}

/* --- failing calls --- */

static const char *const calls[] = {
	"cuMemAddressReserve",	"cuMemMap",
	"cuMemSetAccess",	"cuMemUnmap",
	"cuMemCreate",		"cuMemRelease",
	"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
	"cuMemAddressFree",	"cuStreamSynchronize",
};

/* Each call fails once, at each of its first times, in a sleep and in a wake. The process may stay
 * awake or asleep then; its next use gets all contents. */
static void failing_run(void)
{
	unsigned failed = 0;
	for (unsigned c = 0; c < sizeof calls / sizeof *calls; c++)
		for (unsigned nth = 1; nth <= 8; nth++) {
			for (unsigned i = 0; i < 3; i++) {
				make(&all[i], PAGE << i, (unsigned char)(nth * 16 + c + i));
				view_make(&all[i], 1);
			}
			gm_sim_fail(calls[c], nth, CUDA_ERROR_OUT_OF_MEMORY);
			failed += gpumem_sleep() != CUDA_SUCCESS;
			gm_sim_fail(calls[c], 0, CUDA_SUCCESS);
			is(all_are(), calls[c]);
			MUST((CUresult)gpumem_sleep());
			gm_sim_fail(calls[c], nth, CUDA_ERROR_LAUNCH_FAILED);
			failed += gpumem_wake() != CUDA_SUCCESS;
			gm_sim_fail(calls[c], 0, CUDA_SUCCESS);
			is(all_are(), calls[c]);
			for (unsigned i = 0; i < 3; i++)
				end(&all[i]);
		}
	is(failed > 40, "moves fail");
	printf("failing: %s\n", wrong ? "WRONG" : "right");
}

int main(int n, char **args)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(cuInit(0));
	use_device(0);
	size_t before = device_free();
	if (n > 3 && strcmp(args[1], "random") == 0) {
		seed = strtoull(args[2], NULL, 10);
		random_run((unsigned)atoi(args[3]));
	} else if (n > 1 && strcmp(args[1], "failing") == 0) {
		failing_run();
	} else if (n > 1 && strcmp(args[1], "managed") == 0) {
		managed_run();
	} else {
		case_sleeps();
		case_books();
		case_stays();
	}
	MUST((CUresult)gpumem_sleep());
	is(device_free() + PAGE >= before, "the device has everything back");
	return wrong != 0;
}
