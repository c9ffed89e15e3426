/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The opens of blocks that this process exported. A block that another process has open stays on
 * the device during a sleep, because a move would leave the other process with the old memory.
 *
 *     exporter   adds a record for each open, and sends a page of memory with the first reply
 *     importer   maps the page, and writes into it once it has unmapped the block
 *     exporter   before a sleep: records whose page says so, or whose process is gone, are over
 *
 * The page needs neither a descriptor nor a thread on either side: programs close descriptors that
 * are not theirs, and a process that is killed sends nothing. Its mappings are not inherited by
 * forked children.
 */
#ifndef GM_SHIM_IPC_OPENS_H
#define GM_SHIM_IPC_OPENS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

/* --- the page of an open; no lock is needed --- */

struct gm_ipc_page;

/* The importer: map the page behind a received descriptor, which stays the caller's. NULL: it is
 * not such a page, or there are no addresses; the block then stays on its exporter's device. */
struct gm_ipc_page *gm_ipc_page_map(int fd);

/* The importer has unmapped the block. NULL is allowed. */
void gm_ipc_page_close(struct gm_ipc_page *page);

/* --- the exporter; the caller is inside the door, or has shut it --- */

/* Call this before an open. */
void gm_opens_make_room(void);

/* Another process opens the shared block with this id and base; `pid`: 0, unknown. *fd becomes the
 * descriptor of the page, which the caller owns; -1: there is none, and the record is over at the
 * end of that process. False: no host memory, no record. */
bool gm_opens_add(CUdeviceptr base, uint64_t id, int pid, int *fd);

/* If no record of the block exists, nobody has it open. */
void gm_opens_check(CUdeviceptr base, uint64_t id);

/* Drop the records that are over. */
void gm_opens_sweep(void);

/* In a forked child. */
void gm_opens_forget(void);

#endif
