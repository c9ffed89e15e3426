# SPDX-License-Identifier: BSD-3-Clause
# A library with the name of PyTorch's, and nothing else.
TORCH_OBJECTS = %D%/libc10_cuda.so
dist_check_SCRIPTS += %D%/torch.bats
TESTS += %D%/torch.bats
check_DATA += $(TORCH_OBJECTS)
CLEANFILES += $(TORCH_OBJECTS)
%D%/libc10_cuda.so: %D%/libasker.c
	$(PRELOAD_SHARED) -DNAME='"c10_cuda"' $<
