# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_context tests/unit/test_demand tests/unit/test_fence \
	tests/unit/test_handle tests/unit/test_late tests/unit/test_opens tests/unit/test_order \
	tests/unit/test_poll tests/unit/test_rest tests/unit/test_segments \
	tests/unit/test_sleep_bounds tests/unit/test_trim_thread tests/unit/test_turns
tests_unit_test_context_LDFLAGS = -Wl,--wrap=aligned_alloc,--wrap=free
tests_unit_test_late_SOURCES = tests/unit/test_late.c shim/entry/glibc_late.c shim/entry/glibc_late.h shim/entry/object.c shim/entry/object.h
tests_unit_test_late_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
tests_unit_test_handle_SOURCES = tests/unit/test_handle.c shim/kernel/handle.c shim/kernel/handle.h
tests_unit_test_handle_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
tests_unit_test_handle_LDFLAGS = -Wl,--wrap=calloc
tests_unit_test_demand_SOURCES = tests/unit/test_demand.c shim/idle/demand.c shim/idle/demand.h
tests_unit_test_demand_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
tests_unit_test_demand_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=gm_sys_nap,--wrap=gm_rpc_each,--wrap=gm_rpc_connect \
	-Wl,--wrap=gm_rpc_send,--wrap=gm_rpc_receive,--wrap=gm_rpc_disconnect
tests_unit_test_opens_SOURCES = tests/unit/test_opens.c shim/ipc/opens.c shim/ipc/opens.h
tests_unit_test_opens_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(top_srcdir)
tests_unit_test_opens_LDFLAGS = -Wl,--wrap=gm_pool_find,--wrap=gm_pool_share_open
tests_unit_test_segments_SOURCES = tests/unit/test_segments.c shim/torch/segments.c shim/torch/segments.h
tests_unit_test_segments_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_test_rest_SOURCES = tests/unit/test_rest.c shim/sleep/rest.c shim/sleep/rest.h
tests_unit_test_rest_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(top_srcdir)
tests_unit_test_rest_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=gm_rpc_serve
tests_unit_test_turns_SOURCES = tests/unit/test_turns.c shim/sleep/turns.c shim/sleep/turns.h
tests_unit_test_turns_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(top_srcdir)
tests_unit_test_turns_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=gm_sys_nap,--wrap=gm_rpc_join,--wrap=gm_rpc_each \
	-Wl,--wrap=gm_rpc_connect,--wrap=gm_rpc_send,--wrap=gm_rpc_receive,--wrap=gm_rpc_disconnect,--wrap=gm_pool_stats
