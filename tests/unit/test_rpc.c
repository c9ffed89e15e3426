/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes of one user that talk: discovery, the messages, and the end of a connection. */
#include "rpc_help.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int pipe_ends[2];

/* Answers with the request, and with `size` descriptors of a pipe; refuses odd sizes. */
static enum gm_rpc_result echo(enum gm_rpc_kind kind, const void *request, size_t size,
			       struct gm_rpc_message *reply)
{
	(void)kind;
	if (size % 2)
		return GM_RPC_REFUSED;
	memcpy(reply->data, request, size);
	reply->size = (uint32_t)size;
	while (reply->n_fds < size && reply->n_fds < GM_RPC_FDS)
		reply->fds[reply->n_fds++] = dup(pipe_ends[1]);
	return GM_RPC_OK;
}

static void joins(void)
{
	struct gm_rpc_address again = {.nonce = 0}, other;
	TAP_IS(pipe(pipe_ends), 0, "a pipe is made");
	TAP_OK(!gm_rpc_is_mine(&again), "a process without a node has no address");
	TAP_IS(gm_rpc_join(GPU, &here), 0, "a process joins under a GPU");
	TAP_OK(gm_rpc_is_mine(&here) && here.pid == (uint32_t)getpid() && here.nonce,
	       "the address of a process is its own");
	TAP_IS(gm_rpc_join(GPU, &again), 0, "joining again is no error");
	TAP_OK(memcmp(&again, &here, sizeof here) == 0, "joining again gives the same address");
	TAP_IS(gm_rpc_join(OTHER, &other), 0, "the process joins under a second GPU");
	TAP_OK(other.nonce == here.nonce && memcmp(other.gpu, OTHER, sizeof OTHER) == 0,
	       "the second address names the same process");
}

/* --- observed in a child --- */

static int asks(void)
{
	struct gm_rpc_message reply;
	struct stat mine, theirs;
	if (ask(&here, GM_RPC_IPC_OPEN, 2, HOUR, &reply) != GM_RPC_OK)
		return 1;
	if (reply.size != 2 || reply.data[0] != 1 || reply.data[1] != 2 || reply.n_fds != 2)
		return 2;
	if (fstat(pipe_ends[1], &mine) || fstat(reply.fds[0], &theirs) ||
	    mine.st_ino != theirs.st_ino)
		return 3;
	if (reply.fds[0] <= STDERR_FILENO || !(fcntl(reply.fds[1], F_GETFD) & FD_CLOEXEC))
		return 4;
	gm_rpc_close_all(&reply);
	return 7;
}

static int asks_for_most(void)
{
	unsigned before = open_descriptors();
	struct gm_rpc_message reply;
	if (ask(&here, GM_RPC_IPC_OPEN, GM_RPC_BYTES, HOUR, &reply) != GM_RPC_OK)
		return 1;
	if (reply.size != GM_RPC_BYTES || reply.n_fds != GM_RPC_FDS ||
	    open_descriptors() != before + GM_RPC_FDS)
		return 2;
	gm_rpc_close_all(&reply);
	return open_descriptors() == before ? 7 : 3;
}

static int asks_twice_on_one_link(void)
{
	struct gm_rpc_link link;
	struct gm_rpc_message reply;
	if (gm_rpc_connect(&here, HOUR, &link) != GM_RPC_OK)
		return 1;
	for (unsigned char i = 0; i < 100; i++) {
		unsigned char request[2] = {i, i};
		if (gm_rpc_ask(&link, GM_RPC_IPC_OPEN, request, 2, &reply) != GM_RPC_OK ||
		    reply.data[1] != i)
			return 2;
		gm_rpc_close_all(&reply);
	}
	gm_rpc_disconnect(&link);
	return 7;
}

static int is_refused(void)
{
	struct gm_rpc_message reply;
	return ask(&here, GM_RPC_IPC_OPEN, 3, HOUR, &reply) == GM_RPC_REFUSED &&
			       ask(&here, GM_RPC_KINDS, 2, HOUR, &reply) == GM_RPC_REFUSED &&
			       ask(&here, 65535, 2, HOUR, &reply) == GM_RPC_REFUSED
		       ? 7
		       : 1;
}

/* Memcheck handles the limit of descriptors itself, so that the kernel's limit is not in force. */
static bool has_limits(void)
{
	return !getenv("TEST_UNDER");
}

/* A reply whose descriptor finds no free number is no reply; no descriptor leaks. */
static int lacks_descriptors(void)
{
	struct gm_rpc_link link;
	struct gm_rpc_message reply;
	struct rlimit few;
	if (gm_rpc_connect(&here, HOUR, &link) != GM_RPC_OK)
		return 1;
	unsigned before = open_descriptors();
	getrlimit(RLIMIT_NOFILE, &few);
	few.rlim_cur = before + 10; /* numbers beyond it are in use */
	setrlimit(RLIMIT_NOFILE, &few);
	enum gm_rpc_result result = gm_rpc_ask(&link, GM_RPC_IPC_OPEN, (char[200]){0}, 200, &reply);
	return result == GM_RPC_UNABLE && errno == EMFILE && open_descriptors() == before ? 7 : 2;
}

static int asks_without_standard_input(void)
{
	struct gm_rpc_link link;
	close(STDIN_FILENO);
	if (gm_rpc_connect(&here, HOUR, &link) != GM_RPC_OK)
		return 1;
	bool clear = link.fd > STDERR_FILENO && is_free(STDIN_FILENO);
	gm_rpc_disconnect(&link);
	return clear ? 7 : 2;
}

static unsigned found;

static void count(void *arg, const struct gm_rpc_address *address)
{
	found += memcmp(address, arg, sizeof *address) == 0;
}

static int finds(void)
{
	unsigned before = open_descriptors();
	found = 0;
	gm_rpc_each(GPU, count, &here);
	return found == 1 && open_descriptors() == before ? 7 : (int)found;
}

static void children_ask(void)
{
	unsigned before = open_descriptors();
	TAP_IS(status_of(is_refused), 7, "nothing is answered before it is served");
	gm_rpc_serve(GM_RPC_IPC_OPEN, echo);
	TAP_IS(status_of(asks), 7, "a process asks another, and gets bytes and descriptors");
	TAP_IS(status_of(asks_for_most), 7, "the largest message and all descriptors arrive");
	TAP_IS(status_of(asks_twice_on_one_link), 7, "a connection serves many requests");
	TAP_IS(status_of(is_refused), 7, "refused and unknown requests are distinguished");
	TAP_IS(status_of(asks_without_standard_input), 7,
	       "a connection leaves a closed standard input closed");
	if (has_limits())
		TAP_IS(status_of(lacks_descriptors), 7,
		       "no descriptor is kept when there are too few numbers");
	/* The node's thread closes what it has sent; the child may have ended before. */
	for (unsigned i = 0; i < 60000 && open_descriptors() > before + 16; i++)
		usleep(1000);
	TAP_OK(open_descriptors() <= before + 16, "connections are kept, sent descriptors are not");
	found = 0;
	gm_rpc_each(GPU, count, &here);
	TAP_IS(found, 0, "a process does not find itself");
	TAP_IS(status_of(finds), 7, "another process finds it once, under its GPU");
}

/* --- the program closes descriptors --- */

/* The sockets of the process; `listening`: without connections that the thread has not closed
 * yet. */
static unsigned sockets(int at[8], bool listening)
{
	unsigned n = 0;
	for (int fd = 3; fd < 1024; fd++) {
		int listens;
		socklen_t length = sizeof listens;
		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) && n < 8 &&
		    (listens || !listening))
			at[n++] = fd;
	}
	return n;
}

static void program_closes(void)
{
	int at[8], file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	unsigned n = sockets(at, true);
	struct gm_rpc_address again;
	TAP_OK(n == 2 && at[0] >= 200, "a socket a GPU, clear of the program's numbers");
	for (unsigned i = 0; i < n; i++)
		TAP_IS(dup2(file, at[i]), at[i], "the program takes number %u for a file", i);
	TAP_IS(gm_rpc_join(GPU, &again), 0, "the process can join again");
	TAP_OK(memcmp(&again, &here, sizeof here) == 0,
	       "a process that joins again has its old address");
	TAP_IS(status_of(asks), 7, "the process answers again");
	for (unsigned i = 0; i < n; i++)
		TAP_OK(!is_free(at[i]), "the program's file %u is still open", i);
	for (unsigned i = 0; i < n; i++)
		close(at[i]);
	close(file);
}

/* --- no number is free for a connection --- */

static int gets_no_answer(void)
{
	struct gm_rpc_message reply;
	return ask(&here, GM_RPC_IPC_OPEN, 2, 20 * MS, &reply) == GM_RPC_SILENT ? 7 : 1;
}

static void lacks_numbers(void)
{
	struct rlimit all, none;
	getrlimit(RLIMIT_NOFILE, &all);
	none = all;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	/* The child has a limit of its own. */
	fflush(stdout);
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_NOFILE, &all);
		gm_rpc_forget();
		_exit(gets_no_answer());
	}
	waitpid(pid, &status, 0);
	setrlimit(RLIMIT_NOFILE, &all);
	TAP_IS(status, 7 << 8, "a process that can open nothing more is silent");
	TAP_IS(status_of(asks), 7, "the process answers when it can open descriptors again");
}

/* --- ends --- */

/* A process that joins, forks a child that outlives it, reports its address, and dies. */
static pid_t dies_with_a_child(int to)
{
	struct gm_rpc_address address;
	fflush(stdout);
	pid_t pid = fork();
	if (pid)
		return pid;
	gm_rpc_forget();
	gm_rpc_join(GPU, &address);
	if (fork() == 0) {
		char byte;
		gm_rpc_forget();
		close(to);
		close(pipe_ends[1]);
		_exit(read(pipe_ends[0], &byte, 1) != 0); /* until the test ends */
	}
	if (write(to, &address, sizeof address) < 0)
		_exit(1);
	for (;;)
		pause();
}

static void killed(void)
{
	int told[2], status;
	struct gm_rpc_address address = {.nonce = 0};
	struct gm_rpc_message reply;
	if (pipe(told))
		return;
	pid_t pid = dies_with_a_child(told[1]);
	TAP_IS(read(told[0], &address, sizeof address), sizeof address,
	       "another process joins a node");
	TAP_IS(ask(&address, GM_RPC_IPC_OPEN, 2, HOUR, &reply), GM_RPC_REFUSED,
	       "the other process answers");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	TAP_IS(ask(&address, GM_RPC_IPC_OPEN, 2, HOUR, &reply), GM_RPC_GONE,
	       "killed, it is gone, though a child that it had forked lives");
	found = 0;
	gm_rpc_each(GPU, count, &address);
	TAP_IS(found, 0, "no trace of the killed process is left");
	close(told[0]);
	close(told[1]);
}

static void ended(void)
{
	_exit(7);
}

/* The thread of the node must not keep a process alive. */
static int without_main(void)
{
	struct gm_rpc_address address;
	gm_rpc_join(GPU, &address);
	atexit(ended);
	pthread_exit(NULL);
}

/* A child would have a connection of the parent that is being accepted at the fork. */
static void connections_end(void)
{
	int all[8], listening[8];
	while (sockets(all, false) != sockets(listening, true))
		usleep(1000);
}

static int forgets(void)
{
	struct gm_rpc_address mine;
	int at[8];
	if (sockets(at, false) || gm_rpc_is_mine(&here))
		return 1;
	if (!CHILD_HAS_THREADS)
		return 7;
	if (gm_rpc_join(GPU, &mine) || !gm_rpc_is_mine(&mine) || mine.nonce == here.nonce)
		return 2;
	return asks(); /* the parent, which is another process to it */
}

static int asks_too_late(void)
{
	struct gm_rpc_message reply;
	return ask(&here, GM_RPC_IPC_OPEN, 2, HOUR, &reply) == GM_RPC_REFUSED ? 7 : 1;
}

int main(void)
{
	if (CHILD_HAS_THREADS) { /* before there are other threads */
		if (pipe(pipe_ends))
			return 1;
		killed();
		TAP_IS(status_of(without_main), 7, "a process whose threads have ended ends");
		close(pipe_ends[0]);
		close(pipe_ends[1]);
	}
	joins();
	children_ask();
	if (has_limits())
		lacks_numbers();
	program_closes();
	connections_end();
	TAP_IS(status_of(forgets), 7,
	       "a forked child has no node of its parent, and makes its own");
	gm_rpc_exit();
	TAP_IS(status_of(asks_too_late), 7, "a process that exits answers nothing more");
	TAP_IS(gm_rpc_join(GPU, &here), ESHUTDOWN, "an exiting process joins no more");
	return tap_done();
}
