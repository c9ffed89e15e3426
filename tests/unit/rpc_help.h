/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes in unit tests: children that ask, and raw sockets. */
#ifndef GM_TESTS_UNIT_RPC_HELP_H
#define GM_TESTS_UNIT_RPC_HELP_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/rpc.h"
#include "rpc/wire.h"
#include "tests/tap.h"

#define MS UINT64_C(1000000)
#define HOUR (3600000 * MS)

#ifdef __SANITIZE_THREAD__
/* The sanitizer's process has threads, and a forked child of such a process may start none. */
enum { CHILD_HAS_THREADS = false };
#else
enum { CHILD_HAS_THREADS = true };
#endif

static const unsigned char GPU[16] = "gpumem node test", OTHER[16] = "gpumem other gpu";
static struct gm_rpc_address here; /* of this process, under GPU */

/* The status with which a forked child ends; -1: by a signal. */
__attribute__((unused)) static int status_of(int (*child)(void))
{
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		gm_rpc_forget();
		_exit(child());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A request of `size` bytes to a node; *reply is filled in on GM_RPC_OK. */
__attribute__((unused)) static enum gm_rpc_result ask(const struct gm_rpc_address *to,
						      unsigned kind, size_t size, uint64_t patience,
						      struct gm_rpc_message *reply)
{
	static const unsigned char bytes[GM_RPC_BYTES] = {1, 2, 3};
	struct gm_rpc_link link;
	enum gm_rpc_result result = gm_rpc_connect(to, patience, &link);
	if (result != GM_RPC_OK)
		return result;
	result = gm_rpc_ask(&link, (enum gm_rpc_kind)kind, bytes, size, reply);
	int saved = errno;
	gm_rpc_disconnect(&link);
	errno = saved;
	return result;
}

/* An address that no process has. */
__attribute__((unused)) static struct gm_rpc_address address_of_nobody(void)
{
	struct gm_rpc_address address = {.magic = GM_RPC_MAGIC,
					 .user = geteuid(),
					 .nonce = 0x1234567890u + (uint64_t)getpid(),
					 .pid = 1,
					 .net = gm_wire_net()};
	memcpy(address.gpu, GPU, sizeof address.gpu);
	return address;
}

__attribute__((unused)) static bool is_free(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

__attribute__((unused)) static unsigned open_descriptors(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += !is_free(fd);
	return n;
}

#endif
