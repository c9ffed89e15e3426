/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of commands, options and knobs for the completions of shells (completions/): lines of
 * fields separated by tabs; "-" stands for an empty field.
 *
 *     command  NAME  OPERANDS  HELP                           OPERANDS: log trace file program none
 *     option   COMMAND  LETTER  NAME  ARGUMENT  VALUES  HELP
 *     knob     NAME  VALUES  HELP
 *     counter  NAME  HELP
 *
 * VALUES are words; one that begins with "@" says what else may stand there: @list words by commas,
 * @file a file, @knob KNOB=VALUE, @counter COUNTER=VALUE.
 */
#ifndef GM_TOOLS_COMPLETE_H
#define GM_TOOLS_COMPLETE_H

#include <stddef.h>

#include "tools/tool.h"

/* Print the tables of `n` commands. Returns the exit status. */
int gm_complete_print(const struct gm_command *commands, size_t n);

#endif
