/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/distance.h"
#include "log/format.h"
#include "tools/complete.h"
#include "tools/log/process.h"
#include "tools/options.h"
#include "tools/output/progress.h"
#include "tools/tool.h"

static const struct gm_command commands[] = {
	{"run", gm_run_main, GM_OPTIONS_LAUNCH, "[OPTION]... [--] COMMAND [ARG]...",
	 "Run COMMAND with the pool, without a log",
	 "Exit status: that of COMMAND; 128+N when signal N ended it; 125 when gpumemstat\n"
	 "failed, 126 when COMMAND cannot be run, 127 when it was not found."},
	{"record", gm_record_main,
	 GM_OPTIONS_LAUNCH | GM_OPTION_OUTPUT | GM_OPTION_TRACE | GM_OPTION_STACKS,
	 "[OPTION]... [--] COMMAND [ARG]...", "Run COMMAND with the pool and a log of every event",
	 "Exit status: that of COMMAND; 128+N when signal N ended it; 125 when gpumemstat\n"
	 "failed, 126 when COMMAND cannot be run, 127 when it was not found."},
	{"summary", gm_summary_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_VERBOSE | GM_OPTION_SORT | GM_OPTION_ROWS,
	 "[OPTION]... [LOG]...", "Say what a run did with device memory",
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"live", gm_live_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS | GM_OPTION_AT | GM_OPTION_GROUP |
		 GM_OPTION_BLOCKS,
	 "[OPTION]... [LOG]...", "Say which blocks were alive, and the call stacks that made them",
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"leaks", gm_leaks_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS | GM_OPTION_GROUP | GM_OPTION_BLOCKS,
	 "[OPTION]... [LOG]...", "Say which blocks were never freed",
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"frag", gm_frag_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS | GM_OPTION_SIZE,
	 "[OPTION]... [LOG]...", "Say how fragmented the pool was, and what was idle by size",
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"hist", gm_hist_main, GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_DEVICE,
	 "[OPTION]... [LOG]...", "Count blocks by size, and by how long they lived",
	 "Reads logs of events, as 'gpumemstat record' makes them.\n"
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"map", gm_map_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS | GM_OPTION_DEVICE | GM_OPTION_AT,
	 "[OPTION]... [LOG]...", "Draw the addresses of the pool: in use, idle, not mapped",
	 "Reads logs of events, as 'gpumemstat record' makes them.\n"
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"report", gm_report_main, GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_FILE,
	 "[OPTION]... [LOG]...",
	 "Make a page for a browser: timeline, flame graph, blocks, findings",
	 "Without LOG: the newest run whose logs *.gml lie in this folder.\n"
	 "--json: the data of the page instead, on standard output unless -o is given.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself, or the page\n"
	 "cannot be written; 2 usage."},
	{"diff", gm_diff_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS | GM_OPTION_VERBOSE | GM_OPTION_AT |
		 GM_OPTION_BLOCKS,
	 "[OPTION]... OLD NEW", "Compare two runs: peak, call sites, findings, counters",
	 "OLD, NEW: a log each, or a name that stands for the logs of a run.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself; 2 usage."},
	{"check", gm_check_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_MAX | GM_OPTION_LEAKS | GM_OPTION_PARTIAL |
		 GM_OPTION_SET | GM_OPTION_OUTPUT | GM_OPTION_TRACE | GM_OPTION_STACKS,
	 "[OPTION]... {[LOG]... | -- COMMAND [ARG]...}", "Compare counters with limits, for tests",
	 "-- COMMAND: record it first, as 'gpumemstat record' does; -e, -o, --trace and\n"
	 "--stacks are for this.\n"
	 "Without both: the newest run whose logs *.gml lie in this folder.\n"
	 "Exit status: that of COMMAND if it fails; 0; 1 when a log cannot be read, is of\n"
	 "a run that did not end by itself, is not the newest of its name, or contradicts\n"
	 "itself, or when COMMAND used no CUDA; 2 usage; 3 when a limit is exceeded."},
	{"export", gm_export_main, GM_OPTIONS_ALWAYS | GM_OPTION_FORMAT | GM_OPTION_FILE,
	 "[OPTION]... [LOG]", "Write a log in a format that other programs read",
	 "csv: the events, one a row. openmetrics: the counters, for Prometheus;\n"
	 "prometheus: the same in its older text format, for promtool and node_exporter.\n"
	 "chrome: a trace for Perfetto and chrome://tracing. pytorch: a snapshot for\n"
	 "pytorch.org/memory_viz and torch.cuda._memory_viz.\n"
	 "Without LOG: the newest run whose log *.gml lies in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself, or the output\n"
	 "cannot be written; 2 usage."},
	{"plot", gm_plot_main,
	 GM_OPTIONS_ALWAYS | GM_OPTION_PIXELS | GM_OPTION_DEVICE | GM_OPTION_FILE,
	 "[OPTION]... [LOG]", "Draw memory over time and histograms of blocks, as SVG",
	 "Without LOG: the newest run whose log *.gml lies in this folder.\n"
	 "Exit status: 0; 1 when a log cannot be read or contradicts itself, or the output\n"
	 "cannot be written; 2 usage."},
	{"top", gm_top_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS | GM_OPTION_ONCE | GM_OPTION_DELAY |
		 GM_OPTION_BY,
	 "[OPTION]...", "Show the GPUs and the processes on them, live",
	 "Processes without gpumem are those that NVIDIA's management library names."},
	{"log", gm_log_main, GM_OPTIONS_ALWAYS, "PID {events|small}",
	 "Begin or end the recording of events in a process that runs",
	 "events: events and call stacks, beside its log, in a file NAME.events.\n"
	 "small: end that. The process obeys at its next allocation, free or copy.\n"
	 "Exit status: 0; 1 when the process does not do so; 2 usage."},
	{"sleep", gm_sleep_main, GM_OPTIONS_ALWAYS | GM_OPTIONS_CHOICE | GM_OPTION_JSON,
	 "[OPTION]... [PID]...", "Send what processes hold on GPUs to host memory",
	 "Of processes under GPUMEM_SLEEP=1 of this user. They wake at their next use.\n"
	 "Without PID: one of --all, --program, --job and --tree.\n"
	 "Exit status: 0; 1 when a process does not sleep, or none was found; 2 usage."},
	{"wake", gm_wake_main, GM_OPTIONS_ALWAYS | GM_OPTIONS_CHOICE | GM_OPTION_JSON,
	 "[OPTION]... [PID]...", "Bring it back before its next use",
	 "Without PID: one of --all, --program, --job and --tree.\n"
	 "Exit status: 0; 1 when a process does not wake, or none was found; 2 usage."},
	{"replay", gm_replay_main,
	 GM_OPTIONS_OUTPUT | GM_OPTION_POLICY | GM_OPTION_LAG | GM_OPTION_LIMIT | GM_OPTION_MEMORY |
		 GM_OPTION_DEVICE | GM_OPTION_UNIT | GM_OPTION_LEAST,
	 "[OPTION]... [LOG|CSV]...", "Run a trace through the pool and other policies, and compare",
	 "Without an operand: the newest run whose logs *.gml lie in this folder.\n"
	 "CSV: of RMM or MiniMalloc, by gzip or not; -: standard input.\n"
	 "The pool obeys the knobs of the environment.\n"
	 "Exit status: 0; 1 when a file cannot be read or contradicts itself; 2 usage;\n"
	 "3 when the pool does not reach --min-utilisation."},
	{"image", gm_image_main, GM_OPTIONS_OUTPUT | GM_OPTION_UNITS | GM_OPTION_ROWS,
	 "[OPTION]... FILE...", "Name the kernels of a file, and say whether it may call malloc",
	 "FILE: a program, library, object or archive, a cubin, a fatbin, or PTX.\n"
	 "Exit status: 0; 1 when a FILE cannot be read, is damaged or has no device code;\n"
	 "2 usage."},
	{"env", gm_env_main, GM_OPTIONS_OUTPUT, "[OPTION]... [LOG|PID]",
	 "List every knob: value, default, source, help",
	 "Values are those of the environment, of the run that wrote LOG, or of process\n"
	 "PID."},
	{"hooks", gm_hooks_main, GM_OPTIONS_OUTPUT, "[OPTION]...",
	 "List what is hooked, and what each hook does",
	 "RETRY: for lack of memory, idle memory is returned and the call retried once.\n"
	 "WAITS: may wait for the GPU. SUBMITS: wakes a process that sleeps."},
	{"doctor", gm_doctor_main, GM_OPTIONS_OUTPUT | GM_OPTION_TIMEOUT,
	 "[OPTION]... [--] [COMMAND [ARG]...]", "Say whether it can work here, and if not, why",
	 "With COMMAND: also whether the library can get into it; it is not run.\n"
	 "Exit status: 0; 1 when it cannot work; 2 usage."},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const struct gm_command *command_find(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static bool file_is_program(const char *path)
{
	char magic[sizeof GM_FORMAT_MAGIC - 1] = "";
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, X_OK) != 0)
		return false;
	FILE *file = fopen(path, "re");
	if (file) {
		size_t n = fread(magic, 1, sizeof magic, file);
		fclose(file);
		return n < sizeof magic || memcmp(magic, GM_FORMAT_MAGIC, sizeof magic) != 0;
	}
	return true; /* executable, but not readable */
}

/* True if a folder of PATH has a program of this name. */
static bool program_is_found(const char *name)
{
	const char *folders = getenv("PATH");
	char path[PATH_MAX];
	for (const char *at = folders; at && *name; at = strchr(at, ':')) {
		at += *at == ':';
		if (snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(at, ":"), at, name) <
			    (int)sizeof path &&
		    file_is_program(path))
			return true;
	}
	return false;
}

static int command_unknown(const char *word)
{
	const char *nearest = NULL;
	/* Allow one wrong letter in a short word, two in a longer one. */
	unsigned least = strlen(word) < 5 ? 2 : 3;
	for (unsigned i = 0; i < COMMANDS; i++) {
		unsigned far = gm_distance(word, commands[i].name);
		if (far < least) {
			least = far;
			nearest = commands[i].name;
		}
	}
	if (nearest)
		return gm_tool_usage(NULL, "unknown command '%s'; did you mean '%s'?", word,
				     nearest);
	if (program_is_found(word))
		return gm_tool_usage(NULL,
				     "unknown command '%s'; to run a program: gpumemstat record -- "
				     "%s ...",
				     word, word);
	return gm_tool_usage(NULL, "unknown command '%s'", word);
}

/* Refuse a program given in place of a log, with advice. */
static int program_refuse(const char *path)
{
	return gm_tool_usage(NULL,
			     "'%s' is a program, not a log; to run it: gpumemstat record -- %s ...",
			     path, path);
}

/* True if `word` is an option of record but not of summary. */
static bool option_is_of_record(const char *word)
{
	return gm_options_has(command_find("record"), word) &&
	       !gm_options_has(command_find("summary"), word);
}

static bool path_is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The command behind leading options; NULL: none. */
static const struct gm_command *command_find_behind_options(char **argv)
{
	const struct gm_command *command = NULL;
	for (; *argv && strcmp(*argv, "--") != 0 && !command; argv++)
		command = command_find(*argv);
	return command;
}

static int help_print(void)
{
	puts("Usage: gpumemstat [COMMAND] [OPTION]... [ARGUMENT]...\n"
	     "Run a CUDA program on the memory pool of gpumem, or read the logs it left.\n\n"
	     "Commands:");
	for (unsigned i = 0; i < COMMANDS; i++)
		printf("  %-9s %s\n", commands[i].name, commands[i].help);
	puts("\nWithout COMMAND, or with the name of a log in its place: summary.\n"
	     "'gpumemstat COMMAND --help' or 'gpumemstat help COMMAND' lists the options\n"
	     "of a command; gpumemstat(1) has it all.");
	return GM_EXIT_OK;
}

static bool word_is_one_of(const char *word, const char *a, const char *b)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static bool word_is_process(const char *word)
{
	static struct gm_process process;
	int pid;
	return gm_process_parse(word, &pid) && gm_process_find(pid, &process);
}

/* `help`, or `help COMMAND`. */
static int help_of(int n, char **names)
{
	char option[] = "--help";
	const struct gm_command *command = n > 0 ? command_find(names[0]) : NULL;
	if (n == 0 || *names[0] == '-')
		return help_print();
	if (!command)
		return command_unknown(names[0]);
	char *argv[] = {names[0], option, NULL};
	return command->run(command, 2, argv);
}

static int command_run(int argc, char **argv)
{
	const char *first = argc > 1 ? argv[1] : NULL;
	const struct gm_command *command = first ? command_find(first) : NULL;
	if (command)
		return command->run(command, argc - 1, argv + 1);
	if (first && (word_is_one_of(first, "-h", "--help") || strcmp(first, "help") == 0))
		return help_of(argc - 2, argv + 2);
	if (first && word_is_one_of(first, "-V", "--version")) {
		puts("gpumemstat " PACKAGE_VERSION);
		return GM_EXIT_OK;
	}
	if (first && strcmp(first, "--completions") == 0)
		return gm_complete_print(commands, COMMANDS);
	/* A log's name has a dot or a slash, a command's neither; existing files do not matter. The
	 * number of a process with counters stands for its log. */
	if (first && *first != '-' && !strpbrk(first, "./") && !path_is_folder(first) &&
	    !word_is_process(first))
		return command_unknown(first);
	if (first && *first == '-' && (command = command_find_behind_options(argv + 1)))
		return gm_tool_usage(command->name,
				     "options go behind the command: gpumemstat %s [OPTION]...",
				     command->name);
	if (first && option_is_of_record(first))
		return gm_tool_usage("record",
				     "%s is an option of 'record'; to run a program: gpumemstat "
				     "record %s ...",
				     first, first);
	if (first && *first != '-' && file_is_program(first))
		return program_refuse(first);
	return gm_summary_main(command_find("summary"), argc, argv);
}

int main(int argc, char **argv)
{
	gm_progress_start();
	int status = command_run(argc, argv), flushed = gm_tool_flush();
	return status ? status : flushed;
}
