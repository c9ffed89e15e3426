/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine's share for copies, from the files of made-up cgroups. */
#include "copy/share.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "log/about.h"

#include "../tap.h"

static char root[64];

/* Write a file below the root, and make its parent folders. */
static void put(const char *path, const char *text)
{
	char whole[512];
	snprintf(whole, sizeof whole, "%s%s", root, path);
	for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	FILE *file = fopen(whole, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
		printf("Bail out! %s\n", whole);
		exit(1);
	}
}

/* An empty root. */
static void begin(void)
{
	char command[128];
	if (*root) {
		snprintf(command, sizeof command, "rm -rf %s", root);
		TAP_IS(system(command), 0, "the last root is removed");
	}
	strcpy(root, "/tmp/test_share.XXXXXX");
	if (!mkdtemp(root))
		exit(1);
}

static unsigned here; /* cores available to this test */

static void affinity(void)
{
	cpu_set_t set, one;
	begin();
	sched_getaffinity(0, sizeof set, &set);
	here = (unsigned)CPU_COUNT(&set);
	TAP_IS(gm_share_find(root).cores, here,
	       "the cores are those of the affinity without cgroups");
	TAP_OK(gm_share_find(root).memory > 0, "the memory is the machine's without cgroups");
	unsigned first = 0;
	while (!CPU_ISSET(first, &set))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	sched_setaffinity(0, sizeof one, &one);
	TAP_IS(gm_share_find(root).cores, here,
	       "a thread that is bound to one core counts as before");
	sched_setaffinity(0, sizeof set, &set);
}

/* The first and the last core of this test. */
static void ends_find(unsigned *first, unsigned *last)
{
	cpu_set_t set;
	sched_getaffinity(0, sizeof set, &set);
	for (*first = 0; !CPU_ISSET(*first, &set);)
		++*first;
	for (*last = CPU_SETSIZE - 1; !CPU_ISSET(*last, &set);)
		--*last;
}

static void cpusets(void)
{
	unsigned first, last;
	char list[128];
	begin();
	ends_find(&first, &last);
	put("/proc/self/cgroup", "0::/a/b\n");
	snprintf(list, sizeof list, "0-%u\n", last);
	put("/sys/fs/cgroup/a/cpuset.cpus.effective", list);
	TAP_IS(gm_share_find(root).cores, here, "a cpuset that has all cores");
	snprintf(list, sizeof list, "%u,1000-1020\n", first);
	put("/sys/fs/cgroup/a/b/cpuset.cpus.effective", list);
	TAP_IS(gm_share_find(root).cores, 1, "a cpuset that has one of the process's cores");
	put("/sys/fs/cgroup/a/b/cpuset.cpus.effective", "1022-1023\n");
	TAP_IS(gm_share_find(root).cores, here, "a cpuset of other cores says nothing");
	put("/sys/fs/cgroup/a/b/cpuset.cpus.effective", "\n");
	TAP_IS(gm_share_find(root).cores, here, "an empty list says nothing");
	begin();
	put("/proc/self/cgroup", "4:cpuset:/a\n");
	snprintf(list, sizeof list, "%u\n", last);
	put("/sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", list);
	TAP_IS(gm_share_find(root).cores, 1, "a cpuset of version 1");
}

static unsigned at_most(unsigned cores)
{
	return cores < here ? cores : here;
}

static void unified(void)
{
	begin();
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/b/memory.max", "max\n");
	uint64_t all = gm_share_find(root).memory;
	TAP_IS(gm_share_find(root).cores, here, "no quota: the affinity");
	put("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
	put("/sys/fs/cgroup/a/memory.max", "536870912\n");
	TAP_IS(gm_share_find(root).cores, 1, "the quota of the group above");
	TAP_IS(gm_share_find(root).memory, 512 * GM_MIB, "the memory of the group above");
	put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
	TAP_IS(gm_share_find(root).cores, 1, "half a core counts as one core");
	put("/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
	TAP_IS(gm_share_find(root).cores, at_most(2), "two and a half cores count as two");
	put("/sys/fs/cgroup/a/memory.max", "99999999999999999\n");
	TAP_IS(gm_share_find(root).memory, all, "a limit beyond the machine's memory is no limit");
	put("/sys/fs/cgroup/memory.max", "268435456\n");
	TAP_IS(gm_share_find(root).memory, 256 * GM_MIB, "the limit of the topmost group counts");
	put("/sys/fs/cgroup/cpu.max", "rubbish\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "");
	TAP_IS(gm_share_find(root).cores, here, "an invalid quota is ignored");
}

static void separate(void)
{
	begin();
	put("/proc/self/cgroup", "12:cpuset:/\n9:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n"
				 "1:name=systemd:/y\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
	put("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "1073741824\n");
	TAP_IS(gm_share_find(root).cores, at_most(2),
	       "version 1, the group of a container shown as the topmost one");
	TAP_IS(gm_share_find(root).memory, 1024 * GM_MIB,
	       "version 1: the memory of the group of a container");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	TAP_IS(gm_share_find(root).cores, here, "a quota of -1 is none");
	put("/proc/self/cgroup", "4:cpuacct,cpuset:/docker/x\nnonsense\n::\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
	TAP_IS(gm_share_find(root).cores, here, "another controller's group, and lines of none");
}

static void shares(void)
{
	struct gm_share s = {16, 128 * GM_GIB};
	TAP_IS(gm_share_threads(&s, 1), 4, "16 cores: 4 threads");
	TAP_IS(gm_share_threads(&s, 2), 2, "16 cores of two ranks: 2 threads");
	TAP_IS(gm_share_threads(&s, 8), 0, "16 cores of eight ranks: no thread");
	TAP_IS(gm_share_threads(&s, 0), 4, "no rank counts as one");
	TAP_IS(gm_share_room(&s), 256 * GM_MIB, "slots of 256 MiB at most");
	s = (struct gm_share){1, 512 * GM_MIB};
	TAP_IS(gm_share_threads(&s, 1), 0, "one core: no thread");
	TAP_IS(gm_share_room(&s), 8 * GM_MIB, "1/64 of 512 MiB");
}

static unsigned ranks_of(const char *variable, const char *value)
{
	setenv(variable, value, 1);
	unsigned ranks = gm_about_local_ranks();
	unsetenv(variable);
	return ranks;
}

static void ranks(void)
{
	static const char *const variables[] = {
#define GM_RANK(name, also)
#define GM_JOB(name, also, none)
#define GM_LOCAL(name) #name,
#include "log/ranks.def"
	};
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	TAP_IS(gm_about_local_ranks(), 1, "no launcher: one rank");
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		TAP_IS(ranks_of(variables[i], "8"), 8, "%s=8 gives eight ranks", variables[i]);
	TAP_IS(ranks_of("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"), 4,
	       "Slurm's number is that of the first node");
	TAP_IS(ranks_of("LOCAL_WORLD_SIZE", "0"), 1, "no rank counts as one");
	TAP_IS(ranks_of("LOCAL_WORLD_SIZE", "-3"), 1, "a negative number of ranks counts as one");
	TAP_IS(ranks_of("LOCAL_WORLD_SIZE", "4x"), 1,
	       "text after the number of ranks counts as one");
	setenv("SLURM_STEP_TASKS_PER_NODE", "2", 1);
	TAP_IS(ranks_of("LOCAL_WORLD_SIZE", "8"), 8, "torchrun's ranks count inside srun");
}

/* A group's memory.stat, after its limit and its use. */
static void group_put(const char *folder, bool unified, const char *limit, const char *used,
		      const char *stat)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder,
		 unified ? "memory.max" : "memory.limit_in_bytes");
	put(path, limit);
	snprintf(path, sizeof path, "%s/%s", folder,
		 unified ? "memory.current" : "memory.usage_in_bytes");
	put(path, used);
	if (*stat) {
		snprintf(path, sizeof path, "%s/memory.stat", folder);
		put(path, stat);
	}
}

static void unused_memory(bool unified)
{
	const char *version = unified ? "cgroup v2" : "cgroup v1";
	const char *top = unified ? "/sys/fs/cgroup/a" : "/sys/fs/cgroup/memory/a";
	char below[64];
	snprintf(below, sizeof below, "%s/b", top);
	begin();
	TAP_IS(gm_share_unused(root), UINT64_MAX, "%s: memory has no limit without groups",
	       version);
	put("/proc/self/cgroup", unified ? "0::/a/b\n" : "5:cpuset:/x\n4:memory:/a/b\n0::/y\n");
	TAP_IS(gm_share_unused(root), UINT64_MAX, "%s: groups without files have no limit",
	       version);
	group_put(below, unified, "1000000\n", "400000\n", "");
	TAP_IS(gm_share_unused(root), 600000, "%s: the limit less the used memory is unused",
	       version);
	group_put(below, unified, "1000000\n", "400000\n",
		  unified ? "anon 300000\nactive_file 50000\ninactive_file 40000\n"
			  : "inactive_file 7\ntotal_inactive_file 40000\n");
	TAP_IS(gm_share_unused(root), 640000,
	       "%s: cached files that can be dropped are unused memory", version);
	group_put(top, unified, "900000\n", "800000\n", "");
	TAP_IS(gm_share_unused(root), 100000,
	       "%s: the least of the group and those above is unused", version);
	group_put(top, unified, "900000\n", "900001\n", "");
	TAP_IS(gm_share_unused(root), 0, "%s: a group over its limit has no unused memory",
	       version);
	group_put(top, unified, unified ? "max\n" : "9223372036854771712\n", "800000\n", "");
	TAP_IS(gm_share_unused(root), 640000, "%s: a group without limit counts for nothing",
	       version);
}

int main(void)
{
	ranks();
	affinity();
	cpusets();
	unified();
	separate();
	shares();
	unused_memory(true);
	unused_memory(false);
	begin();
	rmdir(root);
	return tap_done();
}
