/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a program's surroundings: system, library, preload, knobs, the log's folder, limits. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "knob/conf.h"
#include "knob/knob.h"
#include "log/about.h"
#include "log/file.h"
#include "log/format.h"
#include "tools/doctor/doctor.h"
#include "tools/launch/preload.h"
#include "tools/tool.h"

#define SYSTEM_PRELOAD "/etc/ld.so.preload"
enum { GLIBC_MAJOR = 2, GLIBC_MINOR = 28 };

/* --- system --- */

static void system_check(struct gm_doctor *doctor)
{
	struct utsname name;
	int major = 0, minor = 0;
	const char *version = gnu_get_libc_version();
	bool parsed = sscanf(version, "%d.%d", &major, &minor) == 2;
	bool good =
		parsed && (major > GLIBC_MAJOR || (major == GLIBC_MAJOR && minor >= GLIBC_MINOR));
	uname(&name);
	gm_doctor_say(doctor, "system", good ? GM_DOCTOR_OK : GM_DOCTOR_FAIL,
		      good ? "" : "gpumem needs glibc 2.28 at least.", "%s %s, %s, glibc %s",
		      name.sysname, name.release, name.machine, version);
}

/* /proc: the library and gpumemstat read it. */
static void proc_check(struct gm_doctor *doctor)
{
	char path[PATH_MAX];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	DIR *dir = opendir("/proc/self/fd");
	bool exe = readlink("/proc/self/exe", path, sizeof path) > 0,
	     usable = fd >= 0 && dir && exe;
	gm_doctor_say(doctor, "proc", usable ? GM_DOCTOR_OK : GM_DOCTOR_WARN,
		      usable ? "" : "Mount it; without it logs have no program and command.",
		      usable ? "/proc can be read" : "/proc/self%s cannot be read",
		      !exe     ? "/exe"
		      : fd < 0 ? "/cmdline"
			       : "/fd");
	if (fd >= 0)
		close(fd);
	if (dir)
		closedir(dir);
}

static void memfd_check(struct gm_doctor *doctor)
{
	int fd = memfd_create("gpumem-doctor", MFD_CLOEXEC);
	if (fd < 0)
		gm_doctor_say(doctor, "memfd", GM_DOCTOR_WARN,
			      "Allow memfd_create in the container's seccomp profile.",
			      "%s: without a log, live counters cannot be seen from outside",
			      strerror(errno));
	else
		gm_doctor_say(doctor, "memfd", GM_DOCTOR_OK, "",
			      "live counters can be kept in memory");
	if (fd >= 0)
		close(fd);
}

/* --- the library --- */

/* Run gpumemstat under the library; the loader's message goes to `out`. */
static bool library_try(const char *library, char *out, size_t n)
{
	int ends[2], status = -1;
	size_t at = 0;
	*out = '\0';
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		setenv("LD_PRELOAD", library, 1);
		dup2(null, STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		execl("/proc/self/exe", "gpumemstat", "--version", (char *)NULL);
		_exit(GM_EXIT_FAILED);
	}
	close(ends[1]);
	for (ssize_t got; at + 1 < n && (got = read(ends[0], out + at, n - 1 - at)) > 0;)
		at += (size_t)got;
	out[at] = '\0';
	out[strcspn(out, "\n")] = '\0';
	close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && status == 0 && at == 0;
}

static void library_check(struct gm_doctor *doctor)
{
	char path[PATH_MAX], said[400];
	const char *name = "library";
	if (!gm_preload_find(path, sizeof path)) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "Install it, or set GPUMEM_LIBRARY_PATH.",
			      "libgpumem.so was not found");
		return;
	}
	if (strpbrk(path, ": "))
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Move it to another folder.",
			      "%.400s: LD_PRELOAD cannot name a file with a blank or a colon",
			      path);
	else if (!library_try(path, said, sizeof said))
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "Take the libgpumem.so that was made for this system.",
			      "%.200s cannot be loaded: %s", path,
			      *said ? said : "the program ended");
	else
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "", "%.400s can be loaded", path);
}

/* The first file of a list, separated by blanks and colons, that does not exist. *ours: the library
 * is in the list. */
static const char *list_find_missing(char *list, bool *ours)
{
	const char *missing = NULL;
	char *rest = list;
	for (char *word; (word = strsep(&rest, ": \t\n"));) {
		if (strstr(word, "libgpumem.so"))
			*ours = true;
		if (strchr(word, '/') && access(word, R_OK) != 0 && !missing)
			missing = word;
	}
	return missing;
}

static void preload_check(struct gm_doctor *doctor)
{
	const char *set = getenv("LD_PRELOAD");
	char words[4096], file[4096] = "";
	bool ours = false, ours_everywhere = false;
	FILE *stream = fopen(SYSTEM_PRELOAD, "re");
	if (stream) {
		size_t n = fread(file, 1, sizeof file - 1, stream);
		file[n] = '\0';
		fclose(stream);
	}
	snprintf(words, sizeof words, "%s", set ? set : "");
	const char *missing = list_find_missing(words, &ours);
	const char *missing_everywhere = list_find_missing(file, &ours_everywhere);
	const char *text =
		ours_everywhere ? SYSTEM_PRELOAD " has libgpumem.so: all programs run under it"
		: ours		? "LD_PRELOAD has libgpumem.so"
		: set && *set
			? "LD_PRELOAD has other libraries; gpumemstat run stands in front of them"
			: "LD_PRELOAD is not set; gpumemstat run sets it";
	if (missing || missing_everywhere)
		gm_doctor_say(doctor, "preload", GM_DOCTOR_WARN,
			      "Take it out: the loader passes it over with an error message.",
			      "%s names %.400s, which cannot be read",
			      missing ? "LD_PRELOAD" : SYSTEM_PRELOAD,
			      missing ? missing : missing_everywhere);
	else
		gm_doctor_say(doctor, "preload", GM_DOCTOR_OK, "", "%s", text);
}

/* --- knobs --- */

union gm_knob_value gm_doctor_knob(enum gm_knob_id id)
{
	union gm_knob_value value;
	char why[256];
	gm_knob_judge(id, getenv(gm_knob_table[id].name), &value, why, sizeof why);
	return value;
}

/* Returns the number of warnings. */
static unsigned conf_check(struct gm_doctor *doctor)
{
	const struct gm_conf *conf = gm_conf_get();
	const char *name = "knobs";
	if (conf->ignored)
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN, "The file is ignored.", "%s: %s",
			      conf->path, conf->ignored);
	for (unsigned i = 0; i < conf->n_bad && i < GM_CONF_BAD_SHOWN; i++)
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN, "The line is ignored.", "%s:%u: %s",
			      conf->path, conf->bad[i].line, conf->bad[i].reason);
	return (conf->ignored != NULL) + conf->n_bad;
}

static void knobs_check(struct gm_doctor *doctor)
{
	extern char **environ;
	const char *name = "knobs";
	unsigned set = 0, wrong = conf_check(doctor);
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++) {
		union gm_knob_value value;
		char why[256];
		const char *given = getenv(gm_knob_table[i].name);
		const struct gm_knob_origin origin =
			gm_knob_judge((enum gm_knob_id)i, given, &value, why, sizeof why);
		set += given || origin.source != GM_KNOB_DEFAULT;
		if (!given || !*why)
			continue;
		wrong++;
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN,
			      origin.source == GM_KNOB_DEFAULT ? "The default is used."
							       : "The file's value is used.",
			      "%s=%.200s: %s", gm_knob_table[i].name, given, why);
	}
	for (char **entry = environ; *entry; entry++) {
		char word[128], why[128];
		snprintf(word, sizeof word, "%.*s", (int)strcspn(*entry, "="), *entry);
		if (strncmp(word, "GPUMEM_", 7) != 0 || gm_knob_is_known(word))
			continue;
		wrong++;
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN, "", "%s%s", word,
			      gm_knob_unknown(word, why, sizeof why));
	}
	if (!gm_doctor_knob(GM_KNOB_ID_enable).flag)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      getenv("GPUMEM_ENABLE") ? "Unset GPUMEM_ENABLE."
						      : "Set GPUMEM_ENABLE=1.",
			      "GPUMEM_ENABLE=0%s%s: nothing is hooked",
			      getenv("GPUMEM_ENABLE") ? "" : " in ",
			      getenv("GPUMEM_ENABLE") ? "" : gm_conf_get()->path);
	else if (!wrong)
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "", "%u set, none of them wrong", set);
}

/* --- the log --- */

/* Initial size of a log of this level. */
static uint64_t log_room(bool events)
{
	return events ? GM_SEGMENT_EVENTS : GM_SEGMENT_SMALL;
}

/* Create a log file like the writer, then remove it. 0 or an errno. */
static int log_try(struct gm_file *file, uint64_t length)
{
	static struct gm_about about;
	char name[PATH_MAX];
	const char *pattern = gm_doctor_knob(GM_KNOB_ID_log_name).text;
	gm_about_gather(&about);
	const struct gm_file_words words = gm_about_words(&about);
	snprintf(file->path, sizeof file->path, "%s", pattern);
	if (!gm_file_name(name, sizeof name, pattern, gm_knob_table[GM_KNOB_ID_log_name].fallback,
			  &words))
		return ENAMETOOLONG;
	snprintf(file->path, sizeof file->path, "%s", name);
	int error = gm_file_create(file, name, NULL, 0);
	if (error)
		return error;
	error = gm_file_reserve(file, length);
	if (!error && !file->memory) {
		void *at = gm_file_map(file, 0, length);
		error = at ? 0 : errno;
		if (at)
			munmap(at, length);
	}
	gm_file_remove(file);
	return error;
}

static void log_check(struct gm_doctor *doctor)
{
	static struct gm_file file;
	const char *name = "log";
	const int level = gm_doctor_knob(GM_KNOB_ID_log).level.choice;
	char size[32];
	if (level == GM_LOG_OFF) {
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "", "GPUMEM_LOG=off: none is written");
		return;
	}
	const uint64_t length = log_room(level == GM_LOG_EVENTS);
	int error = log_try(&file, length);
	gm_size_format(length, size, sizeof size);
	if (error)
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN,
			      error == EFBIG ? "Raise the limit of file sizes (ulimit -f)."
			      : error == ENOSPC
				      ? "Make room, or name another place in GPUMEM_LOG_NAME."
				      : "Name another place in GPUMEM_LOG_NAME.",
			      "%.300s: a log of %s cannot be made: %s", file.path, size,
			      gm_file_error(error));
	else if (file.memory)
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN,
			      "A local folder in GPUMEM_LOG_NAME keeps all.",
			      "%.300s: %s%s; its file is written, not mapped, and a process that "
			      "is killed "
			      "loses the last 10 seconds",
			      file.path, file.system ? "on " : "no space can be reserved",
			      file.system ? file.system : "");
	else
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "", "%.400s can be made", file.path);
}

/* --- limits --- */

static void limits_check(struct gm_doctor *doctor)
{
	struct rlimit addresses = {RLIM_INFINITY, 0}, files = {RLIM_INFINITY, 0};
	const int level = gm_doctor_knob(GM_KNOB_ID_log).level.choice;
	const uint64_t most = level == GM_LOG_EVENTS ? gm_doctor_knob(GM_KNOB_ID_log_limit).bytes
			      : level == GM_LOG_OFF  ? 0
						     : log_room(false);
	char limit[32], need[32];
	bool fine = true;
	getrlimit(RLIMIT_AS, &addresses);
	getrlimit(RLIMIT_FSIZE, &files);
	if (addresses.rlim_cur != RLIM_INFINITY) {
		fine = false;
		gm_doctor_say(doctor, "limits", GM_DOCTOR_WARN, "Lift the limit (ulimit -v).",
			      "addresses are limited to %s: CUDA, and the pool with 8 times the "
			      "memory of a device, reserve more",
			      gm_size_format(addresses.rlim_cur, limit, sizeof limit));
	}
	if (files.rlim_cur != RLIM_INFINITY && files.rlim_cur < most) {
		fine = false;
		gm_doctor_say(doctor, "limits", GM_DOCTOR_WARN,
			      "Raise the limit (ulimit -f), or lower GPUMEM_LOG_LIMIT.",
			      "files are limited to %s, a log may have %s: it would end there",
			      gm_size_format(files.rlim_cur, limit, sizeof limit),
			      gm_size_format(most, need, sizeof need));
	}
	if (fine)
		gm_doctor_say(doctor, "limits", GM_DOCTOR_OK, "",
			      "addresses and file sizes suffice");
}

/* --- device heaps --- */

static void heap_check(struct gm_doctor *doctor)
{
#ifdef GM_HELPERS
	const bool built = true;
#else
	const bool built = false;
#endif
	if (!built)
		gm_doctor_say(
			doctor, "heap", GM_DOCTOR_WARN, "Build where there is an nvcc.",
			"this build has no device code: malloc in kernels stays the driver's");
	else if (gm_doctor_knob(GM_KNOB_ID_heap).choice == GM_HEAP_OFF)
		gm_doctor_say(doctor, "heap", GM_DOCTOR_OK, "", "GPUMEM_HEAP=off: none is made");
	else
		gm_doctor_say(doctor, "heap", GM_DOCTOR_OK, "",
			      "the device code of heaps is built in");
}

void gm_doctor_here(struct gm_doctor *doctor)
{
	system_check(doctor);
	proc_check(doctor);
	memfd_check(doctor);
	limits_check(doctor);
	library_check(doctor);
	preload_check(doctor);
	knobs_check(doctor);
	log_check(doctor);
	heap_check(doctor);
}
