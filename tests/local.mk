# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += tests/tap.h tests/bats.sh

include tests/unit/local.mk
include tests/sim/local.mk
include tests/preload/local.mk
include tests/cli/local.mk
include tests/gpu/local.mk
include tests/lint/local.mk
