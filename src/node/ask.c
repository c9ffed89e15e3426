/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that asks. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "node/wire.h"

const char *gm_node_why(enum gm_node_result result)
{
	switch (result) {
	case GM_NODE_OK:
		return "it answered";
	case GM_NODE_GONE:
		return "it has ended";
	case GM_NODE_ELSEWHERE:
		return "it is in another network namespace, as containers are; let them share one "
		       "(docker run --network=container:NAME)";
	case GM_NODE_STRANGER:
		return "it belongs to another user";
	case GM_NODE_SILENT:
		return "it does not answer; is it stopped?";
	case GM_NODE_GARBLED:
		return "its answer is not understood; does it run another release of gpumem?";
	case GM_NODE_REFUSED:
		return "it has no such memory any more";
	case GM_NODE_UNABLE:
	default:
		return strerror(errno);
	}
}

/* The reason of a failed call on the socket. */
static enum gm_node_result errno_result(void)
{
	switch (errno) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ENOENT:
	case EPIPE:
		return GM_NODE_GONE;
	case EAGAIN: /* the timeout of connect; at once if it may not wait */
		return GM_NODE_SILENT;
	case EBADMSG:
		return GM_NODE_GARBLED;
	default:
		return GM_NODE_UNABLE;
	}
}

/* In another network namespace (a container) the kernel finds no socket of that name. */
static enum gm_node_result result_where(const struct gm_node_address *to,
					enum gm_node_result result)
{
	uint32_t here = gm_wire_net();
	return result == GM_NODE_GONE && to->net && here && to->net != here ? GM_NODE_ELSEWHERE
									    : result;
}

static int link_try(const struct gm_node_link *link, const struct gm_node_address *to)
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

enum gm_node_result gm_node_connect(const struct gm_node_address *to, uint64_t patience,
				    struct gm_node_link *link)
{
	link->fd = -1;
	if (to->user != geteuid())
		return GM_NODE_STRANGER;
	/* A timeout of 0 would be none. */
	int flags = SOCK_CLOEXEC | (patience ? 0 : SOCK_NONBLOCK);
	int fd = gm_sys_socket(AF_UNIX, SOCK_SEQPACKET | flags);
	fd = fd < 0 ? fd : gm_fd_raise(fd);
	link->fd = fd;
	link->end = patience ? gm_clock_ns() + patience : 0;
	if (fd < 0)
		return GM_NODE_UNABLE;
	enum gm_node_result result = GM_NODE_OK;
	if (link_try(link, to))
		result = result_where(to, errno_result());
	else if (!gm_wire_is_ours(fd))
		result = GM_NODE_STRANGER;
	if (result != GM_NODE_OK) {
		int saved = errno;
		gm_node_disconnect(link);
		errno = saved;
	}
	return result;
}

/* Wait until a message can be received. */
static enum gm_node_result link_wait(const struct gm_node_link *link)
{
	uint64_t now;
	do {
		struct pollfd about = {.fd = link->fd, .events = POLLIN};
		now = gm_clock_ns();
		int ready = gm_sys_poll(&about, 1, now < link->end ? link->end - now : 0);
		if (ready > 0)
			return GM_NODE_OK;
		if (ready < 0 && errno != EINTR)
			return GM_NODE_UNABLE;
	} while (now < link->end);
	return GM_NODE_SILENT;
}

enum gm_node_result gm_node_send(const struct gm_node_link *link, enum gm_node_kind kind,
				 const struct gm_node_message *request)
{
	const struct gm_wire_head head = {.magic = GM_NODE_MAGIC, .kind = (uint16_t)kind};
	return gm_wire_send(link->fd, &head, request) ? GM_NODE_OK : errno_result();
}

enum gm_node_result gm_node_receive(const struct gm_node_link *link, enum gm_node_kind kind,
				    struct gm_node_message *reply)
{
	struct gm_wire_head head;
	for (;;) {
		enum gm_node_result result = link_wait(link);
		if (result != GM_NODE_OK)
			return result;
		if (gm_wire_receive(link->fd, &head, reply, true))
			break;
		if (errno != EAGAIN && errno != EINTR)
			return errno_result();
	}
	if (head.kind == kind && head.result == GM_NODE_OK)
		return GM_NODE_OK;
	gm_node_close_all(reply);
	return head.kind == kind ? GM_NODE_REFUSED : GM_NODE_GARBLED;
}

enum gm_node_result gm_node_ask(const struct gm_node_link *link, enum gm_node_kind kind,
				const void *request, size_t size, struct gm_node_message *reply)
{
	reply->n_fds = 0; /* the request, sent first, uses the place of the reply */
	reply->size = (uint32_t)size;
	memcpy(reply->data, request, size);
	enum gm_node_result result = gm_node_send(link, kind, reply);
	return result == GM_NODE_OK ? gm_node_receive(link, kind, reply) : result;
}

void gm_node_disconnect(struct gm_node_link *link)
{
	gm_sys_close(link->fd);
	link->fd = -1;
}
