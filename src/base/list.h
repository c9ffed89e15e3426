/* SPDX-License-Identifier: BSD-3-Clause */
/* uthash's lists without its assertions: they would end the host program, and name our folders. */
#ifndef GM_BASE_LIST_H
#define GM_BASE_LIST_H

#define NDEBUG
#include <utlist.h>
#undef NDEBUG

#endif
