# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_knob
