/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by client and server of src/rpc: socket names, and the wire format of messages. */
#ifndef GM_RPC_WIRE_H
#define GM_RPC_WIRE_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rpc/rpc.h"

/* Precedes each message. Both sides are on one machine, so no field is converted. */
struct gm_wire_head {
	uint32_t magic; /* GM_RPC_MAGIC */
	uint16_t kind;
	uint16_t result; /* enum gm_rpc_result; 0 in a request */
};

/* "gpumem1/USER/GPU/": the start of the names of a user's nodes under a GPU, without the leading
 * zero byte. Returns its length. `room` is at least 64. */
size_t gm_wire_stem(char *to, size_t room, unsigned user, const unsigned char gpu[16]);

/* The name of a node's socket. Returns its length. */
socklen_t gm_wire_name(struct sockaddr_un *name, const struct gm_rpc_address *address);

/* The number of this process' network namespace; 0: unknown. */
uint32_t gm_wire_net(void);

/* Is the other end of the socket a process of this user? */
bool gm_wire_is_ours(int fd);

/*
 * Send or receive one message without waiting. False: errno has the reason: EBADMSG, a message of
 * another form; EMFILE, no number is free for a descriptor; EPIPE, the end of the connection. A
 * received message has its descriptors above 2, close-on-exec; with `fds` false they are dropped.
 */
bool gm_wire_send(int fd, const struct gm_wire_head *head, const struct gm_rpc_message *message);
bool gm_wire_receive(int fd, struct gm_wire_head *head, struct gm_rpc_message *message, bool fds);

#endif
