# SPDX-License-Identifier: BSD-3-Clause
TEST_EXTENSIONS += .sh
SH_LOG_DRIVER = $(LOG_DRIVER)
# lint.sh compares README.md with these measurements.
EXTRA_DIST += tests/lint/figures.awk tests/lint/figures.txt tests/bench/results/2026-11-27-H200-pool.csv \
	tests/bench/results/2026-11-27-H200-copy.csv tests/bench/results/2026-11-26-H100-fresh.csv \
	tests/bench/results/2026-11-25-H100-sleep/residency.csv
dist_check_SCRIPTS += tests/lint/lint.sh tests/lint/ignored.sh
EXTRA_DIST += tests/lint/ignored.awk tests/lint/ignored.sample tests/lint/layers.awk tests/lint/layers.txt \
	tests/lint/locked.awk tests/lint/locked.sample.c tests/lint/locked.sample.h tests/lint/markdown.awk tests/lint/titles.awk tests/lint/titles.sample tests/lint/titles.txt tests/lint/twice.awk \
	tests/lint/words.awk tests/lint/words.sample tests/lint/words.txt
TESTS += tests/lint/lint.sh

.PHONY: lint
lint:
	$(srcdir)/tests/lint/lint.sh $(srcdir)
