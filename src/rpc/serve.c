/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that answers: its sockets, and the thread gpumem-node, which is parked in poll.
 *
 * The program may close any descriptor and open a file of its own under the number, so each is
 * checked before it is used. A forked child closes the sockets that it inherited: otherwise a
 * process that waits for the parent would not see the parent end.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/worker.h"
#include "rpc/wire.h"

#define GUESTS 16	  /* connections at once */
#define WAITING 64	  /* connections that wait to be accepted */
#define STAY 10000000000u /* ns that a connection may be silent */
#define REOPEN_TRIES 1000
#define REOPEN_NAP 1000000u    /* ns between two of them, and after a failed accept or poll */
#define CHECK_EVERY 250000000u /* ns between checks whether the program's threads have ended */

/* A socket. The node's thread writes those of guests; a forked child reads them. */
struct end {
	atomic_int fd; /* -1: none */
	struct gm_fd_identity is;
	uint64_t until; /* of a guest */
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static struct node {
	struct end end;
	struct gm_rpc_address address;
} nodes[GM_RPC_GPUS]; /* added under the lock, and read without it up to n_nodes */
static atomic_uint n_nodes;
static _Atomic uint64_t nonce; /* 0: no node yet */
static struct end guests[GUESTS];
static atomic_bool guests_ready;
static _Atomic(gm_rpc_answer *) answers[GM_RPC_KINDS];
static struct gm_worker worker;
static struct gm_gate gate;
static int asker = -1; /* of the thread: the socket of the guest that is answered */

/* --- sockets --- */

/* Its descriptor, if it is still open on our socket; else -1. */
static int end_fd(const struct end *end)
{
	int fd = atomic_load(&end->fd);
	return fd >= 0 && gm_fd_is(fd, &end->is) ? fd : -1;
}

/* Takes over `fd`. False: `fd` is closed. */
static bool end_open(struct end *end, int fd)
{
	fd = fd < 0 ? fd : gm_fd_raise(fd);
	if (fd < 0)
		return false;
	if (!gm_fd_identify(fd, &end->is)) {
		gm_sys_close(fd);
		return false;
	}
	atomic_store(&end->fd, fd);
	return true;
}

/* In this order: a child that is forked in between finds the number closed, or closes it. */
static void end_close(struct end *end)
{
	int fd = end_fd(end);
	if (fd >= 0)
		gm_sys_close(fd);
	atomic_store(&end->fd, -1);
}

/* --- the thread --- */

/* The answer to a request of this kind; NULL: it is refused. */
static gm_rpc_answer *answer_find(unsigned kind)
{
	enum asker { USER, SECRET };
	static const enum asker askers[] = {
#define GM_RPC_KIND(name, asker, help) asker,
#include "rpc/kinds.def"
#undef GM_RPC_KIND
	};
	if (kind >= GM_RPC_KINDS || (askers[kind] == USER && !gm_rpc_user_is_known()))
		return NULL;
	return atomic_load(&answers[kind]);
}

static void guest_answer(struct end *guest, int fd, const struct gm_wire_head *head,
			 struct gm_rpc_message *request)
{
	struct gm_rpc_message reply = {.size = 0};
	struct gm_wire_head reply_head = {GM_RPC_MAGIC, head->kind, GM_RPC_REFUSED};
	gm_rpc_answer *answer = answer_find(head->kind);
	asker = fd;
	if (answer && gm_gate_enter(&gate)) {
		reply_head.result =
			(uint16_t)answer(head->kind, request->data, request->size, &reply);
		gm_gate_leave(&gate);
	}
	if (reply_head.result != GM_RPC_OK) {
		gm_rpc_close_all(&reply);
		reply.size = 0;
	}
	guest->until = gm_clock_ns() + STAY;
	if (!gm_wire_send(fd, &reply_head, &reply))
		end_close(guest);
	gm_rpc_close_all(&reply);
}

int gm_rpc_asker(void)
{
	return gm_sys_peer_pid(asker);
}

/* Serve a request, or the end of the connection. Anything else ends the connection. */
static void guest_serve(struct end *guest)
{
	struct gm_rpc_message request;
	struct gm_wire_head head;
	int fd = end_fd(guest);
	if (fd >= 0 && gm_wire_receive(fd, &head, &request, false))
		guest_answer(guest, fd, &head, &request);
	else if (fd < 0 || (errno != EAGAIN && errno != EINTR))
		end_close(guest);
}

static void node_accept(const struct node *node, struct end *guest)
{
	gm_lock_take(&lock);
	int from = end_fd(&node->end);
	gm_lock_release(&lock);
	int fd = from < 0 ? -1 : gm_sys_accept(from, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0 && !gm_wire_is_ours(fd)) {
		gm_sys_close(fd);
		return;
	}
	if (fd < 0 && from >= 0 && errno != EAGAIN)
		gm_sys_nap(REOPEN_NAP); /* no number is free: poll would return at once */
	guest->until = gm_clock_ns() + STAY;
	end_open(guest, fd);
}

static struct end *guest_free(void)
{
	for (unsigned i = 0; i < GUESTS; i++)
		if (atomic_load(&guests[i].fd) < 0)
			return &guests[i];
	return NULL;
}

/* The sockets that the thread waits for, each with its guest or node. */
struct watch {
	struct pollfd set[GUESTS + GM_RPC_GPUS];
	struct end *guest[GUESTS + GM_RPC_GPUS]; /* NULL: a node's */
	const struct node *node[GUESTS + GM_RPC_GPUS];
	unsigned n, n_nodes;
};

static void watch_add(struct watch *w, struct end *guest, const struct node *node)
{
	int fd = end_fd(guest ? guest : &node->end);
	if (fd < 0)
		return;
	w->set[w->n] = (struct pollfd){.fd = fd, .events = POLLIN};
	w->guest[w->n] = guest;
	w->node[w->n++] = node;
	w->n_nodes += node != NULL;
}

/* While all places are taken, further connections wait in the kernel. */
static void watch_fill(struct watch *w)
{
	uint64_t now = gm_clock_ns();
	w->n = w->n_nodes = 0;
	gm_lock_take(&lock);
	for (unsigned i = 0; i < GUESTS; i++) {
		if (now >= guests[i].until)
			end_close(&guests[i]);
		watch_add(w, &guests[i], NULL);
	}
	for (unsigned i = 0; i < atomic_load(&n_nodes); i++)
		watch_add(w, NULL, &nodes[i]);
	gm_lock_release(&lock);
}

static void watch_serve(const struct watch *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct end *place;
		if (!w->set[i].revents)
			continue;
		if (w->guest[i])
			guest_serve(w->guest[i]);
		else if ((place = guest_free()))
			node_accept(w->node[i], place);
	}
}

/* Nodes are last in the set: they are left out while no place is free. */
static unsigned watch_length(const struct watch *w)
{
	return guest_free() ? w->n : w->n - w->n_nodes;
}

static bool nodes_any(void)
{
	bool any = false;
	gm_lock_take(&lock);
	for (unsigned i = 0; i < atomic_load(&n_nodes) && !any; i++)
		any = end_fd(&nodes[i].end) >= 0;
	gm_lock_release(&lock);
	return any;
}

/* False: the program has closed all sockets. The maker of a socket after gm_worker_end starts
 * another thread. */
static bool node_stay(void)
{
	if (nodes_any())
		return true;
	for (unsigned i = 0; i < GUESTS; i++)
		end_close(&guests[i]);
	gm_worker_end(&worker);
	return nodes_any() && gm_worker_claim(&worker);
}

static void node_run(void *unused)
{
	struct watch w;
	const uint64_t most = gm_worker_check(CHECK_EVERY);
	(void)unused;
	while (node_stay()) {
		watch_fill(&w);
		int ready = gm_sys_poll(w.set, watch_length(&w), most);
		if (ready > 0)
			watch_serve(&w);
		else if (ready < 0 && errno != EINTR)
			gm_sys_nap(REOPEN_NAP); /* the kernel lacks memory */
		if (!gm_worker_may_stay(&worker, CHECK_EVERY)) {
			gm_worker_end(&worker);
			return; /* exit handlers of the program may follow */
		}
	}
}

/* --- joining --- */

void gm_rpc_serve(enum gm_rpc_kind kind, gm_rpc_answer *answer)
{
	atomic_store(&answers[kind], answer);
}

static uint64_t node_nonce(void)
{
	uint64_t value = 0;
	if (gm_sys_random(&value, sizeof value) != sizeof value) /* unique, if not secret */
		value = gm_clock_wall_ns() ^ (uint64_t)getpid() << 40;
	return value | 1;
}

/* A socket that listens under the node's name, or -1. */
static int node_listen(const struct gm_rpc_address *address)
{
	struct sockaddr_un name;
	socklen_t n = gm_wire_name(&name, address);
	int fd = gm_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return -1;
	if (!gm_sys_bind(fd, (struct sockaddr *)&name, n) && !gm_sys_listen(fd, WAITING))
		return fd;
	int saved = errno;
	gm_sys_close(fd);
	errno = saved;
	return -1;
}

/* Make the thread read the list of nodes again: a short connection wakes it. */
static void node_poke(const struct gm_rpc_address *address)
{
	struct sockaddr_un name;
	socklen_t n = gm_wire_name(&name, address);
	int fd = gm_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	gm_sys_connect(fd, (struct sockaddr *)&name, n);
	gm_sys_close(fd);
}

static void guests_begin(void)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (unsigned i = 0; i < GUESTS && !atomic_load(&guests_ready); i++)
		atomic_store(&guests[i].fd, -1);
	atomic_store(&guests_ready, true);
}

static struct node *node_find(const unsigned char gpu[16])
{
	unsigned n = atomic_load(&n_nodes);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (unsigned i = 0; i < n; i++)
		if (memcmp(nodes[i].address.gpu, gpu, sizeof nodes[i].address.gpu) == 0)
			return &nodes[i];
	return NULL;
}

/* Make the node's socket, unless it exists. 0 or an errno; *made: it did not exist. */
static int node_open(const unsigned char gpu[16], struct gm_rpc_address *out, bool *made)
{
	struct node *node = node_find(gpu);
	unsigned n = atomic_load(&n_nodes);
	if (!node && n == GM_RPC_GPUS)
		return ENOSPC;
	if (!atomic_load(&nonce))
		atomic_store(&nonce, node_nonce());
	if (!node) {
		node = &nodes[n];
		atomic_store(&node->end.fd, -1);
		node->address = (struct gm_rpc_address){.magic = GM_RPC_MAGIC,
							.user = geteuid(),
							.nonce = atomic_load(&nonce),
							.pid = (uint32_t)getpid(),
							.net = gm_wire_net()};
		memcpy(node->address.gpu, gpu, sizeof node->address.gpu);
	}
	*out = node->address;
	*made = end_fd(&node->end) < 0;
	if (*made && !end_open(&node->end, node_listen(&node->address)))
		return errno;
	if (node == &nodes[n])
		atomic_store(&n_nodes, n + 1);
	return 0;
}

/* The thread could not be started: whoever connects would wait in vain. */
static void nodes_withdraw(void)
{
	gm_worker_end(&worker);
	gm_lock_take(&lock);
	for (unsigned i = 0; i < atomic_load(&n_nodes) && !gm_worker_is_running(&worker); i++)
		end_close(&nodes[i].end);
	gm_lock_release(&lock);
}

int gm_rpc_join(const unsigned char gpu[16], struct gm_rpc_address *out)
{
	bool made;
	int error, tries = 0;
	if (gm_gate_is_closed(&gate))
		return ESHUTDOWN;
	gm_lock_take(&lock);
	guests_begin();
	/* If the program has closed the socket, the thread's poll keeps the name in use until it
	 * returns. */
	while ((error = node_open(gpu, out, &made)) == EADDRINUSE && tries++ < REOPEN_TRIES) {
		gm_lock_release(&lock);
		node_poke(out);
		gm_sys_nap(REOPEN_NAP);
		gm_lock_take(&lock);
	}
	struct gm_rpc_address first = nodes[0].address;
	gm_lock_release(&lock);
	if (error)
		return error;
	error = gm_worker_start(&worker, "gpumem-node", node_run, NULL);
	if (error)
		nodes_withdraw(); /* the next call tries again */
	else if (made)
		node_poke(&first);
	return error;
}

int gm_rpc_is_mine(const struct gm_rpc_address *address)
{
	uint64_t mine = atomic_load(&nonce);
	return mine && address->nonce == mine;
}

void gm_rpc_exit(void)
{
	gm_gate_close(&gate);
}

void gm_rpc_forget(void)
{
	for (unsigned i = 0; i < atomic_load(&n_nodes); i++)
		end_close(&nodes[i].end);
	for (unsigned i = 0; i < GUESTS && atomic_load(&guests_ready); i++)
		end_close(&guests[i]);
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	atomic_store(&n_nodes, 0);
	atomic_store(&nonce, 0);
	gm_worker_forget(&worker);
	gm_gate_forget(&gate);
}
