# SPDX-License-Identifier: BSD-3-Clause
TAKEOVER_LDADD = libgmtakeover.la $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_takeover tests/unit/test_takeover_code
tests_unit_test_takeover_LDADD = $(TAKEOVER_LDADD)
tests_unit_test_takeover_code_LDADD = $(TAKEOVER_LDADD)

# Where there is an nvcc.
dist_check_SCRIPTS += tests/unit/takeover_nvcc.sh
NVCC_TESTS += tests/unit/takeover_nvcc.sh
