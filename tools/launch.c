/* SPDX-License-Identifier: BSD-3-Clause */
/* `run` and `record`: a command under the preload, its status, and one line about what it left. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "figures.h"
#include "find.h"
#include "knob/knob.h"
#include "options.h"
#include "preload.h"

enum { EXIT_OWN_FAILURE = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct launch {
	struct gm_options options;
	bool record, exec;
	char folder[PATH_MAX]; /* of `run`: where its logs lie until the line is said; "" none */
	char glob[2 * PATH_MAX];
	struct gm_find before; /* logs of such names that were there already */
	uint64_t start;	       /* wall clock, ns */
};

/* --- the environment --- */

/* KNOB=VALUE into the environment; false: it was a usage error. */
static bool set_knob(const struct gm_command *self, const char *text)
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
	const char *nearest = gm_knob_nearest(name);
	if (nearest)
		gm_tool_usage(self->name, "-e %s: %s is not a knob; did you mean %s?", text, name,
			      nearest);
	else
		gm_tool_usage(self->name, "-e %s: %s is not a knob; see gpumemstat env", text,
			      name);
	return false;
}

/* Knobs of the command line, later ones over earlier ones. Returns GM_OPTIONS_DONE or _STOP. */
static int parse(struct launch *launch, const struct gm_command *self, int argc, char **argv)
{
	int option;
	gm_options_begin(&launch->options);
	while ((option = gm_options_next(&launch->options, self, argc, argv)) != GM_OPTIONS_DONE) {
		if (option == GM_OPTIONS_STOP)
			return GM_OPTIONS_STOP;
		if (option == GM_OPTION_OUTPUT)
			setenv("GPUMEM_LOG_NAME", optarg, 1);
		else if (option == GM_OPTION_TRACE)
			setenv("GPUMEM_MODE", "trace", 1);
		else if (option == GM_OPTION_EXEC)
			launch->exec = true;
		else if (!set_knob(self, optarg)) {
			launch->options.status = GM_EXIT_USAGE;
			return GM_OPTIONS_STOP;
		}
	}
	return GM_OPTIONS_DONE;
}

/* What the command's processes are to leave, unless -e or the environment of `run` says otherwise.
 */
static bool choose_log(struct launch *launch, const char *of_user)
{
	const char *name;
	if (of_user)
		setenv("GPUMEM_LOG", of_user, 1);
	else
		setenv("GPUMEM_LOG", launch->record ? "events" : launch->exec ? "off" : "small", 1);
	if (!launch->record && !launch->exec && !of_user) {
		const char *tmp = getenv("TMPDIR");
		snprintf(launch->folder, sizeof launch->folder, "%s/gpumem-run.XXXXXX",
			 tmp && *tmp ? tmp : "/tmp");
		if (!mkdtemp(launch->folder)) {
			launch->folder[0] = '\0';
			setenv("GPUMEM_LOG", "off", 1);
		} else {
			char into[PATH_MAX + 2];
			snprintf(into, sizeof into, "%s/", launch->folder);
			setenv("GPUMEM_LOG_NAME", into, 1);
		}
	}
	name = getenv("GPUMEM_LOG_NAME");
	if (!name || !*name)
		name = GM_FIND_DEFAULT_NAME;
	if (!gm_find_glob(name, launch->glob, sizeof launch->glob)) {
		gm_tool_error("%s: the name is too long", name);
		return false;
	}
	gm_find_matching(&launch->before, launch->glob);
	return true;
}

/* --- the process --- */

static volatile sig_atomic_t child;

/* Ours to pass on; what the terminal sends reaches the whole group by itself. */
static void forward(int signal, siginfo_t *info, void *unused)
{
	(void)unused;
	int saved = errno;
	if (child > 0 && info->si_code <= 0)
		kill((pid_t)child, signal);
	errno = saved;
}

static void forward_signals(void)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};
	struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		struct sigaction old;
		sigaction(signals[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

static int cannot_run(const char *command, int error)
{
	gm_tool_error("%s: %s", command, strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* Start the command with signals blocked, so that none is lost before `child` is known. Returns its
 * wait status, or -1 with *status set. */
static int start_and_wait(char **command, int *status)
{
	sigset_t all, before;
	int ends[2], error = 0, ended;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
		gm_tool_error("cannot start a process: %s", strerror(errno));
		*status = EXIT_OWN_FAILURE;
		return -1;
	}
	if (child == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(command[0], command);
		error = errno;
		ssize_t ignored = write(ends[1], &error, sizeof error);
		(void)ignored;
		_exit(EXIT_CANNOT_RUN);
	}
	close(ends[1]);
	forward_signals();
	sigprocmask(SIG_SETMASK, &before, NULL);
	ssize_t got = read(ends[0], &error, sizeof error);
	close(ends[0]);
	while (waitpid((pid_t)child, &ended, 0) < 0 && errno == EINTR)
		;
	child = 0;
	if (got == (ssize_t)sizeof error) {
		*status = cannot_run(command[0], error);
		return -1;
	}
	*status = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
	return ended;
}

/* --- the line at the end --- */

static bool was_there(const struct launch *launch, const char *path)
{
	for (size_t i = 0; i < launch->before.paths.n; i++)
		if (strcmp(launch->before.paths.at[i], path) == 0)
			return true;
	return false;
}

struct left {
	size_t logs;
	char first[PATH_MAX];
	uint64_t requested, mapped; /* the highest peaks of one log */
};

static void look(struct left *left, const char *path)
{
	struct gm_figures figures;
	char why[256];
	if (!gm_figures_open(&figures, path, why, sizeof why)) {
		gm_tool_error("%s: %s", path, why);
		return;
	}
	uint64_t requested = gm_figures_sum(&figures, GM_C_requested_peak);
	uint64_t mapped = gm_figures_sum(&figures, GM_C_mapped_peak);
	if (left->logs++ == 0)
		snprintf(left->first, sizeof left->first, "%s", path);
	left->requested = requested > left->requested ? requested : left->requested;
	left->mapped = mapped > left->mapped ? mapped : left->mapped;
	gm_figures_close(&figures);
}

static void say_nothing_left(const char *command)
{
	const char *obstacle = gm_preload_obstacle(command);
	if (obstacle)
		gm_tool_error("libgpumem.so was not loaded by %s: %s", command, obstacle);
	else
		gm_tool_error("no process used CUDA");
}

static void say_what_is_left(const struct launch *launch, const char *command)
{
	struct gm_find after = {0};
	struct left left = {0};
	char requested[32], mapped[32];
	gm_find_matching(&after, launch->glob);
	for (size_t i = 0; i < after.paths.n; i++)
		if (!was_there(launch, after.paths.at[i]))
			look(&left, after.paths.at[i]);
	gm_size_format(left.requested, requested, sizeof requested);
	gm_size_format(left.mapped, mapped, sizeof mapped);
	if (left.logs == 0)
		say_nothing_left(command);
	else if (*launch->folder)
		gm_tool_error("%zu process%s used CUDA: peak %s requested, %s mapped; next: "
			      "gpumemstat record -- %s",
			      left.logs, left.logs > 1 ? "es" : "", requested, mapped, command);
	else if (left.logs == 1)
		gm_tool_error("%s: peak %s requested, %s mapped; next: gpumemstat %s", left.first,
			      requested, mapped, left.first);
	else
		gm_tool_error("%zu logs, the first %s: highest peak %s requested, %s mapped; next: "
			      "gpumemstat",
			      left.logs, left.first, requested, mapped);
	for (size_t i = 0; *launch->folder && i < after.paths.n; i++)
		unlink(after.paths.at[i]);
	gm_find_free(&after);
}

static int launch_main(struct launch *launch, const struct gm_command *self, int argc, char **argv)
{
	char library[PATH_MAX];
	int status = EXIT_OWN_FAILURE;
	/* GPUMEM_LOG of the environment counts for `run` only when it was given with -e. */
	unsetenv("GPUMEM_LOG");
	if (parse(launch, self, argc, argv) == GM_OPTIONS_STOP)
		return launch->options.status;
	char **command = argv + optind;
	if (!*command)
		return gm_tool_usage(self->name, "%s: expected a COMMAND", self->name);
	char *of_user = getenv("GPUMEM_LOG");
	if (!gm_preload_find(library, sizeof library) || !choose_log(launch, of_user) ||
	    !gm_preload_set(library))
		return EXIT_OWN_FAILURE;
	if (launch->exec) {
		execvp(*command, command);
		return cannot_run(*command, errno);
	}
	if (start_and_wait(command, &status) != -1 && (!of_user || strcmp(of_user, "off") != 0))
		say_what_is_left(launch, *command);
	if (*launch->folder)
		rmdir(launch->folder);
	gm_find_free(&launch->before);
	return status;
}

int gm_run_main(const struct gm_command *self, int argc, char **argv)
{
	struct launch launch = {.record = false};
	return launch_main(&launch, self, argc, argv);
}

int gm_record_main(const struct gm_command *self, int argc, char **argv)
{
	struct launch launch = {.record = true};
	return launch_main(&launch, self, argc, argv);
}
