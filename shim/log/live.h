/* SPDX-License-Identifier: BSD-3-Clause */
/* What is alive, for a checkpoint of the log. Any thread, no lock held. */
#ifndef GM_SHIM_LOG_LIVE_H
#define GM_SHIM_LOG_LIVE_H

#include "log/record.h"

/* Call `each` for every live block of every pool and of the driver, as a LIVE record, and for every
 * tensor. */
void gm_live_walk(void (*each)(void *arg, const struct gm_record *live), void *arg);

#endif
