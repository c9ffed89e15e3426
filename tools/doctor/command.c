/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that the library can be preloaded into a command, and the command's driver. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/doctor/doctor.h"
#include "tools/doctor/script.h"
#include "tools/launch/elf.h"
#include "tools/launch/preload.h"

enum { SCRIPTS_MOST = 4 };
static const char name[] = "command";

/* The script whose interpreter is checked. */
struct caller {
	const char *path, *manager;
	unsigned depth; /* of scripts */
};

/* The folder of a file, for $ORIGIN. */
static void file_folder(const char *path, char *out, size_t n)
{
	char *whole = realpath(path, NULL);
	char *slash = whole ? strrchr(whole, '/') : NULL;
	snprintf(out, n, "%.*s", slash ? (int)(slash - whole) : 1, slash ? whole : ".");
	free(whole);
}

/* Expand $ORIGIN in one folder of a run path (`length` bytes) and append the driver's file name. */
static void run_path_expand(const char *from, size_t length, const char *origin, char *out,
			    size_t n)
{
	static const char *const words[] = {"$ORIGIN", "${ORIGIN}"};
	size_t at = 0;
	*out = '\0';
	for (const char *p = from; p < from + length && at + 1 < n;) {
		size_t taken = 0;
		for (size_t i = 0; i < 2; i++)
			if (strncmp(p, words[i], strlen(words[i])) == 0)
				taken = strlen(words[i]);
		at += (size_t)snprintf(out + at, n - at, "%.*s", taken ? INT_MAX : 1,
				       taken ? origin : p);
		p += taken ? taken : 1;
	}
	if (at < n)
		snprintf(out + at, n - at, "/libcuda.so.1");
}

/* Check for another driver, or a stub, in the run path. */
static void run_path_check(struct gm_doctor *doctor, const struct gm_elf *elf, const char *path)
{
	const char *list = elf->runpath ? elf->runpath : elf->rpath;
	char origin[PATH_MAX], file[2 * PATH_MAX];
	file_folder(path, origin, sizeof origin);
	for (const char *p = list; p && *p; p += *p == ':') {
		size_t length = strcspn(p, ":");
		run_path_expand(p, length, origin, file, sizeof file);
		p += length;
		if (access(file, F_OK) != 0)
			continue;
		bool stub = strstr(file, "/stubs/");
		gm_doctor_say(doctor, "run path", stub ? GM_DOCTOR_FAIL : GM_DOCTOR_WARN,
			      stub ? "Link it anew without the folder of the stubs in its run path."
				   : "Is it that of the kernel module? Then all is well.",
			      "its %s finds %.400s before the system's driver%s",
			      elf->runpath ? "RUNPATH" : "RPATH", file,
			      stub ? ", and that is a stub for linking" : "");
		return;
	}
	gm_doctor_say(doctor, "run path", GM_DOCTOR_OK, "", "%s",
		      list ? "its run path has no libcuda.so.1" : "it has none");
}

static void cuda_check(struct gm_doctor *doctor, const struct gm_elf *elf)
{
	const char *driver = NULL, *runtime = NULL;
	for (size_t i = 0; i < elf->needed.n; i++) {
		if (strncmp(elf->needed.at[i], "libcuda.so", 10) == 0)
			driver = elf->needed.at[i];
		if (strncmp(elf->needed.at[i], "libcudart.so", 12) == 0)
			runtime = elf->needed.at[i];
	}
	if (runtime)
		gm_doctor_say(doctor, "cuda", GM_DOCTOR_OK, "", "it needs %s%s%s", runtime,
			      driver ? " and " : "", driver ? driver : "");
	else if (elf->device_code)
		gm_doctor_say(doctor, "cuda", GM_DOCTOR_OK, "",
			      "it has device code and its own CUDA runtime (static)%s%s",
			      driver ? ", and needs " : "", driver ? driver : "");
	else if (driver)
		gm_doctor_say(doctor, "cuda", GM_DOCTOR_OK, "", "it needs %s", driver);
	else
		gm_doctor_say(doctor, "cuda", GM_DOCTOR_OK, "",
			      "nothing of CUDA in it; libraries that it loads may use it");
}

/* The dynamic loader of another C library cannot load the preload. */
static bool loader_is_glibc(const char *interpreter)
{
	const char *slash = strrchr(interpreter, '/');
	return strncmp(slash ? slash + 1 : interpreter, "ld-linux", 8) == 0;
}

static void name_check(struct gm_doctor *doctor, const char *path)
{
	const char *pattern = getenv("GPUMEM_PROGRAM");
	char *whole = realpath(path, NULL);
	const char *slash = whole ? strrchr(whole, '/') : NULL;
	if (pattern && *pattern && slash && fnmatch(pattern, slash + 1, 0) != 0)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Unset GPUMEM_PROGRAM, or change it.",
			      "GPUMEM_PROGRAM=%.200s leaves %.200s alone", pattern, slash + 1);
	free(whole);
}

/* A shell starts the program that decides; `caller` is NULL if the command itself is a shell. */
static void shell_say(struct gm_doctor *doctor, const char *path, const struct caller *caller)
{
	char remedy[256] = "Ask for that program by its path.";
	const char *file = caller ? caller->path : path, *slash = strrchr(file, '/');
	const char *asked = slash ? slash + 1 : file;
	if (caller && *caller->manager && gm_script_name_is_plain(asked))
		snprintf(remedy, sizeof remedy,
			 "Ask for that program: gpumemstat doctor -- \"$(%s which %.64s)\"",
			 caller->manager, asked);
	gm_doctor_say(doctor, name, GM_DOCTOR_WARN, remedy,
		      "%.400s is a %s; the program that it starts decides, and was not checked",
		      file, caller ? "shell script" : "shell");
}

static void program_check(struct gm_doctor *doctor, const struct gm_elf *elf, const char *path,
			  const struct caller *caller)
{
	if (elf->bits == 32)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Run a 64-bit one.",
			      "%.400s is a 32-bit program", path);
	else if (!elf->ours)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "Run one that was built for this machine.",
			      "%.400s is a program for another processor (ELF machine %u)", path,
			      elf->machine);
	else if (!elf->interpreter)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "Link it dynamically; the CUDA runtime may stay static.",
			      "%.400s is statically linked: nothing can be preloaded into it",
			      path);
	else if (!loader_is_glibc(elf->interpreter))
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Run one that was built for glibc.",
			      "%.400s is loaded by %.200s, which is not glibc's", path,
			      elf->interpreter);
	else if (access(elf->interpreter, X_OK) != 0)
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Install that C library.",
			      "%.400s is loaded by %.200s, which is not there", path,
			      elf->interpreter);
	else if (gm_script_is_shell(path))
		shell_say(doctor, path, caller);
	else {
		name_check(doctor, path);
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "",
			      "%.400s is a program for this machine", path);
		cuda_check(doctor, elf);
		run_path_check(doctor, elf, path);
	}
}

static void file_check(struct gm_doctor *doctor, const char *path, const struct caller *caller)
{
	char head[4096], next[PATH_MAX];
	struct gm_elf elf;
	struct gm_script script;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
			    ? pread(fd, head, sizeof head - 1, 0)
			    : -1;
	head[n > 0 ? n : 0] = '\0';
	if (n < 0) {
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN,
			      "Repeat this check as a user who may read it.",
			      "%.400s cannot be read", path);
	} else if (gm_elf_read(fd, &elf)) {
		const char *rights = gm_preload_rights(fd, &st);
		if (rights)
			gm_doctor_say(doctor, "rights", GM_DOCTOR_FAIL,
				      "Run a copy without these rights.",
				      "%.400s: %s, so the loader ignores LD_PRELOAD", path, rights);
		program_check(doctor, &elf, path, caller);
		gm_elf_free(&elf);
	} else if (!gm_script_read(head, &script) || (caller && caller->depth >= SCRIPTS_MOST)) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "",
			      "%.400s is neither a program nor a script", path);
	} else if (!gm_preload_resolve(script.interpreter, next, sizeof next)) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "Install it.",
			      "%.400s is a script for %.200s, which was not found", path,
			      script.interpreter);
	} else {
		const struct caller self = {path, script.manager, caller ? caller->depth + 1 : 1};
		gm_doctor_say(doctor, "script", GM_DOCTOR_OK, "", "%.400s is a script for %.200s",
			      path, next);
		file_check(doctor, next, &self);
	}
	if (fd >= 0)
		close(fd);
}

void gm_doctor_command(struct gm_doctor *doctor, const char *command)
{
	char path[PATH_MAX];
	if (gm_preload_resolve(command, path, sizeof path))
		file_check(doctor, path, NULL);
	else if (strchr(command, '/'))
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "", "%.400s: %s", command,
			      strerror(access(command, F_OK) == 0 ? EACCES : ENOENT));
	else
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "",
			      "%.400s is in no folder of PATH as a program", command);
}
