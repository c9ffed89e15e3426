# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_door tests/unit/test_folder tests/unit/test_opened \
	tests/unit/test_residency tests/unit/test_store
tests_unit_test_folder_LDFLAGS = -Wl,--wrap=gm_store_take
