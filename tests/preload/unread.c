/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time at which a library's image is read. The image changes between two calls; the next event
 * shows which of its states was read: tests/preload/inkernel.bats counts takeovers that begin. The
 * simulated driver loads an image of its own instead.
 */
#include "program.h"
/* after cuda.h: it would rename calls there */
#include "sim/sim.h"
#include "steer.h"
#include "tests/image_make.h"

#include <pthread.h>
#include <sys/mman.h>

#define ALLOCATES "cubin:75:raw:malloc,free"
#define HARMLESS "cubin:75:raw:free"
#define ROOM 65536 /* a multiple of the page size on every system */

static void run_nothing(void **args)
{
	(void)args;
}

static const struct gm_sim_kernel kernels[] = {{"nothing", run_nothing, {0}, 0},
					       {"another", run_nothing, {0}, 0}};
static const struct gm_sim_image image = {GM_SIM_IMAGE, 2, kernels, 4096, 0, NULL};

/* In a read-only segment of the program, and in a writable one. */
static const unsigned char constant[ROOM] __attribute__((aligned(ROOM))) = {1};
static unsigned char variable[ROOM] __attribute__((aligned(ROOM))) = {1};

static void put(void *at, const char *words)
{
	struct make m;
	make_image(&m, words);
	if (m.n > ROOM || mprotect(at, ROOM, PROT_READ | PROT_WRITE) != 0)
		exit(1);
	memcpy(at, m.at, m.n);
	free(m.at);
}

static void *pages(const char *words)
{
	void *at = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	put(at, words);
	return at;
}

static CUlibrary load(const void *code, bool preserved)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *value = (void *)1;
	CUlibrary library;
	gm_sim_stand_in(&image);
	SAY(cuLibraryLoadData(&library, code, NULL, NULL, 0, &option, &value, preserved));
	gm_sim_stand_in(NULL);
	return library;
}

static void use(CUlibrary library, const char *name)
{
	CUkernel kernel;
	CUfunction function;
	SAY(cuLibraryGetKernel(&kernel, library, name));
	SAY(cuKernelGetFunction(&function, kernel));
	SAY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

/* An image that the driver copies may be unmapped after the load: it is read at the load. */
static void copied(void)
{
	void *code = pages(ALLOCATES);
	CUlibrary library = load(code, false);
	munmap(code, ROOM);
	use(library, "nothing");
}

static void copied_harmless(void)
{
	void *code = pages(HARMLESS);
	CUlibrary library = load(code, false);
	put(code, ALLOCATES);
	use(library, "nothing");
}

/* An image that stays is read at the first request for a kernel, and not again. */
static void preserved(void)
{
	void *code = pages(HARMLESS);
	CUlibrary library = load(code, true);
	put(code, ALLOCATES);
	use(library, "nothing");
}

static void once(void)
{
	void *code = pages(HARMLESS);
	CUlibrary library = load(code, true);
	use(library, "nothing");
	put(code, ALLOCATES);
	use(library, "another");
}

/* A request for the module reads it, too. */
static void module(void)
{
	CUmodule of;
	void *code = pages(HARMLESS);
	CUlibrary library = load(code, true);
	put(code, ALLOCATES);
	SAY(cuLibraryGetModule(&of, library));
}

static void listed(void)
{
	CUkernel list[2] = {NULL};
	CUfunction function;
	void *code = pages(HARMLESS);
	CUlibrary library = load(code, true);
	put(code, ALLOCATES);
	SAY(cuLibraryEnumerateKernels(list, 2, library));
	munmap(code, ROOM);
	SAY(cuKernelGetFunction(&function, list[0]));
}

static void in_program(void)
{
	put((void *)(uintptr_t)constant, HARMLESS);
	CUlibrary library = load(constant, false);
	put((void *)(uintptr_t)constant, ALLOCATES);
	use(library, "nothing");
}

/* A wrapper may be writable, as nvcc's is; the image that it points to decides. */
static void wrapped(void)
{
	static struct gm_wrapper wrapper = {GM_WRAPPER_MAGIC, 1, constant, NULL};
	put((void *)(uintptr_t)constant, "fatbin " HARMLESS);
	CUlibrary library = load(&wrapper, false);
	put((void *)(uintptr_t)constant, "fatbin " ALLOCATES);
	use(library, "nothing");
}

static void in_variable(void)
{
	put(variable, HARMLESS);
	CUlibrary library = load(variable, false);
	put(variable, ALLOCATES);
	use(library, "nothing");
}

static void *use_once(void *library)
{
	CUkernel kernel;
	CUfunction function;
	use_device(0);
	MUST(cuLibraryGetKernel(&kernel, library, "nothing"));
	MUST(cuKernelGetFunction(&function, kernel));
	return NULL;
}

/* Threads request the same kernel at the same time. */
static void threads(void)
{
	pthread_t thread[8];
	void *code = pages(HARMLESS);
	CUlibrary library = load(code, true);
	put(code, ALLOCATES);
	for (int i = 0; i < 8; i++)
		MUST((CUresult)pthread_create(&thread[i], NULL, use_once, library));
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

/* A reused handle is another library. */
static void again(void)
{
	void *code = pages(ALLOCATES);
	CUlibrary first = load(code, true);
	SAY(cuLibraryUnload(first));
	munmap(code, ROOM);
	use(load(pages(HARMLESS), false), "nothing");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"copied", copied},
		     {"copied_harmless", copied_harmless},
		     {"preserved", preserved},
		     {"once", once},
		     {"module", module},
		     {"listed", listed},
		     {"in_program", in_program},
		     {"wrapped", wrapped},
		     {"in_variable", in_variable},
		     {"threads", threads},
		     {"again", again}};
	MUST(cuInit(0));
	use_device(0);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (argc > 1 && strcmp(parts[i].name, argv[1]) == 0)
			parts[i].run();
	return 0;
}
