/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The share of the machine that copies may use: a quarter of the cores that the process may run on,
 * divided by the ranks on its node, and 1/64 of the memory that it may have. Cores are limited by
 * the affinity of the process (base/cores.h), and by the cpuset and by cpu.max or cpu.cfs_quota_us
 * of the process's cgroup and of those above it; memory by memory.max or memory.limit_in_bytes,
 * likewise (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst).
 * Any thread, no lock held. Reads files.
 */
#ifndef GM_COPY_SHARE_H
#define GM_COPY_SHARE_H

#include <stdint.h>

struct gm_share {
	unsigned cores;	 /* that the process may keep busy; at least 1 */
	uint64_t memory; /* bytes that it may have */
};

/* `root` is put before /proc/self/cgroup and /sys/fs/cgroup: "", or the folder of a test. */
struct gm_share gm_share_find(const char *root);

/* Bytes that the process may add to its memory before a limit of its cgroup, or of one above it, is
 * reached: the limit less what all processes of the group use, except for cached files that the
 * kernel can drop at once. UINT64_MAX: no limit. `root` as above. */
uint64_t gm_share_unused(const char *root);

/* Threads for copies, of `ranks` processes on the node; 0: none. */
unsigned gm_share_threads(const struct gm_share *share, unsigned ranks);

/* Bytes for slots: at most 256 MiB. */
uint64_t gm_share_room(const struct gm_share *share);

#endif
