# SPDX-License-Identifier: BSD-3-Clause
# Ordinary programs to run under gpumem. demo is linked with the simulated pair's runtime, which has NVIDIA's name and
# symbol versions: with LD_LIBRARY_PATH on a Toolkit instead of tests/sim/lib the same binary runs on a GPU.
noinst_PROGRAMS += tests/workloads/demo
tests_workloads_demo_LDADD = tests/sim/lib/libcudart.so.13
tests_workloads_demo_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
# Shown by quickstart without a GPU.
noinst_PROGRAMS += tests/workloads/fragments
tests_workloads_fragments_LDADD = tests/sim/lib/libcudart.so.13
tests_workloads_fragments_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
# Shown by quickstart with a GPU and nvcc.
EXTRA_DIST += tests/workloads/lists.cu
# Linked statically, for the tests.
check_PROGRAMS += tests/workloads/demo_static
tests_workloads_demo_static_SOURCES = tests/workloads/demo.c
tests_workloads_demo_static_LDADD = tests/sim/lib/libcudart_static.a -lpthread -ldl
