# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += tests/tap.h tests/bats.sh tests/lsan.supp tests/tsan.supp tests/refute.bash
AM_TESTS_ENVIRONMENT = LSAN_OPTIONS=suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0; \
	export LSAN_OPTIONS; \
	TSAN_OPTIONS=suppressions=$(abs_top_srcdir)/tests/tsan.supp:print_suppressions=0; export TSAN_OPTIONS; \
	GPUMEM_TEST_CONF=; export GPUMEM_TEST_CONF;

# Tests that compile device code: make check-nvcc.
NVCC_TESTS =
include tests/unit/local.mk
include tests/sim/local.mk
include tests/preload/local.mk
include tests/stress/local.mk
include tests/core/local.mk
include tests/frames/local.mk
include tests/programs/local.mk
include tests/cli/local.mk
include tests/cli/wrong.mk
include tests/gpu/local.mk
include tests/fuzz/local.mk
include tests/bench/local.mk
include tests/bench/door.mk
include tests/bench/warm.mk
include tests/lint/local.mk
include tests/mutants/local.mk
include tests/packages/local.mk
include tests/checks.mk
include tests/inner/local.mk
