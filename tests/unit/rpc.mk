# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_rpc tests/unit/test_rpc_odd tests/unit/test_rpc_user
# The test names the user at the other end of a socket.
tests_unit_test_rpc_odd_LDFLAGS = -Wl,--wrap=gm_sys_peer_user
# The test names the user of the process, and its user namespace.
tests_unit_test_rpc_user_LDFLAGS = -Wl,--wrap=geteuid,--wrap=gm_sys_peer_user,--wrap=gm_sys_open
