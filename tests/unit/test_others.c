/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle memory of other processes (shim/others.h): the wait for replies. Linked with --wrap for the
 * calls to other processes, the naps and the clock, which only these calls advance. */
#include "../../shim/others.h"

#include <string.h>
#include <time.h>

#include "../../shim/device.h"
#include "node/node.h"
#include "residency/control.h"
#include "residency/door.h"

#include "../tap.h"

#define MOST 40
#define MIB UINT64_C(1048576)

struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];

/* A process: it replies after `work` ns, or never, and then has returned `gives` bytes. */
struct process {
	bool silent;
	uint64_t work, gives;
	uint64_t asked; /* time of the request */
	bool open;
};
static struct process processes[MOST];
static unsigned n_processes, reads;
static uint64_t now, waited_to_connect;

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
void __wrap_gm_sys_nap(uint64_t ns);
void __wrap_gm_node_each(const unsigned char gpu[16],
			 void (*each)(void *arg, const struct gm_node_address *address), void *arg);
enum gm_node_result __wrap_gm_node_connect(const struct gm_node_address *to, uint64_t patience,
					   struct gm_node_link *link);
enum gm_node_result __wrap_gm_node_send(const struct gm_node_link *link, enum gm_node_kind kind,
					const struct gm_node_message *request);
enum gm_node_result __wrap_gm_node_receive(const struct gm_node_link *link, enum gm_node_kind kind,
					   struct gm_node_message *reply);
void __wrap_gm_node_disconnect(struct gm_node_link *link);

int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
	(void)id;
	*out = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
	return 0;
}

void __wrap_gm_sys_nap(uint64_t ns)
{
	now += ns;
}

void __wrap_gm_node_each(const unsigned char gpu[16],
			 void (*each)(void *arg, const struct gm_node_address *address), void *arg)
{
	(void)gpu;
	for (unsigned i = 0; i < n_processes; i++)
		each(arg, &(struct gm_node_address){.pid = i});
}

/* A silent process may also have a full queue of connections: then the connection takes all time
 * allowed. */
enum gm_node_result __wrap_gm_node_connect(const struct gm_node_address *to, uint64_t patience,
					   struct gm_node_link *link)
{
	now += waited_to_connect < patience ? waited_to_connect : patience;
	if (waited_to_connect)
		return GM_NODE_SILENT;
	*link = (struct gm_node_link){(int)to->pid, patience};
	processes[to->pid].open = true;
	return GM_NODE_OK;
}

enum gm_node_result __wrap_gm_node_send(const struct gm_node_link *link, enum gm_node_kind kind,
					const struct gm_node_message *request)
{
	struct process *p = &processes[link->fd];
	if (kind == GM_NODE_GIVE)
		p->asked = now;
	return request->size == 0 ? GM_NODE_OK : GM_NODE_UNABLE;
}

enum gm_node_result __wrap_gm_node_receive(const struct gm_node_link *link, enum gm_node_kind kind,
					   struct gm_node_message *reply)
{
	const struct process *p = &processes[link->fd];
	bool done = kind != GM_NODE_GIVE && now >= p->asked + p->work;
	struct gm_control control = {
		.asked = 7, .done = done ? 7 : 6, .given = done ? p->gives : 0};
	reads++;
	if (p->silent) {
		now += link->patience;
		return GM_NODE_SILENT;
	}
	reply->n_fds = 0;
	reply->size = sizeof control;
	memcpy(reply->data, &control, sizeof control);
	return GM_NODE_OK;
}

void __wrap_gm_node_disconnect(struct gm_node_link *link)
{
	processes[link->fd].open = false;
}

static unsigned open_links(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < MOST; i++)
		n += processes[i].open;
	return n;
}

/* Returns the bytes; *took: ns. `silent` processes come before those that reply after `work`. */
static uint64_t reclaim(unsigned silent, unsigned replying, uint64_t work, uint64_t *took)
{
	memset(processes, 0, sizeof processes);
	n_processes = silent + replying;
	for (unsigned i = 0; i < n_processes; i++)
		processes[i] =
			(struct process){.silent = i < silent, .work = work, .gives = 5 * MIB};
	uint64_t began = now;
	uint64_t given = gm_others_reclaim(0);
	*took = now - began;
	TAP_IS(open_links(), 0, "%u silent, %u replying: no link is left open", silent, replying);
	return given;
}

int main(void)
{
	uint64_t took;
	now = 1000000000u;
	TAP_IS(reclaim(0, 1, 0, &took), 0, "without GPUMEM_SLEEP=1 no process is asked");
	TAP_IS(reads, 0, "no reply is read");
	atomic_store(&gm_door_used, true);

	TAP_IS(reclaim(0, 3, 0, &took), 15 * MIB, "each process returns its memory");
	TAP_OK(took < GM_OTHERS_PATIENCE / 100, "the call does not wait for more");
	TAP_IS(reclaim(30, 3, 50000000, &took), 15 * MIB, "silent processes delay no other");
	TAP_OK(took >= GM_OTHERS_PATIENCE && took < GM_OTHERS_PATIENCE / 100 * 101,
	       "30 silent processes take the time of one");
	TAP_IS(reclaim(0, 3, 2 * (uint64_t)GM_OTHERS_PATIENCE, &took), 0,
	       "processes that need too long return nothing in time");
	TAP_OK(took < GM_OTHERS_PATIENCE / 100 * 101, "the wait for them has the same bound");
	waited_to_connect = GM_OTHERS_PATIENCE / 4 * 3;
	TAP_IS(reclaim(30, 0, 0, &took), 0, "processes that accept no connection");
	TAP_IS(took, GM_OTHERS_PATIENCE, "the wait for their connections has the same bound");
	TAP_IS(gm_others_given(), 30 * MIB, "the total has the bytes returned in time");
	return tap_done();
}
