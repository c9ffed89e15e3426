/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LD_AUDIT=libgpumem.so, a wrong use: the library is in a namespace of its own, and the program
 * runs natively. To an answer of 0 the loader of glibc would unload the library, and it ends the
 * process when that is impossible (-z nodelete).
 */
#include <link.h>

#include "base/msg.h"

__attribute__((visibility("default"))) unsigned la_version(unsigned version)
{
	gm_msg(GM_MSG_WARN, "libgpumem.so has no effect in LD_AUDIT; put it into LD_PRELOAD");
	return version;
}
