/* SPDX-License-Identifier: BSD-3-Clause */
/* Can gpumem work here? Checks, each of which says what it found and what to do about it. */
#ifndef GM_TOOLS_DOCTOR_H
#define GM_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

enum gm_doctor_state {
	GM_DOCTOR_OK,
	GM_DOCTOR_WARN, /* it works, but not all of it */
	GM_DOCTOR_FAIL, /* it cannot work */
	GM_DOCTOR_STEP	/* of a process of its own: what it does next */
};

struct gm_doctor_check {
	enum gm_doctor_state state;
	char name[24], text[640], remedy[256];
};

struct gm_doctor {
	GM_ARRAY(struct gm_doctor_check) checks;
	int pipe; /* -1: this process keeps the checks; else they are sent */
};

/* One check; `remedy` says what to do, "" nothing. */
void gm_doctor_say(struct gm_doctor *doctor, const char *name, enum gm_doctor_state state,
		   const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* In a process of its own: what is done next, to be named should it crash or hang. */
void gm_doctor_step(struct gm_doctor *doctor, const char *what);

/*
 * Run `ask` in a process of its own, and take over what it says. When it crashes, or is silent for
 * `timeout` ns, a failed check `name` says at which step, and the process is killed.
 */
void gm_doctor_apart(struct gm_doctor *doctor, const char *name, uint64_t timeout,
		     void (*ask)(struct gm_doctor *doctor));

/* doctor_driver.c, for gm_doctor_apart: the driver and its devices. */
void gm_doctor_driver(struct gm_doctor *doctor);

/* doctor_here.c: system, library, preload, knobs, log, limits. */
void gm_doctor_here(struct gm_doctor *doctor);

/* doctor_command.c: can the library get into this command? */
void gm_doctor_command(struct gm_doctor *doctor, const char *command);

#endif
