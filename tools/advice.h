/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_TOOLS_ADVICE_H
#define GM_TOOLS_ADVICE_H

#include "figures.h"

enum { GM_ADVICE_MOST = 16, GM_ADVICE_LENGTH = 320 };

/*
 * What stands out in a log and what to do next, the gravest first: one sentence or two each, for
 * people. Returns how many were written; at least one.
 */
unsigned gm_advice(const struct gm_figures *figures, char text[][GM_ADVICE_LENGTH]);

#endif
