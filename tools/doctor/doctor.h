/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether gpumem can work here. Each check gives a finding and a remedy. Single-threaded. */
#ifndef GM_TOOLS_DOCTOR_DOCTOR_H
#define GM_TOOLS_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "knob/knob.h"

enum gm_doctor_state {
	GM_DOCTOR_OK,
	GM_DOCTOR_WARN, /* it works, with a restriction */
	GM_DOCTOR_FAIL, /* it cannot work */
	GM_DOCTOR_STEP	/* not a check: the next step of a child process */
};

struct gm_doctor_check {
	enum gm_doctor_state state;
	char name[24], text[640], remedy[256];
};

struct gm_doctor {
	GM_ARRAY(struct gm_doctor_check) checks;
	int pipe; /* -1: checks are kept here; else they are written to this descriptor */
};

/* Add a check. `remedy`: advice; "": none. */
void gm_doctor_say(struct gm_doctor *doctor, const char *name, enum gm_doctor_state state,
		   const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* In a child process: name the next step, for the message if it crashes or hangs. */
void gm_doctor_step(struct gm_doctor *doctor, const char *text);

/*
 * Run `run` in a child process and take over its checks. If the child crashes, or sends nothing for
 * `timeout` ns, it is killed, and a failed check `name` names its step.
 */
void gm_doctor_child(struct gm_doctor *doctor, const char *name, uint64_t timeout,
		     void (*run)(struct gm_doctor *doctor));

/* driver.c, for gm_doctor_child: checks of the driver and its devices. */
void gm_doctor_driver(struct gm_doctor *doctor);

/* here.c: checks of system, library, preload, knobs, log, limits. */
void gm_doctor_here(struct gm_doctor *doctor);

/* here.c: the effective value of a knob: the environment's if valid, else the file's, else the
 * default. */
union gm_knob_value gm_doctor_knob(enum gm_knob_id id);

/* torch.c: can parts of PyTorch's cache be lent, with a driver of this version? */
void gm_doctor_lending(struct gm_doctor *doctor, int version);

/* tables.c: private tables that gpumem does not know; nothing if there is none. Those of the
 * driver, `library`, of this version; and those in the logs of the newest run in this folder. */
void gm_doctor_tables(struct gm_doctor *doctor, void *library, int version);
void gm_doctor_logs(struct gm_doctor *doctor);

/* command.c: checks that the library can be preloaded into this command. */
void gm_doctor_command(struct gm_doctor *doctor, const char *command);

#endif
