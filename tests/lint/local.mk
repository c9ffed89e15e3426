# SPDX-License-Identifier: BSD-3-Clause
TEST_EXTENSIONS += .sh
SH_LOG_DRIVER = $(LOG_DRIVER)
# With the measurements that README.md quotes.
EXTRA_DIST += tests/lint/figures.awk tests/lint/figures.txt tests/bench/results/2026-11-22-H200-inkernel.csv \
	tests/bench/results/2026-11-22-H200-pool.csv tests/gpu/results/2026-11-22-H200x2/train.summary.txt \
	tests/workloads/demo.summary.txt
dist_check_SCRIPTS += tests/lint/lint.sh tests/lint/ignored.sh
EXTRA_DIST += tests/lint/ignored.awk tests/lint/ignored.sample tests/lint/layers.awk tests/lint/layers.txt \
	tests/lint/markdown.awk tests/lint/words.awk tests/lint/words.sample tests/lint/words.txt
TESTS += tests/lint/lint.sh

.PHONY: lint
lint:
	$(srcdir)/tests/lint/lint.sh $(srcdir)
