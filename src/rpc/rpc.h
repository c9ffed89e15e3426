/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes: the only way in which the preloaded processes of one user talk to each other.
 *
 *     the process that asks                     the process that answers
 *     ---------------------                     ------------------------
 *                                               gm_rpc_join: a socket for each GPU; the thread
 *     gm_rpc_each: which nodes exist?          gpumem-node is parked in poll
 *     gm_rpc_connect  ---------- socket ---->  accept; another user: closed
 *     gm_rpc_ask      ---------- request --->  the answer of the kind (kinds.def), on the thread
 *                      <--- reply, descriptors
 *     gm_rpc_disconnect
 *
 * A node is an abstract socket, a name without a file. The kernel drops it when the process ends in
 * any way, so the registry of nodes is the kernel's list of sockets. The name holds the user, the
 * GPU's UUID, the process and a random number:
 *
 *     @gpumem1/1000/3f2a...9c/4711-b20c1d5e9a7f0316
 *
 * Each side asks the kernel for the user of the other side, and talks to its own user alone. A
 * process whose user is not known (user.c) finds nobody, and answers only requests with a secret.
 * No socket of another network namespace, as containers have, can be reached; a node's address
 * includes its namespace.
 *
 * Every wait is bounded: the asking process has its patience, and the thread answers at once, or
 * closes the connection. Any thread may call any function here, with no lock held.
 */
#ifndef GM_RPC_RPC_H
#define GM_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_RPC_BYTES 1024 /* of a message */
#define GM_RPC_FDS 65	  /* of a message */
#define GM_RPC_GPUS 64	  /* that a process can join */

enum gm_rpc_kind {
#define GM_RPC_KIND(name, asker, help) GM_RPC_##name,
#include "rpc/kinds.def"
#undef GM_RPC_KIND
	GM_RPC_KINDS
};

/* Enough to find a node from any process. Without padding: it is sent as it is. */
struct gm_rpc_address {
	uint32_t magic;	       /* GM_RPC_MAGIC */
	uint32_t user;	       /* effective, of that process */
	uint32_t pid;	       /* in its namespace */
	uint32_t net;	       /* number of its network namespace; 0: unknown */
	uint64_t nonce;	       /* of the process; 0 in no address */
	unsigned char gpu[16]; /* UUID */
};
#define GM_RPC_MAGIC 0x316e6d67u /* "gmn1": the protocol; larger than any process id */

/* The owner of a message owns its descriptors, and closes them by gm_rpc_close_all. */
struct gm_rpc_message {
	uint32_t size, n_fds;
	int fds[GM_RPC_FDS];
	_Alignas(8) unsigned char data[GM_RPC_BYTES];
};
void gm_rpc_close_all(struct gm_rpc_message *message);

enum gm_rpc_result {
	GM_RPC_OK,
	GM_RPC_GONE,	  /* the process has ended, before the call or during it */
	GM_RPC_ELSEWHERE, /* the process is in another network namespace */
	GM_RPC_STRANGER,  /* the socket belongs to another user */
	GM_RPC_SILENT,	  /* no answer in time */
	GM_RPC_GARBLED,	  /* the reply is not of this protocol */
	GM_RPC_REFUSED,	  /* the other process refused */
	GM_RPC_UNABLE	  /* this process cannot; errno has the reason */
};

/* The reason of a failed call, a sentence without a full stop: "it has ended". Reads errno. */
const char *gm_rpc_why(enum gm_rpc_result result);

/* --- to answer --- */

/*
 * The answer to requests of a kind. Runs on the node's thread, signals blocked, no lock held,
 * never after gm_rpc_exit. `reply` begins empty; its descriptors are closed once they were sent.
 * Not GM_RPC_OK: the request is refused.
 */
typedef enum gm_rpc_result gm_rpc_answer(enum gm_rpc_kind kind, const void *request, size_t size,
					 struct gm_rpc_message *reply);

/* In an answer: the process that asks, in this pid namespace; 0: it is outside. */
int gm_rpc_asker(void);

/* From now on requests of this kind are answered; earlier ones are refused. */
void gm_rpc_serve(enum gm_rpc_kind kind, gm_rpc_answer *answer);

/* Let others find this process under this GPU: makes the socket and the thread, if they do not
 * exist. Returns 0, and the node's address; or an errno. Call again before each use: the program
 * may have closed the socket. */
int gm_rpc_join(const unsigned char gpu[16], struct gm_rpc_address *out);

/* Is this the address of a node of this process? */
int gm_rpc_is_mine(const struct gm_rpc_address *address);

/* False: another user's processes may seem to be of this one. In a user namespace (a container) the
 * kernel shows each user outside as the overflow user, and this process runs as that user. */
bool gm_rpc_user_is_known(void);

/* The process exits: answer no more requests, and wait for one in progress, a second at most. */
void gm_rpc_exit(void);

/* In a forked child: it has no nodes. Closes the parent's sockets in the child. */
void gm_rpc_forget(void);

/* --- to ask --- */

/* Call `each` for the nodes of this user under a GPU (NULL: any), except nodes of this process. */
void gm_rpc_each(const unsigned char gpu[16],
		 void (*each)(void *arg, const struct gm_rpc_address *address), void *arg);

struct gm_rpc_link {
	int fd;	      /* close-on-exec */
	uint64_t end; /* time until which replies are awaited */
};

/* Connect to a node. `patience`: ns that this call and all replies may take together; 0: nothing
 * waits, and a node whose queue of connections is full is silent. A caller without a bound for all
 * replies sets link->end before each. On GM_RPC_OK the caller owns the link until
 * gm_rpc_disconnect. Anyone may bind the name
 * of a node, so several addresses may have the same pid; GM_RPC_STRANGER tells those of other
 * users. */
enum gm_rpc_result gm_rpc_connect(const struct gm_rpc_address *to, uint64_t patience,
				  struct gm_rpc_link *link);

/* The two halves of gm_rpc_ask, so that several nodes work at the same time: send a request, which
 * does not wait and keeps no descriptor of it; wait for its reply. */
enum gm_rpc_result gm_rpc_send(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
			       const struct gm_rpc_message *request);
enum gm_rpc_result gm_rpc_receive(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
				  struct gm_rpc_message *reply);

/* Ask, and wait for the reply. `size` is at most GM_RPC_BYTES. On GM_RPC_OK the caller owns
 * *reply and its descriptors, close-on-exec; otherwise *reply has no descriptors. */
enum gm_rpc_result gm_rpc_ask(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
			      const void *request, size_t size, struct gm_rpc_message *reply);

void gm_rpc_disconnect(struct gm_rpc_link *link);

#endif
