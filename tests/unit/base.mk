# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_base tests/unit/test_entries tests/unit/test_size tests/unit/test_tick \
	tests/unit/test_timing tests/unit/test_worker
