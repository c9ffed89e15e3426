# SPDX-License-Identifier: BSD-3-Clause
# Mutation tests: do the tests notice one-line faults? Of the last commit; MUTANTS=300 of them; SEED is that commit.
EXTRA_DIST += tests/mutants/covered.py tests/mutants/equivalent.txt tests/mutants/mutants.py tests/mutants/sites.py
dist_check_SCRIPTS += tests/mutants/mutants.bats
TESTS += tests/mutants/mutants.bats
MUTANTS = 300
SEED =
.PHONY: mutants mutants-tests mutants-programs
mutants: $(DEVICE_CODE)
	python3 $(srcdir)/tests/mutants/mutants.py --source='$(abs_top_srcdir)' --build='$(abs_top_builddir)' \
		--configure='--with-cuda=$(CUDA_HOME) --with-gpu-archs=$(GPU_ARCHS)' --device-code='$(DEVICE_CODE)' \
		--jobs='$(MUTANTS_JOBS)' --seed='$(SEED)' '$(MUTANTS)'
MUTANTS_JOBS = 2

# Not those of sources alone, and none that calls nvcc.
mutants-tests:
	@echo $(filter-out $(OF_SOURCE) $(OF_PROCESSES) %_nvcc.sh,$(TESTS))
# What tests need beside unit tests, which are made one by one.
mutants-programs:
	@echo $(filter-out tests/unit/test_%,$(check_PROGRAMS))
