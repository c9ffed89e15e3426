#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# inkernel.sh BUILD-FOLDER: print one line about the build's support of malloc in kernels.
set -eu
if grep -q '^#define GM_HELPERS 1' "$1/config.h"; then
	echo "malloc in kernels can be taken over, by every policy of GPUMEM_HEAP"
else
	echo "malloc in kernels stays the driver's: no nvcc, nvlink and fatbinary were found for this build"
fi
