# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_driver tests/unit/test_null tests/unit/test_sim \
	tests/unit/test_sim_capture tests/unit/test_sim_launched tests/unit/test_sim_memory tests/unit/test_sim_stream
