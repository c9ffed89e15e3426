# SPDX-License-Identifier: BSD-3-Clause
# Mutation tests: do the tests find one-line faults? Of the last commit, or of COMMIT; MUTANTS=100 of them; SEED
# defaults to that commit. Lines that are new since the commit SINCE are drawn four times as often. A stopped
# run leaves mutants/STATE; as tests/mutants/STATE it is continued in another build folder. AGAIN names a file of
# mutants in the format of tests/mutants/RESULTS: these are judged. MUTANTS=0 only records which lines each
# test runs, for tests-of.
EXTRA_DIST += tests/mutants/RESULTS tests/mutants/STATE tests/mutants/builds.py tests/mutants/covered.py tests/mutants/equivalent.txt tests/mutants/judge.py \
	tests/mutants/mutants.py tests/mutants/running.py tests/mutants/sites.py
dist_check_SCRIPTS += tests/mutants/mutants.bats
TESTS += tests/mutants/mutants.bats
MUTANTS = 100
SEED =
SINCE =
COMMIT =
AGAIN =
MUTANTS_JOBS = 2
.PHONY: mutants mutants-tests mutants-environment mutants-sources mutants-unit mutants-programs
mutants: $(DEVICE_CODE)
	python3 $(srcdir)/tests/mutants/mutants.py --source='$(abs_top_srcdir)' --build='$(abs_top_builddir)' \
		--configure='--with-cuda=$(CUDA_HOME) --with-gpu-archs=$(GPU_ARCHS) --enable-werror' --device-code='$(DEVICE_CODE)' \
		--jobs='$(MUTANTS_JOBS)' --seed='$(SEED)' --since='$(SINCE)' --commit='$(COMMIT)' --again='$(AGAIN)' --tests='$(MUTANTS_TESTS)' '$(MUTANTS)'

# Without the tests of sources alone, and without those that call nvcc. MUTANTS_TESTS='tests/unit/%
# tests/preload/%' runs only these: their survivors may still be caught by others.
MUTANTS_TESTS = %
mutants-tests:
	@echo $(filter $(MUTANTS_TESTS),$(filter-out $(OF_SOURCE) $(OF_PROCESSES),$(TESTS)))
mutants-environment:
	@$(AM_TESTS_ENVIRONMENT) srcdir=$(srcdir) env -0
mutants-sources: $(BUILT_SOURCES)
mutants-unit: $(UNIT_TESTS)
mutants-programs: all-am $(filter-out $(UNIT_TESTS),$(check_PROGRAMS)) $(check_LTLIBRARIES) $(check_DATA)
