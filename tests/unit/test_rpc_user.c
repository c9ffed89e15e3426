/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The overflow user, which the kernel shows for each user that a user namespace does not map. The
 * test is linked so that it supplies the user of the process, the user at the other end of each
 * socket, and the kernel's two files about user namespaces.
 */
#include "rpc_help.h"

#include "base/sys.h"

static uid_t user; /* of this process, and of the other end of each socket */
static const char *_Atomic map, *overflow;

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return user;
}

int __wrap_gm_sys_peer_user(int fd, uid_t *out);
int __wrap_gm_sys_peer_user(int fd, uid_t *out)
{
	(void)fd;
	*out = user;
	return 0;
}

/* A descriptor from which `text` can be read; NULL: the file is missing. */
static int file_of(const char *text)
{
	int ends[2];
	if (!text || pipe(ends) || write(ends[1], text, strlen(text)) < 0) {
		errno = ENOENT;
		return -1;
	}
	close(ends[1]);
	return ends[0];
}

int __real_gm_sys_open(const char *path, int flags, mode_t mode);
int __wrap_gm_sys_open(const char *path, int flags, mode_t mode);
int __wrap_gm_sys_open(const char *path, int flags, mode_t mode)
{
	if (strcmp(path, "/proc/self/uid_map") == 0)
		return file_of(map);
	if (strcmp(path, "/proc/sys/kernel/overflowuid") == 0)
		return file_of(overflow);
	return __real_gm_sys_open(path, flags, mode);
}

static bool known(uid_t as, const char *mapped, const char *number)
{
	user = as;
	map = mapped;
	overflow = number;
	return gm_rpc_user_is_known();
}

#define WHOLE "         0          0 4294967295\n"

static void users(void)
{
	unsigned before = open_descriptors();
	TAP_OK(known(1000, "", "65534\n"), "any other user is known");
	TAP_OK(known(65534, WHOLE, "65534\n"), "nobody is a user where all users are mapped");
	TAP_OK(!known(65534, "", "65534\n"),
	       "the overflow user is everybody in an empty namespace");
	TAP_OK(!known(65534, "0 1000 1\n", "65534\n"),
	       "the overflow user is everybody where one user is mapped");
	TAP_OK(!known(65534, "0 100000 65536\n", "65534\n"),
	       "the overflow user is everybody where it is mapped itself");
	TAP_OK(!known(99, "0 1000 1\n", "99\n"), "the kernel may have another overflow user");
	TAP_OK(known(65534, "0 1000 1\n", "99\n"),
	       "user 65534 is known where another is the overflow user");
	TAP_OK(!known(65534, NULL, NULL), "nobody is not known where there is no /proc");
	TAP_OK(known(0, NULL, NULL), "root is known where there is no /proc");
	TAP_IS(open_descriptors(), before, "no descriptor is left");
}

static enum gm_rpc_result yes(enum gm_rpc_kind kind, const void *request, size_t size,
			      struct gm_rpc_message *reply)
{
	(void)kind;
	(void)request;
	(void)size;
	(void)reply;
	return GM_RPC_OK;
}

static void node_count(void *arg, const struct gm_rpc_address *address)
{
	(void)address;
	++*(unsigned *)arg;
}

/* 1 if the node is found, 3 more if it answers IPC_OPEN, 10 more for each other kind. */
static int asks(void)
{
	int result = 0;
	unsigned found = 0;
	struct gm_rpc_message reply;
	gm_rpc_each(GPU, node_count, &found);
	result += found == 1;
	result += ask(&here, GM_RPC_IPC_OPEN, 2, HOUR, &reply) == GM_RPC_OK ? 3 : 0;
	for (unsigned kind = GM_RPC_SLEEP; kind < GM_RPC_KINDS; kind++)
		result += ask(&here, kind, 0, HOUR, &reply) == GM_RPC_OK ? 10 : 0;
	return result;
}

int main(void)
{
	users();
	for (unsigned kind = 0; kind < GM_RPC_KINDS; kind++)
		gm_rpc_serve((enum gm_rpc_kind)kind, yes);
	known(65534, WHOLE, "65534\n");
	TAP_IS(gm_rpc_join(GPU, &here), 0, "a process of the user nobody joins");
	TAP_IS(status_of(asks), 4 + 10 * (GM_RPC_KINDS - 1),
	       "the user nobody is found, and answers itself");
	map = "";
	TAP_IS(status_of(asks), 3, "an unknown user is not found, and answers a secret alone");
	return tap_done();
}
