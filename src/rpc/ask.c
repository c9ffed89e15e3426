/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that asks. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "rpc/wire.h"

const char *gm_rpc_why(enum gm_rpc_result result)
{
	switch (result) {
	case GM_RPC_OK:
		return "it answered";
	case GM_RPC_GONE:
		return "it has ended";
	case GM_RPC_ELSEWHERE:
		return "it is in another network namespace, as containers are; let them share one "
		       "(docker run --network=container:NAME)";
	case GM_RPC_STRANGER:
		return "it belongs to another user";
	case GM_RPC_SILENT:
		return "it does not answer; is it stopped?";
	case GM_RPC_GARBLED:
		return "its answer is not understood; does it run another release of gpumem?";
	case GM_RPC_REFUSED:
		return "it has no such memory any more";
	case GM_RPC_UNABLE:
	default:
		return strerror(errno);
	}
}

/* The reason of a failed call on the socket. */
static enum gm_rpc_result errno_result(void)
{
	switch (errno) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ENOENT:
	case EPIPE:
		return GM_RPC_GONE;
	case EAGAIN: /* the timeout of connect; at once if it may not wait */
		return GM_RPC_SILENT;
	case EBADMSG:
		return GM_RPC_GARBLED;
	default:
		return GM_RPC_UNABLE;
	}
}

/* In another network namespace (a container) the kernel finds no socket of that name. */
static enum gm_rpc_result result_where(const struct gm_rpc_address *to, enum gm_rpc_result result)
{
	uint32_t here = gm_wire_net();
	return result == GM_RPC_GONE && to->net && here && to->net != here ? GM_RPC_ELSEWHERE
									   : result;
}

static int link_try(const struct gm_rpc_link *link, const struct gm_rpc_address *to)
{
	struct sockaddr_un name;
	socklen_t n = gm_wire_name(&name, to);
	uint64_t now = gm_clock_ns();
	int failed;
	do {
		gm_sys_send_timeout(link->fd, now < link->end ? link->end - now : 0);
		failed = gm_sys_connect(link->fd, (struct sockaddr *)&name, n);
		now = gm_clock_ns();
	} while (failed && errno == EINTR && now < link->end);
	if (failed && errno == EINTR)
		errno = EAGAIN;
	return failed;
}

enum gm_rpc_result gm_rpc_connect(const struct gm_rpc_address *to, uint64_t patience,
				  struct gm_rpc_link *link)
{
	link->fd = -1;
	if (to->user != geteuid())
		return GM_RPC_STRANGER;
	/* A timeout of 0 would be none. */
	int flags = SOCK_CLOEXEC | (patience ? 0 : SOCK_NONBLOCK);
	int fd = gm_sys_socket(AF_UNIX, SOCK_SEQPACKET | flags);
	fd = fd < 0 ? fd : gm_fd_raise(fd);
	link->fd = fd;
	link->end = patience ? gm_clock_ns() + patience : 0;
	if (fd < 0)
		return GM_RPC_UNABLE;
	enum gm_rpc_result result = GM_RPC_OK;
	if (link_try(link, to))
		result = result_where(to, errno_result());
	else if (!gm_wire_is_ours(fd))
		result = GM_RPC_STRANGER;
	if (result != GM_RPC_OK) {
		int saved = errno;
		gm_rpc_disconnect(link);
		errno = saved;
	}
	return result;
}

/* Wait until a message can be received. */
static enum gm_rpc_result link_wait(const struct gm_rpc_link *link)
{
	uint64_t now;
	do {
		struct pollfd about = {.fd = link->fd, .events = POLLIN};
		now = gm_clock_ns();
		int ready = gm_sys_poll(&about, 1, now < link->end ? link->end - now : 0);
		if (ready > 0)
			return GM_RPC_OK;
		if (ready < 0 && errno != EINTR)
			return GM_RPC_UNABLE;
	} while (now < link->end);
	return GM_RPC_SILENT;
}

enum gm_rpc_result gm_rpc_send(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
			       const struct gm_rpc_message *request)
{
	const struct gm_wire_head head = {.magic = GM_RPC_MAGIC, .kind = (uint16_t)kind};
	return gm_wire_send(link->fd, &head, request) ? GM_RPC_OK : errno_result();
}

enum gm_rpc_result gm_rpc_receive(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
				  struct gm_rpc_message *reply)
{
	struct gm_wire_head head;
	for (;;) {
		enum gm_rpc_result result = link_wait(link);
		if (result != GM_RPC_OK)
			return result;
		if (gm_wire_receive(link->fd, &head, reply, true))
			break;
		if (errno != EAGAIN && errno != EINTR)
			return errno_result();
	}
	if (head.kind == kind && head.result == GM_RPC_OK)
		return GM_RPC_OK;
	gm_rpc_close_all(reply);
	return head.kind == kind ? GM_RPC_REFUSED : GM_RPC_GARBLED;
}

enum gm_rpc_result gm_rpc_ask(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
			      const void *request, size_t size, struct gm_rpc_message *reply)
{
	reply->n_fds = 0; /* the request, sent first, uses the place of the reply */
	reply->size = (uint32_t)size;
	memcpy(reply->data, request, size);
	enum gm_rpc_result result = gm_rpc_send(link, kind, reply);
	return result == GM_RPC_OK ? gm_rpc_receive(link, kind, reply) : result;
}

void gm_rpc_disconnect(struct gm_rpc_link *link)
{
	gm_sys_close(link->fd);
	link->fd = -1;
}
