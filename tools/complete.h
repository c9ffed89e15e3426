/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of commands, options and knobs for shell completions (completions/): lines of fields
 * separated by tabs; "-" stands for an empty field.
 *
 *     command  NAME  OPERANDS  HELP                           OPERANDS: log trace file program none
 *     option   COMMAND  LETTER  NAME  ARGUMENT  VALUES  HELP
 *     knob     NAME  VALUES  HELP
 *     counter  NAME  HELP
 *
 * VALUES are words. A word with "@" names the syntax of further values: @list words separated by
 * commas, @file a file, @knob KNOB=VALUE, @counter COUNTER=VALUE.
 */
#ifndef GM_TOOLS_COMPLETE_H
#define GM_TOOLS_COMPLETE_H

#include <stddef.h>

#include "tools/tool.h"

/* Print the tables of `n` commands. Returns the exit status. */
int gm_complete_print(const struct gm_command *commands, size_t n);

#endif
