/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of one log: what summary shows, before any of it is laid out. */
#ifndef GM_TOOLS_FIGURES_H
#define GM_TOOLS_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "log/read.h"

/* The calls of one hook, from events. */
struct gm_figures_hook {
	uint64_t calls, errors, driver, total; /* total: ns; driver: calls that the driver served */
	GM_ARRAY(uint32_t) durations;	       /* ns, sorted */
};

struct gm_figures_refusal {
	uint64_t time, asked;
	unsigned device;
	struct gm_sample sample;
};

struct gm_figures_device {
	bool used;    /* any allocation, free or mapping of the program */
	bool sampled; /* `last` is there */
	struct gm_sample last;
};

struct gm_figures {
	struct gm_log_file *file;
	const struct gm_log_about *about;
	struct gm_figures_device devices[GM_COUNTER_DEVICES];
	unsigned n_devices;
	struct gm_figures_hook *hooks; /* about->n_hooks of them */
	GM_ARRAY(struct gm_figures_refusal) refusals;
};

/* Read `path`. False: `why` says why not, and nothing is to be closed. */
bool gm_figures_open(struct gm_figures *figures, const char *path, char *why, size_t n);
void gm_figures_close(struct gm_figures *figures);

uint64_t gm_figures_device(const struct gm_figures *figures, unsigned device, enum gm_counter c);
uint64_t gm_figures_process(const struct gm_figures *figures, enum gm_counter c);

/* Over all devices. */
uint64_t gm_figures_sum(const struct gm_figures *figures, enum gm_counter c);

/* ns from the start of the log to its last sign of life, or to `time` (0: unknown, gives 0). */
uint64_t gm_figures_length(const struct gm_figures *figures);
uint64_t gm_figures_at(const struct gm_figures *figures, uint64_t time);

/* The duration that `ppm` of the calls did not exceed; 0 without calls. */
uint32_t gm_figures_quantile(const struct gm_figures_hook *hook, uint32_t ppm);

/* "closed cleanly", "still running", "killed, or crashed". */
const char *gm_figures_end(const struct gm_figures *figures);

/* The path without the folders before it. */
const char *gm_figures_name(const struct gm_figures *figures);

#endif
