#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a build does with malloc in kernels, in one line: inkernel.sh BUILD-FOLDER.
set -eu
if grep -q '^#define GM_HELPERS 1' "$1/config.h"; then
	echo "malloc in kernels can be taken over, by every policy of GPUMEM_HEAP"
else
	echo "malloc in kernels stays the driver's: no nvcc, nvlink and fatbinary were found for this build"
fi
