# SPDX-License-Identifier: BSD-3-Clause
# The bugs of other libraries that get between programs and CUDA: BREAKAGE.md lists them.
BREAK_BATS = %D%/break_device.bats
dist_check_SCRIPTS += $(BREAK_BATS)
TESTS += $(BREAK_BATS)
