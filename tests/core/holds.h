/* SPDX-License-Identifier: BSD-3-Clause */
/* Does a block of 1 MiB have this value in each byte? */
#ifndef GM_TESTS_CORE_HOLDS_H
#define GM_TESTS_CORE_HOLDS_H

#include "../preload/program.h"

static bool holds(CUdeviceptr block, unsigned char byte)
{
	static unsigned char host[MIB];
	MUST(cuMemcpyDtoH(host, block, sizeof host));
	for (size_t i = 0; i < sizeof host; i++)
		if (host[i] != byte)
			return false;
	return true;
}

#endif
