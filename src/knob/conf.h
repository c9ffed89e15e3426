/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * /etc/gpumem.conf: knobs for a whole machine, below the environment. One NAME=VALUE a line, blanks
 * around both are dropped; '#' begins a line of comment; the last good line of a knob counts. A bad
 * line is ignored. The whole file is ignored if it cannot be trusted or read at once.
 */
#ifndef GM_KNOB_CONF_H
#define GM_KNOB_CONF_H

#include "knob/knob.h"

#define GM_CONF_PATH "/etc/gpumem.conf"
enum { GM_CONF_LONGEST = 64 << 10, GM_CONF_BAD_SHOWN = 3 };

struct gm_conf {
	const char *path;
	const char *ignored;		    /* why the whole file is ignored; NULL: it is not */
	const char *values[GM_KNOB_COUNT];  /* good ones, as written; NULL: not in the file */
	const char *refused[GM_KNOB_COUNT]; /* bad ones of a knob that has no good one */
	unsigned n_bad;			    /* bad lines */
	struct gm_conf_bad {
		unsigned line;
		char reason[600]; /* "GPUMEM_MODE=fast: expected one of pool, trace" */
	} bad[GM_CONF_BAD_SHOWN]; /* the first ones */
};

/*
 * The file as it was at the first call. Without a file, and in a set-user-ID program, nothing is
 * set. GPUMEM_TEST_CONF in the environment names another file, "" none: for tests. At most five
 * system calls, one without a file; never waits for another process; no allocation. Never NULL. Any
 * thread.
 */
const struct gm_conf *gm_conf_get(void);

#endif
