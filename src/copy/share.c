/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/share.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/cores.h"
#include "base/size.h"
#include "base/sys.h"

#define PATH_ROOM 4096
#define CORES_SHARE 4
#define MEMORY_SHARE 64
#define MOST_ROOM (256 * GM_MIB)

/* On the heap: threads of the program may have small stacks. */
struct scratch {
	cpu_set_t cores;	   /* that the process may use; none: unknown */
	char lines[PATH_ROOM];	   /* of /proc/self/cgroup */
	char cut[PATH_ROOM];	   /* these, being cut into lines */
	char text[PATH_ROOM];	   /* of memory.stat */
	char mount[PATH_ROOM];	   /* of a hierarchy of groups */
	char folder[PATH_ROOM];	   /* of a group */
	char path[PATH_ROOM + 32]; /* of a file */
};

/* The text of a small file, cut at the room; false: it cannot be read. */
static bool file_read(const char *path, char *text, size_t room)
{
	int fd = gm_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	ssize_t n = fd < 0 ? -1 : gm_sys_read(fd, text, room - 1);
	if (fd >= 0)
		gm_sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* --- one limit --- */

/* "max 100000" or "150000 100000": cores, UINT64_MAX for none. Less than one core counts as one. */
static uint64_t quota_cores(const char *quota, const char *period)
{
	char *end;
	long long of = strtoll(quota, &end, 10), a = strtoll(period, NULL, 10);
	if (end == quota || of <= 0 || a <= 0)
		return UINT64_MAX;
	return of < a ? 1 : (uint64_t)(of / a);
}

/* Read a file of the folder. */
static bool limit_read(struct scratch *scratch, const char *folder, const char *name, char *text,
		       size_t room)
{
	snprintf(scratch->path, sizeof scratch->path, "%s/%s", folder, name);
	return file_read(scratch->path, text, room);
}

static uint64_t cores_read(struct scratch *scratch, const char *folder, bool unified)
{
	char text[128], period[64];
	const char *name = unified ? "cpu.max" : "cpu.cfs_quota_us";
	if (!limit_read(scratch, folder, name, text, sizeof text))
		return UINT64_MAX;
	if (unified)
		return quota_cores(text, text + strcspn(text, " "));
	return limit_read(scratch, folder, "cpu.cfs_period_us", period, sizeof period)
		       ? quota_cores(text, period)
		       : UINT64_MAX;
}

static uint64_t number_read(struct scratch *scratch, const char *folder, const char *name)
{
	char text[64], *end;
	if (!limit_read(scratch, folder, name, text, sizeof text))
		return UINT64_MAX;
	unsigned long long n = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : n;
}

/* The bytes of cached files that no process used lately, of the group and those below it. */
static uint64_t droppable_read(struct scratch *scratch, const char *folder, bool unified)
{
	const char *name = unified ? "inactive_file " : "total_inactive_file ";
	if (!limit_read(scratch, folder, "memory.stat", scratch->text, PATH_ROOM))
		return 0;
	for (char *line = scratch->text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) == 0)
			return strtoull(line + strlen(name), NULL, 10);
	}
	return 0;
}

static uint64_t memory_read(struct scratch *scratch, const char *folder, bool unified)
{
	return number_read(scratch, folder, unified ? "memory.max" : "memory.limit_in_bytes");
}

static uint64_t memory_unused(struct scratch *scratch, const char *folder, bool unified)
{
	uint64_t limit = memory_read(scratch, folder, unified);
	uint64_t used =
		number_read(scratch, folder, unified ? "memory.current" : "memory.usage_in_bytes");
	if (limit == UINT64_MAX || used == UINT64_MAX)
		return limit;
	uint64_t droppable = droppable_read(scratch, folder, unified);
	used -= droppable < used ? droppable : used;
	return limit > used ? limit - used : 0;
}

/* "0-3,8": the cores of the list that the process may use. */
static uint64_t list_cores(const cpu_set_t *cores, const char *list)
{
	uint64_t n = 0;
	char *end;
	for (const char *at = list;; at = end + 1) {
		unsigned long first = strtoul(at, &end, 10);
		if (end == at)
			return n ? n : UINT64_MAX;
		unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
		for (; first <= last && first < CPU_SETSIZE; first++)
			n += CPU_ISSET(first, cores) != 0;
		if (*end != ',')
			return n ? n : UINT64_MAX;
	}
}

/* The cpuset of a group may have become smaller since the library was loaded. */
static uint64_t cpuset_read(struct scratch *scratch, const char *folder, bool unified)
{
	char text[4096];
	const char *name = unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
	if (!CPU_COUNT(&scratch->cores) || !limit_read(scratch, folder, name, text, sizeof text))
		return UINT64_MAX;
	return list_cores(&scratch->cores, text);
}

/* --- the cgroups of the process --- */

/* The least `limit_of` of the group at `path` below scratch->mount and of all groups above it. A
 * container may show its own group as the topmost one, so groups without a folder are left out. */
static uint64_t group_least(struct scratch *scratch, const char *path, bool unified,
			    uint64_t (*limit_of)(struct scratch *, const char *folder, bool))
{
	char *folder = scratch->folder;
	uint64_t least = UINT64_MAX;
	size_t top = strlen(scratch->mount);
	if (snprintf(folder, PATH_ROOM, "%s%s", scratch->mount, path) >= PATH_ROOM)
		return limit_of(scratch, scratch->mount, unified);
	while (true) {
		uint64_t limit = limit_of(scratch, folder, unified);
		least = limit < least ? limit : least;
		char *slash = strrchr(folder + top, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* "cpu,cpuacct" has "cpu". */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ','))
		if (strncmp(list, word, n) == 0 && (list[n] == ',' || !list[n]))
			return true;
	return false;
}

/* The least `limit_of` by one line of /proc/self/cgroup, "0::/a/b" or "4:cpu,cpuacct:/a/b", if it
 * is of the controller. */
static uint64_t line_least(struct scratch *scratch, const char *root, const char *line,
			   const char *controller,
			   uint64_t (*limit_of)(struct scratch *, const char *folder, bool))
{
	const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
	char names[256];
	if (!path)
		return UINT64_MAX;
	snprintf(names, sizeof names, "%.*s", (int)(path - list - 1), list + 1);
	bool unified = !*names;
	if (!unified && !list_has(names, controller))
		return UINT64_MAX;
	snprintf(scratch->mount, PATH_ROOM, "%s/sys/fs/cgroup%s%s", root, unified ? "" : "/",
		 unified ? "" : controller);
	return group_least(scratch, path + 1, unified, limit_of);
}

/* The least `limit_of` of the groups that the process is in. */
static uint64_t groups_least(struct scratch *scratch, const char *root, const char *controller,
			     uint64_t (*limit_of)(struct scratch *, const char *folder, bool))
{
	uint64_t least = UINT64_MAX;
	char *rest = NULL;
	memcpy(scratch->cut, scratch->lines, sizeof scratch->cut);
	for (char *line = strtok_r(scratch->cut, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		uint64_t limit = line_least(scratch, root, line, controller, limit_of);
		least = limit < least ? limit : least;
	}
	return least;
}

/* More processors than the set has: enough for any share. */
static uint64_t affinity_cores(cpu_set_t *set)
{
	gm_cores_learn();
	return gm_cores_get(set) ? (uint64_t)CPU_COUNT(set) : CPU_SETSIZE;
}

static uint64_t machine_memory(void)
{
	struct sysinfo info;
	return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}

/* NULL: no host memory, or no groups are known. The caller frees it. */
static struct scratch *scratch_make(const char *root)
{
	struct scratch *scratch = malloc(sizeof *scratch);
	if (scratch && limit_read(scratch, root, "proc/self/cgroup", scratch->lines, PATH_ROOM))
		return scratch;
	free(scratch);
	return NULL;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct gm_share gm_share_find(const char *root)
{
	struct gm_share share = {.memory = machine_memory()};
	struct scratch *scratch = scratch_make(root);
	cpu_set_t set;
	uint64_t cores = affinity_cores(&set);
	if (scratch) {
		scratch->cores = set;
		cores = least_of(cores, groups_least(scratch, root, "cpu", cores_read));
		cores = least_of(cores, groups_least(scratch, root, "cpuset", cpuset_read));
		share.memory =
			least_of(share.memory, groups_least(scratch, root, "memory", memory_read));
	}
	free(scratch);
	share.cores = cores ? (unsigned)cores : 1;
	return share;
}

uint64_t gm_share_unused(const char *root)
{
	struct scratch *scratch = scratch_make(root);
	uint64_t unused =
		scratch ? groups_least(scratch, root, "memory", memory_unused) : UINT64_MAX;
	free(scratch);
	return unused;
}

unsigned gm_share_threads(const struct gm_share *share, unsigned ranks)
{
	return share->cores / CORES_SHARE / (ranks ? ranks : 1);
}

uint64_t gm_share_room(const struct gm_share *share)
{
	uint64_t room = share->memory / MEMORY_SHARE;
	return room < MOST_ROOM ? room : MOST_ROOM;
}
