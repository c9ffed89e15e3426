# SPDX-License-Identifier: BSD-3-Clause
# A library with the name of PyTorch's and nothing else; and two that report tensors as PyTorch's do.
TORCH_OBJECTS = %D%/libc10_cuda.so %D%/libtensors.so %D%/libtensors_cuda.so
check_PROGRAMS += %D%/tensors
dist_check_SCRIPTS += %D%/torch.bats %D%/tensors.bats
TESTS += %D%/torch.bats %D%/tensors.bats
check_DATA += $(TORCH_OBJECTS)
CLEANFILES += $(TORCH_OBJECTS)
EXTRA_DIST += %D%/libtensors.c
%D%/libc10_cuda.so: %D%/libasker.c
	$(PRELOAD_SHARED) -DNAME='"c10_cuda"' $<
%D%/libtensors.so: %D%/libtensors.c
	$(PRELOAD_SHARED) -Wl,-soname,libtensors.so $<
%D%/libtensors_cuda.so: %D%/libtensors.c %D%/libtensors.so
	$(PRELOAD_SHARED) -DALLOCATOR $(srcdir)/tests/preload/libtensors.c -Wl,--no-as-needed,-rpath,'$$ORIGIN' %D%/libtensors.so -lpthread
%C%_tensors_LDADD = $(BEHAVIOUR_LDADD)
