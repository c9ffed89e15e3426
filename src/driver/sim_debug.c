/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of the driver that debuggers set from outside; the simulated one has no use for them.
 */
#include "driver/sim_internal.h"

uint32_t cudbgIpcFlag, cudbgDebuggerInitialized, cudbgRpcEnabled, cudbgApiClientPid,
	cudbgUseExternalDebugger;
