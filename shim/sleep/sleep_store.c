/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/sleep_store.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "copy/share.h"
#include "knob/knob.h"
#include "pool/knobs.h"
#include "residency/window.h"
#include "shim/call.h"
#include "shim/memory/device.h"
#include "shim/sleep/sleep_bounds.h"

static struct gm_crew crew; /* makes pages for a sleep */
static uint64_t memory;	    /* of the host, that the process may have */

/* Report a bad folder at the start: a process that sleeps by itself has no caller to report a
 * refusal to. The folder may still be made before the first sleep. */
static void folder_check(const char *path)
{
	if (access(path, W_OK | X_OK) != 0)
		gm_msg(GM_MSG_WARN,
		       "GPUMEM_SLEEP_STORE=" GM_MSG_TEXT
		       ": %s; the process cannot sleep before it can be written",
		       GM_MSG_CUT(path), strerror(errno));
}

static uint64_t devices_total(void)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		bytes += gm_shim_devices[i].total;
	return bytes;
}

void gm_sleep_store_begin(struct gm_move *mover)
{
	const struct gm_knobs *knobs = gm_knob_get();
	const struct gm_share share = gm_share_find("");
	struct gm_store *store = &mover->store;
	store->driver = &gm_shim_driver;
	memory = share.memory;
	store->crew = &crew;
	store->threads = gm_sleep_threads(share.cores);
	store->warm = gm_pool_knob_bytes(knobs->sleep_store.share, devices_total());
	mover->folder.path = knobs->sleep_store.share.folder;
	mover->folder.calls = &gm_folder_system;
	if (mover->folder.path) { /* only the window is kept */
		store->warm = GM_WINDOW;
		folder_check(mover->folder.path);
	}
}

void gm_sleep_store_bound(struct gm_move *mover)
{
	struct gm_store *store = &mover->store;
	uint64_t room = gm_store_room(store) - store->kept;
	store->pinnable = gm_sleep_pinned(memory, store->pinned, room);
}

void gm_sleep_store_forget(struct gm_move *mover)
{
	gm_crew_forget(&crew);
	gm_store_forget(&mover->store);
	gm_folder_forget(&mover->folder);
}
