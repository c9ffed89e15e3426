/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose handlers of SIGSEGV or SIGBUS repair a page of a copy: faults KIND DIRECTION. The
 * page becomes inaccessible in the middle of a staged copy with two threads, after all pages were
 * populated and before the last piece is copied, and again before the driver's own call. The
 * handler reads a variable of its thread.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"
#include "steer.h"

#define SIZE (24 * MIB)
#define TIMES 100
#define PAGE ((size_t)4096)
#define LAST (SIZE - PAGE)
#define SLOTS 8 /* of two threads; the copy has 12 pieces */

static CUdeviceptr device;
static unsigned char *host;
static int file = -1;
static __thread int mine;
static volatile unsigned repaired, elsewhere;
static bool to_device;
static unsigned pieces_left;
static void (*damage)(void);

/* --- kinds --- */

static void page_protect(void)
{
	mprotect(host + LAST, PAGE, to_device ? PROT_NONE : PROT_READ);
}

static void page_repair(int signal)
{
	(void)signal;
	repaired = repaired + 1;
	elsewhere = elsewhere + !mine;
	mprotect(host + LAST, PAGE, PROT_READ | PROT_WRITE);
}

static void file_cut(void)
{
	if (ftruncate(file, LAST) != 0)
		exit(1);
}

static void file_restore(int signal)
{
	(void)signal;
	repaired = repaired + 1;
	elsewhere = elsewhere + !mine;
	if (ftruncate(file, SIZE) != 0)
		_exit(1);
}

static void pages_make(bool of_file)
{
	char name[] = "/tmp/faults.XXXXXX";
	if (of_file) {
		file = mkstemp(name);
		if (file < 0 || unlink(name) != 0 || ftruncate(file, SIZE) != 0)
			exit(1);
	}
	host = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		    of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
	if (host == MAP_FAILED)
		exit(1);
}

/* --- copies --- */

/* The bytes of the last page of a file are lost when it is cut. */
static bool copy_is_right(unsigned char byte)
{
	const unsigned char *at = to_device ? (unsigned char *)device : host;
	size_t n = file < 0 ? SIZE : LAST;
	return at[0] == byte && memcmp(at, at + 1, n - 1) == 0;
}

/* To the device, the last piece waits for a slot until the first one is submitted. From the device,
 * the first submission after those of all slots waits until a piece was copied. */
static void piece_begins(void)
{
	if (--pieces_left)
		gm_sim_before(to_device ? "cuMemcpyHtoDAsync_v2" : "cuMemcpyDtoHAsync_v2",
			      piece_begins);
	else
		damage();
}

static CUresult copy_once(unsigned char byte)
{
	pieces_left = to_device ? 1 : SLOTS + 1;
	memset(host, to_device ? byte : 0, SIZE);
	MUST(cuMemsetD8(device, to_device ? 0 : byte, SIZE));
	MUST(cuStreamSynchronize(NULL));
	gm_sim_before(to_device ? "cuMemcpyHtoDAsync_v2" : "cuMemcpyDtoHAsync_v2", piece_begins);
	gm_sim_before(to_device ? "cuMemcpyHtoD_v2" : "cuMemcpyDtoH_v2", damage);
	return to_device ? cuMemcpyHtoD(device, host, SIZE) : cuMemcpyDtoH(host, device, SIZE);
}

static void copies(void)
{
	unsigned right = 0;
	for (unsigned i = 1; i <= TIMES; i++)
		right += copy_once((unsigned char)i) == CUDA_SUCCESS &&
			 copy_is_right((unsigned char)i);
	printf("%u copies are right, %u pages repaired, %u on other threads\n", right, repaired,
	       elsewhere);
}

int main(int argc, char **argv)
{
	bool bus = argc == 3 && strcmp(argv[1], "bus") == 0;
	struct sigaction action = {.sa_handler = bus ? file_restore : page_repair};
	if (argc != 3)
		return 2;
	mine = 1;
	to_device = strcmp(argv[2], "to") == 0;
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&device, SIZE));
	pages_make(bus);
	sigaction(bus ? SIGBUS : SIGSEGV, &action, NULL);
	damage = bus ? file_cut : page_protect;
	copies();
	return 0;
}
