# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat from its users' view.
CLI_BATS = %D%/bundle.bats %D%/check.bats %D%/completion.bats %D%/conf.bats %D%/diff.bats \
	%D%/doctor.bats %D%/documents.bats %D%/exact.bats %D%/export.bats %D%/findings.bats \
	%D%/frag.bats %D%/hist.bats %D%/image.bats %D%/inkernel.bats %D%/launch.bats %D%/live.bats \
	%D%/long.bats %D%/map.bats %D%/options.bats %D%/pager.bats %D%/plot.bats %D%/pytest.bats \
	%D%/quickstart.bats %D%/ranks.bats %D%/readme.bats %D%/replay.bats %D%/replay_wrong.bats \
	%D%/report.bats %D%/samples.bats %D%/short.bats %D%/start.bats %D%/summary.bats \
	%D%/tables.bats %D%/top.bats %D%/torch.bats
dist_check_SCRIPTS += $(CLI_BATS)
EXTRA_DIST += %D%/browser.py %D%/cli.bash %D%/complete.zsh %D%/documents.py %D%/documents.txt %D%/growing.py %D%/openmetrics.awk %D%/report_browser.py %D%/report_functions.js %D%/report_page.py %D%/rows.py %D%/samples %D%/session.py %D%/svg.py %D%/terminal.py %D%/trace.py %D%/traces %D%/packed.py %D%/report_lives.py
TESTS += $(CLI_BATS)
# documents.txt names these.
EXTRA_DIST += tests/gpu/results/2026-11-27-H200x1-lines/training.txt tests/gpu/results/2026-11-27-H200x1-wheel/all.txt
dist_check_SCRIPTS += %D%/archs.bats
NVCC_TESTS += %D%/archs.bats
check_PROGRAMS += %D%/deny %D%/mkimage %D%/mklog
tests_cli_deny_LDADD =
tests_cli_mklog_SOURCES = %D%/mklog.c %D%/mklog.h %D%/mklog_heap.c %D%/mklog_host.h %D%/mklog_stacks.h \
	%D%/mklog_torch.c
tests_cli_mklog_LDADD = libgm.la -lpthread -ldl
tests_cli_mkimage_LDADD = -ldl
check_DATA += %D%/libcut.so
CLEANFILES += %D%/libcut.so
EXTRA_DIST += %D%/libcut.c
check_DATA += %D%/nvml/libnvidia-ml.so.1
CLEANFILES += %D%/nvml/libnvidia-ml.so.1
EXTRA_DIST += %D%/nvml.c
%D%/nvml/libnvidia-ml.so.1: %D%/nvml.c
	$(MKDIR_P) $(@D)
	$(PRELOAD_SHARED) $<
%D%/libcut.so: %D%/libcut.c
	$(PRELOAD_SHARED) $<
