# SPDX-License-Identifier: BSD-3-Clause
# Images of device code: made in memory, damaged, and compiled by nvcc where there is one.
IMAGE_TESTS = tests/unit/test_image tests/unit/test_image_damage tests/unit/test_image_lines \
	tests/unit/test_image_open tests/unit/test_image_ptx
UNIT_TESTS += $(IMAGE_TESTS)
IMAGE_LDADD = libgmimage.la $(UNIT_LDADD)
tests_unit_test_image_LDADD = $(IMAGE_LDADD)
tests_unit_test_image_damage_LDADD = $(IMAGE_LDADD)
tests_unit_test_image_open_LDADD = $(IMAGE_LDADD)
tests_unit_test_image_lines_LDADD = $(IMAGE_LDADD)
tests_unit_test_image_ptx_LDADD = $(IMAGE_LDADD)

EXTRA_DIST += tests/unit/image_kernels.cu tests/unit/image_link.c tests/unit/image_wrapper.c
dist_check_SCRIPTS += tests/unit/image_nvcc.sh
NVCC_TESTS += tests/unit/image_nvcc.sh
