# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_cancel tests/unit/test_counters tests/unit/test_frag \
	tests/unit/test_log tests/unit/test_log_begin tests/unit/test_log_heap \
	tests/unit/test_log_limits tests/unit/test_log_mutate tests/unit/test_log_names \
	tests/unit/test_log_read tests/unit/test_log_stacks tests/unit/test_recent \
	tests/unit/test_recording tests/unit/test_released tests/unit/test_segment \
	tests/unit/test_stack tests/unit/test_unwind
tests_unit_test_released_LDFLAGS = -Wl,--wrap=gm_log_string -Wl,--export-dynamic
