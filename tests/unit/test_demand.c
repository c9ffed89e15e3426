/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle memory of other processes (shim/idle/demand.h): the wait for replies. Linked with --wrap for
 * the calls to other processes, the naps and the clock, which only these calls advance. */
#include "../../shim/idle/demand.h"

#include <string.h>
#include <time.h>

#include "../../shim/memory/device.h"
#include "log/count.h"
#include "residency/control.h"
#include "rpc/rpc.h"

#include "../tap.h"

#define MOST 200
#define MIB UINT64_C(1048576)

struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];

/* A process: it replies after `work` ns, or never, and then has returned `gives` bytes. */
struct process {
	enum gm_rpc_result connects; /* not GM_RPC_OK: it is a stranger, or its queue is full */
	bool silent;
	uint64_t work, gives;
	uint64_t asked; /* time of the request */
	bool open;
};
static struct process processes[MOST];
static unsigned n_processes, requests;
static uint64_t now, run = 1, longest_connect; /* `run`: part of the nonce of each process */

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
void __wrap_gm_sys_nap(uint64_t ns);
void __wrap_gm_rpc_each(const unsigned char gpu[16],
			void (*each)(void *arg, const struct gm_rpc_address *address), void *arg);
enum gm_rpc_result __wrap_gm_rpc_connect(const struct gm_rpc_address *to, uint64_t patience,
					 struct gm_rpc_link *link);
enum gm_rpc_result __wrap_gm_rpc_send(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
				      const struct gm_rpc_message *request);
enum gm_rpc_result __wrap_gm_rpc_receive(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
					 struct gm_rpc_message *reply);
void __wrap_gm_rpc_disconnect(struct gm_rpc_link *link);

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

void __wrap_gm_rpc_each(const unsigned char gpu[16],
			void (*each)(void *arg, const struct gm_rpc_address *address), void *arg)
{
	(void)gpu;
	for (unsigned i = 0; i < n_processes; i++)
		each(arg, &(struct gm_rpc_address){.pid = i, .nonce = run << 32 | (i + 1)});
}

/* A connection to a full queue takes all time allowed; 0: it does not wait. */
enum gm_rpc_result __wrap_gm_rpc_connect(const struct gm_rpc_address *to, uint64_t patience,
					 struct gm_rpc_link *link)
{
	longest_connect = patience > longest_connect ? patience : longest_connect;
	if (processes[to->pid].connects == GM_RPC_SILENT)
		now += patience;
	if (processes[to->pid].connects != GM_RPC_OK)
		return processes[to->pid].connects;
	*link = (struct gm_rpc_link){(int)to->pid, patience ? now + patience : 0};
	processes[to->pid].open = true;
	return GM_RPC_OK;
}

enum gm_rpc_result __wrap_gm_rpc_send(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
				      const struct gm_rpc_message *request)
{
	struct process *p = &processes[link->fd];
	if (kind == GM_RPC_GIVE)
		p->asked = now;
	requests += kind == GM_RPC_GIVE;
	return request->size == 0 ? GM_RPC_OK : GM_RPC_UNABLE;
}

enum gm_rpc_result __wrap_gm_rpc_receive(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
					 struct gm_rpc_message *reply)
{
	const struct process *p = &processes[link->fd];
	bool done = kind != GM_RPC_GIVE && now >= p->asked + p->work;
	struct gm_given control = {.asked = 7, .done = done ? 7 : 6, .given = done ? p->gives : 0};
	if (p->silent) {
		now = link->end > now ? link->end : now;
		return GM_RPC_SILENT;
	}
	reply->n_fds = 0;
	reply->size = sizeof control;
	memcpy(reply->data, &control, sizeof control);
	return GM_RPC_OK;
}

void __wrap_gm_rpc_disconnect(struct gm_rpc_link *link)
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

/* Returns the bytes; *took: ns. The processes of `run` are the same as in an earlier call. */
static uint64_t again(uint64_t *took)
{
	uint64_t began = now;
	requests = 0;
	uint64_t given = gm_demand_reclaim(0);
	*took = now - began;
	TAP_IS(open_links(), 0, "no link is left open");
	return given;
}

/* New processes: first those that are silent, then those that reply after `work`. */
static void processes_begin(unsigned silent, unsigned replying, uint64_t work)
{
	memset(processes, 0, sizeof processes);
	run++;
	n_processes = silent + replying;
	for (unsigned i = 0; i < n_processes; i++)
		processes[i] =
			(struct process){.silent = i < silent, .work = work, .gives = 5 * MIB};
}

static uint64_t reclaim(unsigned silent, unsigned replying, uint64_t work, uint64_t *took)
{
	processes_begin(silent, replying, work);
	return again(took);
}

static bool is_bound(uint64_t took)
{
	return took >= GM_DEMAND_PATIENCE && took < GM_DEMAND_PATIENCE / 100 * 101;
}

static void late_ones(void)
{
	uint64_t took;
	TAP_IS(reclaim(30, 3, 50000000, &took), 15 * MIB, "silent processes delay no other");
	TAP_OK(is_bound(took), "30 silent processes take the time of one");
	TAP_IS(gm_counter_get(0, GM_C_others_overdue), 30, "silent processes are counted");
	TAP_IS(again(&took), 15 * MIB, "the next call asks the processes that answered");
	TAP_IS(requests, 3, "the silent processes are left out of the next call");
	TAP_OK(took < GM_DEMAND_PATIENCE / 10, "the silent processes take no time any more");
	now += GM_DEMAND_PAUSE;
	TAP_IS(again(&took), 15 * MIB, "the processes that answered are asked a minute later");
	TAP_IS(requests, 33, "the silent processes are asked again a minute later");
	now += GM_DEMAND_PAUSE / 2;
	gm_demand_forget();
	again(&took);
	TAP_IS(requests, 33, "a forked child asks all processes");
	TAP_IS(reclaim(0, 3, 2 * (uint64_t)GM_DEMAND_PATIENCE, &took), 0,
	       "processes that need too long return nothing in time");
	TAP_OK(is_bound(took), "the wait for slow processes is bounded");
	again(&took);
	TAP_IS(requests, 3, "processes that answered are asked again by the next call");
}

static void full_and_foreign_ones(void)
{
	uint64_t took;
	processes_begin(0, 180, 0);
	for (unsigned i = 0; i < 177; i++)
		processes[i].connects = i % 2 ? GM_RPC_SILENT : GM_RPC_STRANGER;
	TAP_IS(again(&took), 15 * MIB, "177 names of other users displace no process");
	TAP_IS(requests, 3, "no other user is asked");
	TAP_OK(took < GM_DEMAND_PATIENCE / 100, "full queues of connections delay nothing");
	TAP_IS(longest_connect, 0, "no full queue of a process is waited for");
	for (unsigned i = 0; i < 177; i++)
		processes[i].connects = GM_RPC_OK;
	again(&took);
	TAP_IS(requests, 180, "the processes not reached are asked the next time, 64 at once");
}

int main(void)
{
	uint64_t took;
	now = 1000000000u;
	TAP_IS(reclaim(0, 3, 0, &took), 15 * MIB, "each process returns its memory");
	TAP_OK(took < GM_DEMAND_PATIENCE / 100, "the call does not wait for more");
	TAP_IS(gm_demand_total(), 15 * MIB, "the total has the bytes returned in time");
	TAP_IS(gm_counter_get(0, GM_C_others_bytes), 15 * MIB,
	       "the counter has the bytes returned in time");
	TAP_IS(gm_counter_get(0, GM_C_others_asked), 3, "each request is counted");
	late_ones();
	full_and_foreign_ones();
	return tap_done();
}
