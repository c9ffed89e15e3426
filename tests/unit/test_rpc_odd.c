/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faulty peers: another user, a silent peer, garbled messages, an unexpected place. The test is
 * linked so that it supplies the kernel's report of the peer's user.
 */
#include "rpc_help.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "base/sys.h"

static atomic_uint lie; /* added to the user id that the kernel reports */

int __real_gm_sys_peer_user(int fd, uid_t *user);
int __wrap_gm_sys_peer_user(int fd, uid_t *user);
int __wrap_gm_sys_peer_user(int fd, uid_t *user)
{
	int result = __real_gm_sys_peer_user(fd, user);
	*user += lie;
	return result;
}

static enum gm_rpc_result yes(enum gm_rpc_kind kind, const void *request, size_t size,
			      struct gm_rpc_message *reply)
{
	(void)kind;
	(void)request;
	(void)size;
	reply->size = 0;
	return GM_RPC_OK;
}

/* --- faulty clients --- */

static int asks(void)
{
	struct gm_rpc_message reply;
	lie = 0;
	return ask(&here, GM_RPC_IPC_OPEN, 2, HOUR, &reply) == GM_RPC_OK ? 7 : 1;
}

static int asks_as_a_stranger(void)
{
	struct gm_rpc_message reply;
	lie = 0;
	return ask(&here, GM_RPC_IPC_OPEN, 2, HOUR, &reply) == GM_RPC_GONE ? 7 : 1;
}

/* Connect to the node without our client code. */
static int raw_connect(void)
{
	struct sockaddr_un name;
	socklen_t n = gm_wire_name(&name, &here);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	return connect(fd, (struct sockaddr *)&name, n) ? -1 : fd;
}

static int is_another_user(void)
{
	char byte;
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 1;
	int fd = raw_connect();
	const struct gm_wire_head head = {.magic = GM_RPC_MAGIC};
	if (fd < 0)
		return 2;
	send(fd, &head, sizeof head, MSG_NOSIGNAL);
	return recv(fd, &byte, 1, 0) <= 0 ? 7 : 3; /* closed without a reply */
}

/* Each must end the connection, and have no other effect. */
static int talks_garbage(void)
{
	static const struct gm_wire_head wrong = {.magic = 7}, good = {.magic = GM_RPC_MAGIC};
	char large[sizeof good + GM_RPC_BYTES + 1] = {0}, byte;
	memcpy(large, &good, sizeof good);
	const struct {
		const void *at;
		size_t n;
	} what[] = {{"x", 1}, {&wrong, sizeof wrong}, {large, sizeof large}, {&good, 3}, {"", 0}};
	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		int fd = raw_connect();
		if (fd < 0)
			return 1;
		send(fd, what[i].at, what[i].n, MSG_NOSIGNAL);
		if (recv(fd, &byte, 1, 0) > 0)
			return 2;
		close(fd);
	}
	return asks();
}

/* Silent connections do not delay others, as long as places are free. */
static int says_nothing(void)
{
	int fd[15];
	for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
		if ((fd[i] = raw_connect()) < 0)
			return 1;
	return asks();
}

/* A request with a descriptor: it must not stay open in the answering process. */
static int sends_a_descriptor(void)
{
	const struct gm_wire_head head = {.magic = GM_RPC_MAGIC};
	struct gm_rpc_message message = {.size = 0, .n_fds = 1, .fds = {STDOUT_FILENO}};
	char reply[64];
	int fd = raw_connect();
	if (fd < 0 || !gm_wire_send(fd, &head, &message))
		return 1;
	return recv(fd, reply, sizeof reply, 0) == (ssize_t)sizeof head ? 7 : 2;
}

static void wrong_askers(void)
{
	gm_rpc_serve(GM_RPC_IPC_OPEN, yes);
	TAP_IS(gm_rpc_join(GPU, &here), 0, "a process joins a node");
	TAP_IS(status_of(asks), 7, "a node answers its own user");
	lie = 1;
	TAP_IS(status_of(asks_as_a_stranger), 7, "a node closes the connection of another user");
	lie = 0;
	if (getuid() == 0)
		TAP_IS(status_of(is_another_user), 7,
		       "a node closes the connection of a user that the kernel reports");
	TAP_IS(status_of(talks_garbage), 7, "garbage ends a connection, and no other");
	unsigned before = open_descriptors();
	TAP_IS(status_of(says_nothing), 7, "silent connections do not delay others");
	TAP_IS(status_of(sends_a_descriptor), 7, "a descriptor in a request is answered");
	TAP_OK(open_descriptors() <= before + 16, "a descriptor in a request is not kept");
}

/* --- faulty servers --- */

static struct gm_rpc_address there;
static int listener;

static void listen_raw(int waiting)
{
	struct sockaddr_un name;
	there = address_of_nobody();
	socklen_t n = gm_wire_name(&name, &there);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	TAP_OK(!bind(listener, (struct sockaddr *)&name, n) && !listen(listener, waiting),
	       "another socket has the name of a node");
}

/* The reply of the raw server. */
static struct {
	struct gm_wire_head head;
	char rest[GM_RPC_BYTES + 8];
	size_t n;
	unsigned fds;
} raw;

static void *reply_raw(void *unused)
{
	char request[64];
	int fd = accept(listener, NULL, NULL);
	if (recv(fd, request, sizeof request, 0) > 0 && raw.fds) {
		struct gm_rpc_message message = {.n_fds = raw.fds};
		for (unsigned i = 0; i < raw.fds; i++)
			message.fds[i] = STDOUT_FILENO;
		gm_wire_send(fd, &raw.head, &message);
	} else if (raw.n) {
		send(fd, &raw, raw.n, MSG_NOSIGNAL);
	}
	close(fd);
	return unused;
}

static enum gm_rpc_result ask_raw(uint32_t magic, uint16_t kind, size_t n, unsigned fds)
{
	struct gm_rpc_message reply;
	pthread_t thread;
	raw.head = (struct gm_wire_head){.magic = magic, .kind = kind};
	raw.n = n;
	raw.fds = fds;
	pthread_create(&thread, NULL, reply_raw, NULL);
	enum gm_rpc_result result = ask(&there, GM_RPC_IPC_OPEN, 2, HOUR, &reply);
	pthread_join(thread, NULL);
	return result;
}

static void nothing(int signal)
{
	(void)signal;
}

static void wrong_answerers(void)
{
	struct gm_rpc_message reply;
	struct gm_rpc_address nobody = address_of_nobody();
	TAP_IS(ask(&nobody, 0, 2, HOUR, &reply), GM_RPC_GONE,
	       "a process that is not there is gone");
	nobody.user++;
	TAP_IS(ask(&nobody, 0, 2, HOUR, &reply), GM_RPC_STRANGER,
	       "a process of another user is a stranger");
	nobody.user--;
	nobody.net++;
	TAP_IS(ask(&nobody, 0, 2, HOUR, &reply), GM_RPC_ELSEWHERE,
	       "a process in another network namespace is elsewhere");
	nobody.net = 0;
	TAP_IS(ask(&nobody, 0, 2, HOUR, &reply), GM_RPC_GONE,
	       "a process in an unknown namespace is gone");
	listen_raw(8);
	unsigned before = open_descriptors();
	lie = 1;
	TAP_IS(ask(&there, 0, 2, HOUR, &reply), GM_RPC_STRANGER, "another user is not asked");
	lie = 0;
	close(accept(listener, NULL, NULL));
	TAP_IS(ask_raw(7, 0, sizeof raw.head, 0), GM_RPC_GARBLED, "a wrong magic is garbage");
	TAP_IS(ask_raw(GM_RPC_MAGIC, 1, sizeof raw.head, 0), GM_RPC_GARBLED,
	       "a wrong kind is garbage");
	TAP_IS(ask_raw(GM_RPC_MAGIC, 0, 3, 0), GM_RPC_GARBLED, "a short message is garbage");
	TAP_IS(ask_raw(GM_RPC_MAGIC, 0, sizeof raw.head + GM_RPC_BYTES + 1, 0), GM_RPC_GARBLED,
	       "a long message is garbage");
	TAP_IS(ask_raw(0, 0, 0, 0), GM_RPC_GONE, "a process that ends before its answer is gone");
	TAP_IS(ask_raw(7, 0, 0, 5), GM_RPC_GARBLED,
	       "a message of garbage with descriptors is garbled");
	TAP_IS(ask_raw(GM_RPC_MAGIC, 1, 0, 5), GM_RPC_GARBLED,
	       "a reply of a wrong kind is garbled");
	TAP_IS(open_descriptors(), before, "descriptors with garbage are closed");
}

static void silent_answerers(void)
{
	struct gm_rpc_message reply;
	struct itimerval often = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}};
	const struct sigaction interrupt = {.sa_handler = nothing};
	unsigned before = open_descriptors();
	TAP_IS(ask(&there, 0, 2, 20 * MS, &reply), GM_RPC_SILENT,
	       "a node without an answer is silent");
	sigaction(SIGALRM, &interrupt, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	TAP_IS(ask(&there, 0, 2, 20 * MS, &reply), GM_RPC_SILENT,
	       "signals do not make a silent node answer");
	close(listener);
	listen_raw(0);
	struct gm_rpc_link first, second;
	gm_rpc_connect(&there, HOUR, &first);
	TAP_IS(gm_rpc_connect(&there, 20 * MS, &second), GM_RPC_SILENT,
	       "a node that does not accept is silent");
	TAP_IS(gm_rpc_connect(&there, 0, &second), GM_RPC_SILENT,
	       "a full queue is silent at once to who has no patience");
	gm_rpc_disconnect(&first);
	close(accept(listener, NULL, NULL));
	TAP_IS(gm_rpc_connect(&there, 0, &first), GM_RPC_OK,
	       "a node is reached by who has no patience");
	TAP_IS(gm_rpc_receive(&first, GM_RPC_GIVE, &reply), GM_RPC_SILENT,
	       "a link made without patience waits for no reply");
	gm_rpc_disconnect(&first);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0}}, NULL);
	TAP_IS(open_descriptors(), before, "no descriptor is left");
	close(listener);
}

static void words(void)
{
	for (unsigned i = 0; i <= GM_RPC_UNABLE; i++) {
		errno = EMFILE;
		TAP_OK(strlen(gm_rpc_why((enum gm_rpc_result)i)) > 5, "result %u has words", i);
	}
}

int main(void)
{
	wrong_answerers(); /* these count descriptors, so no node thread that closes some may run
			    * yet */
	silent_answerers();
	wrong_askers();
	words();
	return tap_done();
}
