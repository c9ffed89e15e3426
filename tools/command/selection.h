/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes that sleep and wake ask: one by its number, or those that an option chooses out of
 * all nodes of this user (rpc/rpc.h). Single-threaded. */
#ifndef GM_TOOLS_COMMAND_SELECTION_H
#define GM_TOOLS_COMMAND_SELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "rpc/rpc.h"
#include "tools/options.h"

struct gm_chosen {
	uint32_t pid;		   /* as this process sees it */
	bool found;		   /* it has a node */
	enum gm_rpc_result result; /* OK: `link` is connected, and is the caller's */
	int error;		   /* errno of the result UNABLE */
	struct gm_rpc_link link;
};

struct gm_chosen_list {
	GM_ARRAY(struct gm_chosen) a;
};

/* An option that chooses: its name without "--" (NULL: none was given), and its value. */
struct gm_selection {
	const char *option, *value;
	bool (*takes)(int pid, const char *value);
	bool together; /* they may wait for each other, so all sleep, or none */
};

/* False, after a usage error of the command: the options exclude each other. */
bool gm_selection_get(const struct gm_options *options, const char *command,
		      struct gm_selection *out);

/* Connect to the process of a number; adds one element in any case. */
void gm_selection_find(uint32_t pid, struct gm_chosen_list *out);

/* Connect to all processes that the option chooses; adds them, those that do not answer included,
 * in the order of their numbers. */
void gm_selection_choose(const struct gm_selection *selection, struct gm_chosen_list *out);

#endif
