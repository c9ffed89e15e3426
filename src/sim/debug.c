/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables of the driver that debuggers set; unused here. */
#include "sim/internal.h"

uint32_t cudbgIpcFlag, cudbgDebuggerInitialized, cudbgRpcEnabled, cudbgApiClientPid,
	cudbgUseExternalDebugger;
