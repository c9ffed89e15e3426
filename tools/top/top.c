/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat top: the devices and their processes now, refreshed. */
#include "tools/top/top.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/output/emit.h"
#include "tools/output/screen.h"

/* Columns of the widest row before the program's name, and the minimum of the name. */
enum { BEFORE_NAME = 72, NAME_LEAST = 8 };

/* --- the order of processes --- */

enum {
	BY_MEMORY,
	BY_REQUESTED,
	BY_POOL,
	BY_HEAP,
	BY_FOREIGN,
	BY_EXTERNAL,
	BY_PID,
	BY_PROGRAM,
	ORDERS
};

/* Each order, with its key on the screen and its name in --by. */
static const struct {
	const char *name;
	char key;
} orders[ORDERS] = {
	{"memory", 'm'},  {"requested", 'r'}, {"pool", 'o'}, {"heap", 'h'},
	{"foreign", 'f'}, {"external", 'x'},  {"pid", 'p'},  {"program", 'n'},
};

static unsigned order_find(const char *name)
{
	for (unsigned i = 0; name && i < ORDERS; i++)
		if (strcmp(name, orders[i].name) == 0)
			return i;
	return BY_MEMORY;
}

/* For the qsort in progress; the program has one thread. */
static unsigned order_now;

static uint64_t process_figure(const struct gm_top_process *p)
{
	switch (order_now) {
	case BY_REQUESTED:
		return p->requested;
	case BY_POOL:
		return p->mapped;
	case BY_HEAP:
		return p->heap;
	case BY_FOREIGN:
		return p->foreign;
	case BY_EXTERNAL:
		return p->external;
	default:
		return p->memory;
	}
}

/* The largest figure first; equal figures by number of the process, then by device. */
static int process_compare(const void *a, const void *b)
{
	const struct gm_top_process *x = a, *y = b;
	const uint64_t m = process_figure(x), n = process_figure(y);
	int order = order_now == BY_PID ? 0 : (m < n) - (m > n);
	if (order_now == BY_PROGRAM)
		order = strcmp(x->program, y->program);
	if (order == 0)
		order = (x->pid > y->pid) - (x->pid < y->pid);
	return order ? order : (x->device > y->device) - (x->device < y->device);
}

/* --- one picture --- */

static struct gm_value counted(bool is, struct gm_value value)
{
	return is ? value : GM_NONE;
}

static void devices_show(struct gm_emit *emit, const struct gm_top *top)
{
	static const struct gm_column columns[] = {
		{"index", "gpu", 0},
		{"total", "memory", 0},
		{"used", "used", 0},
		{"requested", "requested", 0},
		{"pool", "pool", 0},
		{"heap", "heap", 0},
		{"foreign", "foreign", 0},
		{"away", NULL, GM_COLUMN_JSON_ONLY},
		{"processes", "processes", GM_COLUMN_JSON_ONLY},
		{"name", "name", GM_COLUMN_LEFT | GM_COLUMN_WRAP},
	};
	gm_emit_table(emit, "devices", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < top->devices.n; i++) {
		const struct gm_top_device *d = &top->devices.at[i];
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    GM_COUNT(i), d->total ? GM_BYTES(d->total) : GM_NONE,
				    GM_BYTES(d->used), GM_BYTES(d->requested), GM_BYTES(d->mapped),
				    GM_BYTES(d->heap), GM_BYTES(d->foreign), GM_BYTES(d->away),
				    GM_COUNT(d->processes), *d->name ? GM_TEXT(d->name) : GM_NONE});
	}
	gm_emit_table_end(emit);
}

static void processes_show(struct gm_emit *emit, const struct gm_top *top)
{
	static const struct gm_column columns[] = {
		{"pid", "pid", 0},
		{"gpu", "gpu", 0},
		{"memory", "memory", 0},
		{"requested", "requested", 0},
		{"pool", "pool", 0},
		{"heap", "heap", 0},
		{"foreign", "foreign", 0},
		{"away", NULL, GM_COLUMN_JSON_ONLY},
		{"external", NULL, GM_COLUMN_JSON_ONLY},
		{NULL, "frag", GM_COLUMN_TEXT_ONLY},
		{"program", NULL, GM_COLUMN_JSON_ONLY},
		{NULL, "program", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
	};
	const unsigned width = emit->options->width;
	const unsigned room = width > BEFORE_NAME + NAME_LEAST ? width - BEFORE_NAME : NAME_LEAST;
	gm_emit_table(emit, "processes", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < top->processes.n; i++) {
		const struct gm_top_process *p = &top->processes.at[i];
		const bool c = p->counted;
		char name[sizeof p->program];
		snprintf(name, sizeof name, "%.*s", (int)room, p->program);
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    GM_INT(p->pid),
				    counted(p->device != GM_TOP_NO_DEVICE, GM_COUNT(p->device)),
				    counted(p->memory_known, GM_BYTES(p->memory)),
				    counted(c, GM_BYTES(p->requested)),
				    counted(c, GM_BYTES(p->mapped)), counted(c, GM_BYTES(p->heap)),
				    counted(c, GM_BYTES(p->foreign)), counted(c, GM_BYTES(p->away)),
				    counted(c, GM_PPM(p->external)),
				    p->away ? GM_TEXT("away") : counted(c, GM_PPM(p->external)),
				    GM_TEXT(p->program), GM_TEXT(name)});
	}
	gm_emit_table_end(emit);
}

static int picture_show(FILE *out, const struct gm_options *options)
{
	struct gm_emit emit;
	struct gm_top top;
	gm_top_read(&top);
	if (top.processes.n)
		qsort(top.processes.at, top.processes.n, sizeof *top.processes.at, process_compare);
	gm_emit_open(&emit, out, options);
	if (top.devices.n || options->json)
		devices_show(&emit, &top);
	gm_emit_break(&emit);
	if (top.processes.n || options->json)
		processes_show(&emit, &top);
	else
		gm_emit_plain(&emit, "no process has memory of a GPU, as far as this user can see");
	gm_top_free(&top);
	return gm_emit_close(&emit);
}

/* --- the screen --- */

/* Draw a picture. False: the terminal is gone. */
static bool picture_draw(struct gm_options *options)
{
	char *text = NULL, when[32] = "";
	size_t size = 0;
	const time_t now = time(NULL);
	struct tm parts;
	FILE *out = open_memstream(&text, &size);
	if (!out) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	gm_options_measure(options);
	if (localtime_r(&now, &parts))
		strftime(when, sizeof when, "%H:%M:%S", &parts);
	fprintf(out, "gpumemstat top %s  by %s\n", when, orders[order_now].name);
	fputs("keys: m r o h f x p n: order; space: now; q: quit\n\n", out);
	picture_show(out, options);
	fclose(out);
	const bool drawn = gm_screen_draw(text);
	free(text);
	return drawn;
}

static int screen_run(struct gm_options *options)
{
	for (;;) {
		if (!picture_draw(options))
			break;
		const int key = gm_screen_key(options->delay);
		if (key == EOF || key == 'q' || key == 'Q')
			break;
		for (unsigned i = 0; i < ORDERS; i++)
			if (key == orders[i].key)
				order_now = i;
	}
	gm_screen_close();
	return GM_EXIT_OK;
}

int gm_top_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	bool once = false;
	gm_options_begin(&options);
	for (int bit; (bit = gm_options_next(&options, self, argc, argv)) != GM_OPTIONS_DONE;) {
		if (bit == GM_OPTIONS_STOP)
			return options.status;
		once |= bit == GM_OPTION_INDEX_ONCE;
	}
	if (optind < argc)
		return gm_tool_extra(self, argv[optind]);
	order_now = order_find(options.by);
	if (once || options.json || !gm_screen_open())
		return picture_show(stdout, &options);
	return screen_run(&options);
}
