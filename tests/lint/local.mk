# SPDX-License-Identifier: BSD-3-Clause
TEST_EXTENSIONS += .sh
SH_LOG_DRIVER = $(LOG_DRIVER)
dist_check_SCRIPTS += tests/lint/lint.sh
TESTS += tests/lint/lint.sh

.PHONY: lint
lint:
	$(srcdir)/tests/lint/lint.sh $(srcdir)
