/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep_asker PID: for each byte of its standard input, asks the process to sleep and waits for the
 * end of the move. Writes a byte for each: "s", it slept; "r", it refused; "e", it did not answer.
 *
 * sleep_asker PID MS: asks the process to shut its door within MS, and says GO only after it has
 * opened again. Writes the outcome of both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "residency/control.h"
#include "residency/move.h"
#include "rpc/rpc.h"

#define PATIENCE UINT64_C(60000000000)
#define NAP 200000u
#define TRIES 3 /* the kernel's list may miss a socket while others close */

static struct gm_rpc_link link_to;
static bool linked;

static void node_try(void *arg, const struct gm_rpc_address *address)
{
	const unsigned *pid = arg;
	if (!linked && address->pid == *pid)
		linked = gm_rpc_connect(address, PATIENCE, &link_to) == GM_RPC_OK;
}

static bool ask(enum gm_rpc_kind kind, const void *request, size_t size, struct gm_control *control)
{
	struct gm_rpc_message reply;
	if (gm_rpc_ask(&link_to, kind, request, size, &reply) != GM_RPC_OK)
		return false;
	bool good = reply.size == sizeof *control;
	if (good)
		memcpy(control, reply.data, sizeof *control);
	gm_rpc_close_all(&reply);
	return good;
}

/* Give an order, and wait until it is done. */
static bool order(enum gm_rpc_kind kind, const void *request, size_t size,
		  struct gm_control *control)
{
	bool answered = ask(kind, request, size, control);
	uint64_t number = control->asked;
	while (answered && control->done < number) {
		gm_sys_nap(NAP);
		answered = ask(GM_RPC_RESIDENCY, "", 0, control);
	}
	return answered;
}

static bool process_find(unsigned pid)
{
	linked = false;
	for (unsigned i = 0; i < TRIES && !linked; i++)
		gm_rpc_each(NULL, node_try, &pid);
	return linked;
}

static char sleep_ask(unsigned pid)
{
	struct gm_control control = {0};
	bool answered = process_find(pid) && order(GM_RPC_SLEEP, "", 0, &control);
	if (linked)
		gm_rpc_disconnect(&link_to);
	return !answered ? 'e' : control.refusal ? 'r' : 's';
}

static int hold_ask(unsigned pid, unsigned ms)
{
	const struct gm_hold_request request = {.ns = ms * UINT64_C(1000000)};
	struct gm_control control = {0};
	if (!process_find(pid) || !order(GM_RPC_HOLD, &request, sizeof request, &control))
		return 1;
	printf("hold: %s\n", control.state == GM_CONTROL_HELD
				     ? "held"
				     : gm_refusal_text((enum gm_refusal)control.refusal));
	fflush(stdout);
	while (control.state == GM_CONTROL_HELD) {
		gm_sys_nap(NAP);
		if (!ask(GM_RPC_RESIDENCY, "", 0, &control))
			return 1;
	}
	if (!order(GM_RPC_GO, "", 0, &control))
		return 1;
	printf("go: %s\n", gm_refusal_text((enum gm_refusal)control.refusal));
	return 0;
}

int main(int argc, char **argv)
{
	char byte;
	if (argc == 3)
		return hold_ask((unsigned)strtoul(argv[1], NULL, 10),
				(unsigned)strtoul(argv[2], NULL, 10));
	while (argc == 2 && read(STDIN_FILENO, &byte, 1) == 1) {
		byte = sleep_ask((unsigned)strtoul(argv[1], NULL, 10));
		if (write(STDOUT_FILENO, &byte, 1) != 1)
			return 1;
	}
	return argc != 2;
}
