/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the simulated driver, its settings, start, end and leak report. */
#include "sim/sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "sim/internal.h"

struct sim sim = {.next_id = 1};
struct gm_lock sim_lock = GM_LOCK_INIT(GM_LOCK_RANK_SIM);
GM_TLS struct sim_thread sim_me;

static bool forked; /* in a child of a process that had called cuInit */

void sim_lock_driver(void)
{
	gm_lock_take(&sim_lock);
	if (sim_me.generation != sim.generation) {
		memset(&sim_me, 0, sizeof sim_me);
		sim_me.generation = sim.generation;
	}
}

void sim_unlock_driver(void)
{
	gm_lock_release(&sim_lock);
}

uint64_t sim_new_id(void)
{
	return sim.next_id++;
}

/* --- lists of handles --- */

void sim_list_add(struct sim_list *list, struct sim_node *node)
{
	node->next = list->first;
	node->link = &list->first;
	if (node->next)
		node->next->link = &node->next;
	list->first = node;
}

void sim_list_remove(struct sim_node *node)
{
	*node->link = node->next;
	if (node->next)
		node->next->link = node->link;
}

bool sim_list_has(const struct sim_list *list, const void *node)
{
	for (const struct sim_node *n = list->first; n; n = n->next)
		if (n == node)
			return true;
	return false;
}

size_t sim_list_count(const struct sim_list *list)
{
	size_t count = 0;
	for (const struct sim_node *n = list->first; n; n = n->next)
		count++;
	return count;
}

/* --- settings --- */

static uint64_t setting_number(const char *name, uint64_t preset, uint64_t least, uint64_t most)
{
	const char *text = getenv(name);
	uint64_t value;
	if (!text || !*text)
		return preset;
	if (gm_size_parse(text, &value) && value >= least && value <= most)
		return value;
	gm_msg(GM_MSG_WARN, "sim: %s=%s is not understood", name, text);
	return preset;
}

static int setting_version(void)
{
	const char *text = getenv("SIM_DRIVER");
	int major, minor;
	char rest;
	if (!text || !*text)
		return 13040;
	if (sscanf(text, "%d.%d%c", &major, &minor, &rest) == 2 && major >= 11 && major <= 13 &&
	    minor >= 0 && minor <= 9)
		return major * 1000 + minor * 10;
	gm_msg(GM_MSG_WARN, "sim: SIM_DRIVER=%s is not understood", text);
	return 13040;
}

static void setting_fail(void)
{
	const char *text = getenv("SIM_FAIL");
	char symbol[64];
	unsigned nth;
	int code, used;
	while (text && *text) {
		code = CUDA_ERROR_OUT_OF_MEMORY;
		used = 0;
		if (sscanf(text, "%63[^:,]:%u%n:%d%n", symbol, &nth, &used, &code, &used) < 2 ||
		    (text[used] && text[used] != ',')) {
			gm_msg(GM_MSG_WARN, "sim: SIM_FAIL is not understood from '%s' on", text);
			return;
		}
		sim_fail_locked(symbol, nth, (CUresult)code);
		text += used + (text[used] == ',');
	}
}

void sim_set_up(void)
{
	if (sim.set_up)
		return;
	const char *trace = getenv("SIM_TRACE");
	sim.set_up = true;
	sim.settings.version = setting_version();
	sim.settings.devices = (unsigned)setting_number("SIM_DEVICES", 1, 0, SIM_MAX_DEVICES);
	sim.settings.memory = setting_number("SIM_MEMORY", 2 * GM_GIB, SIM_PAGE, (uint64_t)1 << 44);
	sim.settings.memory &= ~(SIM_PAGE - 1);
	sim.settings.peer = setting_number("SIM_PEER", 1, 0, 1) != 0;
	sim.settings.memfd = setting_number("SIM_MEMFD", 0, 0, 1) != 0;
	sim.settings.trace = -1;
	if (trace && *trace) {
		sim.settings.trace = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (sim.settings.trace < 0)
			gm_msg(GM_MSG_WARN, "sim: cannot write SIM_TRACE=%s: %m", trace);
	}
	const char *account = getenv("SIM_SHARE");
	if (account && *account)
		sim_share_open(account);
	setting_fail();
}

/* --- start and end --- */

static void child_start(void)
{
	forked = sim.ready;
	sim.ready = false;
	sim_share_forget();
	sim_unlock_driver();
}

static void exit_report(void)
{
	const char *text = getenv("SIM_LEAKS");
	if (!forked && text && strcmp(text, "1") == 0)
		gm_sim_leaks(true);
}

CUresult sim_cuInit(unsigned flags)
{
	static bool once;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (forked) /* the real driver is unusable in a child of a process that used it */
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!sim.settings.devices)
		return CUDA_ERROR_NO_DEVICE;
	if (!once) {
		once = true;
		pthread_atfork(sim_lock_driver, sim_unlock_driver, child_start);
		atexit(exit_report);
	}
	for (unsigned i = 0; i < sim.settings.devices; i++)
		sim.devices[i].memory = sim.settings.memory;
	sim.ready = true;
	return CUDA_SUCCESS;
}

CUresult sim_cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = sim.settings.version;
	return CUDA_SUCCESS;
}

static size_t leaks_count(bool say, size_t count, const char *kind)
{
	if (say && count)
		gm_msg(GM_MSG_WARN, "sim: %zu leaked %s", count, kind);
	return count;
}

size_t gm_sim_leaks(bool say)
{
	size_t handles = 0, mappings = 0, streams = 0, owned = 0, total = 0;
	sim_lock_driver();
	for (struct sim_node *n = sim.handles.first; n; n = n->next)
		handles += ((struct sim_handle *)n)->owners > 0;
	for (size_t i = 0; i < sim.regions.n; i++) {
		mappings += sim.regions.at[i]->kind == SIM_MAPPING;
		owned += sim.regions.at[i]->kind != SIM_MAPPING;
	}
	for (struct sim_node *n = sim.streams.first; n; n = n->next) {
		struct sim_stream *stream = (struct sim_stream *)n;
		streams += !stream->legacy && !stream->per_thread;
	}
	total += leaks_count(say, handles, "handle(s) of physical memory");
	total += leaks_count(say, mappings, "mapping(s)");
	total += leaks_count(say, sim.reservations.n, "reservation(s)");
	total += leaks_count(say, owned, "allocation(s)");
	total += leaks_count(say, streams, "stream(s)");
	total += leaks_count(say, sim_list_count(&sim.events), "event(s)");
	sim_unlock_driver();
	return total;
}

void gm_sim_reset(void)
{
	sim_lock_driver();
	sim_memory_reset();
	sim_calls_reset();
	if (sim.settings.trace > 0)
		close(sim.settings.trace);
	unsigned generation = sim.generation + 1;
	uint64_t id = sim.next_id;
	gm_array_free(&sim.regions);
	gm_array_free(&sim.reservations);
	struct sim *past = malloc(sizeof *past);
	if (past)
		*past = sim;
	memset(&sim, 0, sizeof sim);
	sim.past = past;
	sim.generation = generation;
	sim.next_id = id;
	sim_unlock_driver();
}

/* --- names of errors --- */

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define E(name, text)             \
	{                         \
		name, #name, text \
	}
	E(CUDA_SUCCESS, "no error"),
	E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
	E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
	E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
	E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
	E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
	E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
	E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
	E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
	E(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
	E(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
	E(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
	E(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
	  "peer access is not supported between these two devices"),
	E(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
	E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
	E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
	E(CUDA_ERROR_NOT_READY, "device not ready"),
	E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
	E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
	E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
	E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
	E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
	E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the memory is already mapped"),
	E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
	  "pointer does not correspond to a registered region"),
	E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
	E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
	E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
	E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	  "operation not permitted when stream is capturing"),
	E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	  "operation failed due to a previous error during capture"),
	E(CUDA_ERROR_STREAM_CAPTURE_MERGE,
	  "operation would result in a merge of separate captures"),
	E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
	  "capture was not ended in the stream where it began"),
	E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
	E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	  "operation would make the legacy stream depend on a capture"),
	E(CUDA_ERROR_CAPTURED_EVENT,
	  "operation not permitted on an event last recorded in a capture"),
	E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
	  "capture is ended by another thread than began it"),
	E(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef E
};

static CUresult error_text(CUresult error, const char **out, bool name)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == error)
			*out = name ? errors[i].name : errors[i].text;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorName(CUresult error, const char **out)
{
	return error_text(error, out, true);
}

CUresult sim_cuGetErrorString(CUresult error, const char **out)
{
	return error_text(error, out, false);
}
