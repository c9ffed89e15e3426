/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions and objects of the CPython that the process has loaded, if any (pyapi.def). NULL:
 * this version has none of that name.
 */
#ifndef GM_STACK_PYAPI_H
#define GM_STACK_PYAPI_H

#include <stdbool.h>

#include "base/debug.h"

struct gm_python {
#define GM_PYTHON(need, result, name, parameters) __typeof__(result)(*name) parameters;
#define GM_PYTHON_OBJECT(need, name) void *name;
#include "stack/pyapi.def"
#undef GM_PYTHON
#undef GM_PYTHON_OBJECT
};

extern GM_HIDDEN struct gm_python gm_python;

/* Search for an interpreter; one in another namespace, such as a debugger's, is not found. False:
 * there is none. One thread. */
bool gm_python_search(void);

/* After a search that found one: does it have all that reading of its memory needs? */
bool gm_python_is_readable(void);

#endif
