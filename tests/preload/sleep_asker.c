/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep_asker PID: for each byte of its standard input, asks the process to sleep and waits for the
 * end of the move. Writes a byte for each: "s", it slept; "r", it refused; "e", it did not answer.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "node/node.h"
#include "residency/control.h"

#define PATIENCE UINT64_C(60000000000)
#define NAP 200000u
#define TRIES 3 /* the kernel's list may miss a socket while others close */

static struct gm_node_link link_to;
static bool linked;

static void node_try(void *arg, const struct gm_node_address *address)
{
	const unsigned *pid = arg;
	if (!linked && address->pid == *pid)
		linked = gm_node_connect(address, PATIENCE, &link_to) == GM_NODE_OK;
}

static bool ask(enum gm_node_kind kind, struct gm_control *control)
{
	struct gm_node_message reply;
	if (gm_node_ask(&link_to, kind, "", 0, &reply) != GM_NODE_OK)
		return false;
	bool good = reply.size == sizeof *control;
	if (good)
		memcpy(control, reply.data, sizeof *control);
	gm_node_close_all(&reply);
	return good;
}

static char sleep_ask(unsigned pid)
{
	struct gm_control control = {0};
	linked = false;
	for (unsigned i = 0; i < TRIES && !linked; i++)
		gm_node_each(NULL, node_try, &pid);
	bool answered = linked && ask(GM_NODE_SLEEP, &control);
	uint64_t number = control.asked;
	while (answered && control.done < number) {
		gm_sys_nap(NAP);
		answered = ask(GM_NODE_RESIDENCY, &control);
	}
	if (linked)
		gm_node_disconnect(&link_to);
	return !answered ? 'e' : control.refusal ? 'r' : 's';
}

int main(int argc, char **argv)
{
	char byte;
	while (argc == 2 && read(STDIN_FILENO, &byte, 1) == 1) {
		byte = sleep_ask((unsigned)strtoul(argv[1], NULL, 10));
		if (write(STDOUT_FILENO, &byte, 1) != 1)
			return 1;
	}
	return argc != 2;
}
