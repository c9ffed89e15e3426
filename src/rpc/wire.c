/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

/* The control message that carries descriptors. */
union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(GM_RPC_FDS * sizeof(int))];
};

size_t gm_wire_stem(char *to, size_t room, unsigned user, const unsigned char gpu[16])
{
	int n = snprintf(to, room, "gpumem1/%u/", user);
	for (unsigned i = 0; i < 16 && gpu; i++)
		n += snprintf(to + n, room - (size_t)n, "%02x", gpu[i]);
	n += snprintf(to + n, room - (size_t)n, gpu ? "/" : "");
	return (size_t)n;
}

socklen_t gm_wire_name(struct sockaddr_un *name, const struct gm_rpc_address *address)
{
	char *to = name->sun_path + 1;
	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	size_t n = gm_wire_stem(to, sizeof name->sun_path - 1, address->user, address->gpu);
	n += (size_t)snprintf(to + n, sizeof name->sun_path - 1 - n, "%u-%016llx", address->pid,
			      (unsigned long long)address->nonce);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

uint32_t gm_wire_net(void)
{
	struct stat st;
	int fd = gm_sys_open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	bool known = gm_sys_fstat(fd, &st) == 0;
	gm_sys_close(fd);
	return known ? (uint32_t)st.st_ino : 0;
}

bool gm_wire_is_ours(int fd)
{
	uid_t user;
	return gm_sys_peer_user(fd, &user) == 0 && user == geteuid();
}

bool gm_wire_send(int fd, const struct gm_wire_head *head, const struct gm_rpc_message *message)
{
	union control control = {.room = {0}};
	struct iovec parts[] = {{(void *)head, sizeof *head},
				{(void *)message->data, message->size}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
	size_t bytes = message->n_fds * sizeof *message->fds;
	if (message->n_fds) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(bytes);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(&control.head), message->fds, bytes);
	}
	return gm_sys_sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Take the descriptors out of the message. A descriptor without a free number is dropped. */
static bool fds_take(struct msghdr *m, struct gm_rpc_message *message)
{
	bool whole = !(m->msg_flags & MSG_CTRUNC);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			fd = gm_fd_raise(fd);
			if (fd >= 0)
				message->fds[message->n_fds++] = fd;
			else
				whole = false;
		}
	}
	return whole;
}

bool gm_wire_receive(int fd, struct gm_wire_head *head, struct gm_rpc_message *message, bool fds)
{
	union control control;
	struct iovec parts[] = {{head, sizeof *head}, {message->data, sizeof message->data}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
	message->size = message->n_fds = 0;
	if (fds) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
	}
	ssize_t n = gm_sys_recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return false;
	bool whole = !fds || fds_take(&m, message);
	bool good = n >= (ssize_t)sizeof *head && !(m.msg_flags & MSG_TRUNC) &&
		    head->magic == GM_RPC_MAGIC;
	if (whole && good) {
		message->size = (uint32_t)((size_t)n - sizeof *head);
		return true;
	}
	gm_rpc_close_all(message);
	errno = n == 0 ? EPIPE : good ? EMFILE : EBADMSG;
	return false;
}

void gm_rpc_close_all(struct gm_rpc_message *message)
{
	while (message->n_fds)
		gm_sys_close(message->fds[--message->n_fds]);
}
