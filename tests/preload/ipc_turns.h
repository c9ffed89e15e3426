/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes that take turns, messages about blocks, and the threads and sockets of a node. */
#ifndef GM_TESTS_PRELOAD_IPC_TURNS_H
#define GM_TESTS_PRELOAD_IPC_TURNS_H

#include <dirent.h>
#include <unistd.h>

#include "program.h"

static int to_other, from_other;

/* --- turns --- */

static void tell(const void *what, size_t n)
{
	if (write(to_other, what, n) != (ssize_t)n)
		exit(3);
}

/* Returns false if the other process has ended. */
static bool hears(void *what, size_t n)
{
	return read(from_other, what, n) == (ssize_t)n;
}

static void hear(void *what, size_t n)
{
	if (!hears(what, n))
		exit(3);
}

static void pass_turn(void)
{
	fflush(stdout);
	tell("", 1);
}

static void await_turn(void)
{
	char byte;
	hear(&byte, 1);
}

/* --- memory --- */

#define OPEN(out, handle) cuIpcOpenMemHandle(out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)

/* Byte i is i * 7 + i / 4096 + seed: runs of 256 bytes are the same sixteen times. */
static void pattern(unsigned char *bytes, size_t size, unsigned seed)
{
	unsigned char row[256];
	for (size_t i = 0; i < size; i += sizeof row) {
		for (size_t j = 0; j < sizeof row && i % 4096 == 0; j++)
			row[j] = (unsigned char)(j * 7 + i / 4096 + seed);
		memcpy(bytes + i, row, size - i < sizeof row ? size - i : sizeof row);
	}
}

static void fill(CUdeviceptr p, size_t size, unsigned seed)
{
	unsigned char *bytes = malloc(size);
	pattern(bytes, size, seed);
	MUST(cuMemcpyHtoD(p, bytes, size));
	free(bytes);
}

static bool is_filled(CUdeviceptr p, size_t size, unsigned seed)
{
	unsigned char *bytes = malloc(2 * size);
	MUST(cuMemcpyDtoH(bytes, p, size));
	pattern(bytes + size, size, seed);
	bool good = memcmp(bytes, bytes + size, size) == 0;
	free(bytes);
	return good;
}

/* The exporter's message about a block. */
struct block {
	CUipcMemHandle handle;
	size_t size;
	unsigned seed;
};

static CUdeviceptr share(size_t size, unsigned seed)
{
	struct block b = {.size = size, .seed = seed};
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, size));
	fill(p, size, seed);
	MUST(cuIpcGetMemHandle(&b.handle, p));
	tell(&b, sizeof b);
	return p;
}

static CUdeviceptr get(struct block *b)
{
	CUdeviceptr p;
	hear(b, sizeof *b);
	MUST(OPEN(&p, b->handle));
	return p;
}

/* Sockets and threads of a node in this process. */

static unsigned count_sockets(void)
{
	unsigned n = 0;
	char path[64], text[64];
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, text, sizeof text - 1);
		n += length > 7 && memcmp(text, "socket:", 7) == 0;
	}
	return n;
}

static unsigned count_threads(const char *name)
{
	unsigned n = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *e; tasks && (e = readdir(tasks));) {
		char path[300], text[64] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
		FILE *comm = fopen(path, "r");
		if (!comm)
			continue;
		n += fgets(text, sizeof text, comm) && strncmp(text, name, strlen(name)) == 0;
		fclose(comm);
	}
	if (tasks)
		closedir(tasks);
	return n;
}

#endif
