/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat run and record: run a command under the preload, return its status, print one line
 * about its logs. */
#include "tools/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "knob/conf.h"
#include "log/format.h"
#include "tools/launch/leftover_logs.h"
#include "tools/launch/preload.h"

/* The logs of a command. */
struct run {
	const struct gm_launch *launch;
	bool quiet;	       /* GPUMEM_LOG=off: no line at the end */
	char folder[PATH_MAX]; /* of `run`: folder of its logs, removed at the end; "": none */
	struct gm_leftover_logs leftover;
};

/* --- the environment --- */

/* Set KNOB=VALUE in the environment. False: a usage error. */
static bool knob_set(const struct gm_command *self, const char *text)
{
	char name[128], why[256];
	union gm_knob_value value;
	size_t n = strcspn(text, "=");
	if (!text[n] || n == 0 || n >= sizeof name) {
		gm_tool_usage(self->name, "-e %s: expected KNOB=VALUE", text);
		return false;
	}
	snprintf(name, sizeof name, "%.*s", (int)n, text);
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++) {
		if (strcmp(name, gm_knob_table[i].name) != 0)
			continue;
		if (gm_knob_parse((enum gm_knob_id)i, text + n + 1, &value, why, sizeof why))
			return setenv(name, text + n + 1, 1) == 0;
		gm_tool_usage(self->name, "-e %s: %s", text, why);
		return false;
	}
	gm_tool_usage(self->name, "-e %s: %s%s", text, name,
		      gm_knob_unknown(name, why, sizeof why));
	return false;
}

/* PyTorch requests each tensor from the driver, so the pool serves it; cudaFree does not wait. */
static bool torch_set(const struct gm_command *self)
{
	return setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1) == 0 &&
	       knob_set(self, "GPUMEM_FREE=ordered");
}

static bool log_name_set(const struct gm_command *self, const char *name)
{
	char why[256] = "expected a name";
	union gm_knob_value value;
	if (*name && gm_knob_parse(GM_KNOB_ID_log_name, name, &value, why, sizeof why))
		return setenv("GPUMEM_LOG_NAME", name, 1) == 0;
	gm_tool_usage(self->name, "--output=%s: %s", name, why);
	return false;
}

/* Why the command does not free as GPUMEM_FREE says: "" or words that follow it. */
static const char *mode_ignored(void)
{
	const char *mode = getenv("GPUMEM_MODE"), *enable = getenv("GPUMEM_ENABLE");
	if (mode && strcasecmp(mode, "trace") == 0)
		return ", which GPUMEM_MODE=trace ignores";
	return enable && strcmp(enable, "0") == 0 ? ", which GPUMEM_ENABLE=0 ignores" : "";
}

static void torch_say(void)
{
	gm_tool_error("PyTorch runs without its cache, as PYTORCH_NO_CUDA_MEMORY_CACHING=1 says, "
		      "with GPUMEM_FREE=%s%s",
		      getenv("GPUMEM_FREE"), mode_ignored());
}

/* What cudaFree does natively beside freeing (gpumem-knobs(7), GPUMEM_FREE). */
static void fast_say(void)
{
	const char *mode = getenv("GPUMEM_FREE");
	if (*mode_ignored())
		gm_tool_error("--fast: GPUMEM_FREE=%s%s", mode, mode_ignored());
	else if (strcasecmp(mode, "sync") == 0)
		gm_tool_error("--fast: GPUMEM_FREE=sync: cudaFree waits for the GPU, as natively");
	else
		gm_tool_error(
			"GPUMEM_FREE=%s: cudaFree does not wait for the GPU; a program whose host "
			"reads results after a cudaFree alone has to wait itself, and errors "
			"of kernels come with a later call: gpumem-knobs(7)",
			mode);
}

void gm_launch_begin(struct gm_launch *launch, const struct gm_command *self,
		     struct gm_options *options, bool record)
{
	*launch = (struct gm_launch){.self = self, .options = options, .record = record};
	gm_options_begin(options);
	unsetenv("GPUMEM_LOG");
}

bool gm_launch_option(struct gm_launch *launch, int index)
{
	bool good = true;
	launch->named = index == GM_OPTION_INDEX_OUTPUT	 ? "-o"
			: index == GM_OPTION_INDEX_TRACE ? "--trace"
							 : "-e";
	if (index == GM_OPTION_INDEX_OUTPUT)
		good = log_name_set(launch->self, launch->output = optarg);
	else if (index == GM_OPTION_INDEX_TRACE)
		setenv("GPUMEM_MODE", "trace", 1);
	else if (index == GM_OPTION_INDEX_EXEC)
		launch->exec = true;
	else if (index == GM_OPTION_INDEX_TORCH)
		launch->torch = torch_set(launch->self);
	else if (index == GM_OPTION_INDEX_FAST)
		good = launch->fast = knob_set(launch->self, "GPUMEM_FREE=ordered");
	else
		good = knob_set(launch->self, optarg);
	if (!good)
		launch->options->status = GM_EXIT_USAGE;
	return good;
}

/* Make the folder of `run` for the small logs of its processes. False: no folder; the command runs
 * without logs, and prints no line at its end. */
static bool folder_make(struct run *run)
{
	char into[PATH_MAX + 2];
	const char *tmp = getenv("TMPDIR");
	tmp = tmp && *tmp ? tmp : "/tmp";
	snprintf(run->folder, sizeof run->folder, "%s/gpumem-run.XXXXXX", tmp);
	if (!mkdtemp(run->folder)) {
		gm_tool_error("no log can be written in %s/: %s", tmp, strerror(errno));
		run->folder[0] = '\0';
		return false;
	}
	snprintf(into, sizeof into, "%s/", run->folder);
	if (!gm_leftover_logs_try(into, GM_SEGMENT_SMALL)) {
		rmdir(run->folder);
		run->folder[0] = '\0';
		return false;
	}
	setenv("GPUMEM_LOG_NAME", into, 1);
	return true;
}

/* Make a relative name absolute: processes of the command may change their working folder. */
static void log_name_make_absolute(void)
{
	char here[PATH_MAX], whole[3 * PATH_MAX];
	const char *name = getenv("GPUMEM_LOG_NAME");
	size_t at = 0;
	if (!name || !*name)
		name = gm_conf_get()->values[GM_KNOB_ID_log_name];
	if (!name || !*name)
		name = GM_FIND_DEFAULT_NAME;
	if (*name != '/' && getcwd(here, sizeof here)) {
		for (const char *p = here; *p; p++) {
			whole[at++] = *p;
			if (*p == '%')
				whole[at++] = '%';
		}
		snprintf(whole + at, sizeof whole - at, "%s%s", at > 1 ? "/" : "", name);
		name = whole;
	}
	setenv("GPUMEM_LOG_NAME", name, 1);
}

/* The level of a value of GPUMEM_LOG; GM_LOG_OFF for a bad one. */
static unsigned level_of(const char *text)
{
	union gm_knob_value value;
	char why[256];
	bool good = gm_knob_parse(GM_KNOB_ID_log, text, &value, why, sizeof why);
	return good ? value.level.choice : GM_LOG_OFF;
}

/* Choose the log of the command's processes. `level`: GPUMEM_LOG of -e, or NULL. False: no log is
 * possible. */
static bool log_choose(struct run *run, const char *level)
{
	const struct gm_launch *launch = run->launch;
	if (!level && launch->record)
		level = "events";
	else if (!level)
		level = !launch->exec && folder_make(run) ? "small" : "off";
	const unsigned chosen = level_of(level);
	run->quiet = chosen == GM_LOG_OFF;
	if (launch->options->stacks)
		setenv("GPUMEM_STACKS", launch->options->stacks, 1);
	else if (launch->record && chosen == GM_LOG_EVENTS &&
		 !gm_conf_get()->values[GM_KNOB_ID_stacks])
		setenv("GPUMEM_STACKS", "large", 0);
	if (launch->record && chosen == GM_LOG_EVENTS &&
	    !gm_conf_get()->values[GM_KNOB_ID_heap_sites])
		setenv("GPUMEM_HEAP_SITES", "1", 0);
	setenv("GPUMEM_LOG", level, 1);
	log_name_make_absolute();
	const char *name = getenv("GPUMEM_LOG_NAME");
	if (launch->output && !gm_leftover_logs_overwrite(name))
		return false;
	if (!gm_leftover_logs_begin(&run->leftover, name))
		return false;
	return run->quiet || *run->folder ||
	       gm_leftover_logs_try(name,
				    chosen == GM_LOG_SMALL ? GM_SEGMENT_SMALL : GM_SEGMENT_EVENTS);
}

/* --- the process --- */

static volatile sig_atomic_t child;

/* Forward a signal to the child. The terminal's signals reach the whole process group anyway. */
static void signal_forward(int signal, siginfo_t *info, void *unused)
{
	(void)unused;
	int saved = errno;
	if (child > 0 && info->si_code <= 0 && info->si_pid != child)
		kill((pid_t)child, signal);
	errno = saved;
}

static void signals_catch(void)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};
	struct sigaction action = {.sa_sigaction = signal_forward,
				   .sa_flags = SA_SIGINFO | SA_RESTART};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		struct sigaction old;
		sigaction(signals[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

static int command_report_failure(const char *command, int error)
{
	char missing[PATH_MAX];
	if (error == ENOENT && gm_preload_interpreter_missing(command, missing, sizeof missing))
		gm_tool_error("%s: its interpreter %s is missing", command, missing);
	else
		gm_tool_error("%s: %s", gm_tool_name(command), strerror(error));
	return error == ENOENT ? GM_EXIT_NOT_FOUND : GM_EXIT_CANNOT_RUN;
}

/* Start the command and wait for it. Signals are blocked until `child` is set, so that none is
 * lost. *status: exit status of gpumemstat. False: the command did not run. */
static bool command_run(char **command, int *status)
{
	sigset_t all, before;
	struct sigaction plain = {.sa_handler = SIG_DFL}, of_child;
	int ends[2], error = 0, ended = 0;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	/* An inherited SIG_IGN would discard the exit status of the child. */
	sigaction(SIGCHLD, &plain, &of_child);
	if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
		gm_tool_error("cannot start a process: %s", strerror(errno));
		*status = GM_EXIT_OWN_FAILURE;
		return false;
	}
	if (child == 0) {
		sigaction(SIGCHLD, &of_child, NULL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(command[0], command);
		error = errno;
		ssize_t ignored = write(ends[1], &error, sizeof error);
		(void)ignored;
		_exit(GM_EXIT_CANNOT_RUN);
	}
	close(ends[1]);
	signals_catch();
	sigprocmask(SIG_SETMASK, &before, NULL);
	ssize_t got = read(ends[0], &error, sizeof error);
	close(ends[0]);
	while (waitpid((pid_t)child, &ended, 0) < 0 && errno == EINTR)
		;
	child = 0;
	if (got == (ssize_t)sizeof error) {
		*status = command_report_failure(command[0], error);
		return false;
	}
	*status = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
	return true;
}

/* After the command: a line about its logs, and their paths. */
static void run_end(struct run *run, const char *command, struct gm_find *logs)
{
	gm_leftover_logs_end(&run->leftover, command, *run->folder != '\0', logs);
	if (*run->folder)
		rmdir(run->folder);
}

int gm_launch_run(struct gm_launch *launch, char **command, struct gm_find *logs, bool *ran)
{
	char library[PATH_MAX];
	struct run run = {.launch = launch};
	int status = GM_EXIT_OWN_FAILURE;
	char *level = getenv("GPUMEM_LOG");
	bool known = false;
	ran = ran ? ran : &known;
	*ran = false;
	if (!*command)
		return gm_tool_usage(launch->self->name, "%s: expected a COMMAND",
				     launch->self->name);
	if (launch->record && level && level_of(level) == GM_LOG_OFF)
		return gm_tool_usage(launch->self->name,
				     "-e GPUMEM_LOG=%s: nothing to record; see gpumemstat run",
				     level);
	if (!gm_preload_find(library, sizeof library) || !gm_preload_set(library) ||
	    !log_choose(&run, level))
		return GM_EXIT_OWN_FAILURE;
	if (launch->torch)
		torch_say();
	if (launch->fast)
		fast_say();
	if (launch->exec) {
		execvp(*command, command);
		return command_report_failure(*command, errno);
	}
	*ran = command_run(command, &status);
	run_end(&run, *ran && !run.quiet ? *command : NULL, logs);
	return status;
}

static int launch_main(const struct gm_command *self, bool record, int argc, char **argv)
{
	struct gm_launch launch;
	struct gm_options options;
	int index;
	gm_launch_begin(&launch, self, &options, record);
	while ((index = gm_options_next(&options, self, argc, argv)) != GM_OPTIONS_DONE)
		if (index == GM_OPTIONS_STOP || !gm_launch_option(&launch, index))
			return options.status;
	return gm_launch_run(&launch, argv + optind, NULL, NULL);
}

int gm_run_main(const struct gm_command *self, int argc, char **argv)
{
	return launch_main(self, false, argc, argv);
}

int gm_record_main(const struct gm_command *self, int argc, char **argv)
{
	return launch_main(self, true, argc, argv);
}
