# SPDX-License-Identifier: BSD-3-Clause
# The pair of libraries that replaces NVIDIA's where there is no GPU, under their real names, so that a
# program needs only LD_LIBRARY_PATH=tests/sim/lib. They are not installed.
sim_pair = %D%/lib/libcuda.so.1 %D%/lib/libcudart.so.13 %D%/lib/libcudart_static.a
noinst_DATA = $(sim_pair)
CLEANFILES += $(sim_pair) %D%/lib/libcudart.so $(sim_cudart_objects)
EXTRA_DIST += %D%/cudart.c %D%/cudart.h %D%/cudart_calls.def %D%/cudart_memory.c %D%/cudart_stream.c \
	%D%/libcuda.map %D%/libcudart.map

# -O1: a third less time to compile, for every quickstart.
sim_compile = $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS:-O2=-O1) -fPIC
sim_link = -shared -Wl,-z,defs -Wl,-z,nodelete $(LDFLAGS)
sim_base = src/base/array.c src/base/cores.c src/base/entries.c src/base/escape.c src/base/fd.c src/base/lock.c src/base/msg.c src/base/size.c src/base/sys.c src/base/thread.c
sim_libcuda_sources = $(sim_base) $(sim_c_files)
sim_cudart_objects = %D%/lib/cudart.o %D%/lib/cudart_memory.o %D%/lib/cudart_stream.o

# All in one step: unlike those of libgmsim, these objects export the driver's names.
%D%/lib/libcuda.so.1: $(sim_libcuda_sources) $(sim_h_files) %D%/libcuda.map
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(sim_compile) -fvisibility=default -DSIM_EXPORT_SYMBOLS $(sim_link) \
		-Wl,-soname,libcuda.so.1 -Wl,--version-script=$(srcdir)/tests/sim/libcuda.map -o $@ \
		`for f in $(sim_libcuda_sources); do echo $(srcdir)/$$f; done` -lpthread -ldl

$(sim_cudart_objects): %D%/cudart.h %D%/cudart_calls.def
%D%/lib/cudart.o: %D%/cudart.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(sim_compile) -c -o $@ $(srcdir)/tests/sim/cudart.c
%D%/lib/cudart_memory.o: %D%/cudart_memory.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(sim_compile) -c -o $@ $(srcdir)/tests/sim/cudart_memory.c
%D%/lib/cudart_stream.o: %D%/cudart_stream.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(sim_compile) -c -o $@ $(srcdir)/tests/sim/cudart_stream.c

%D%/lib/libcudart.so.13: $(sim_cudart_objects) %D%/libcudart.map
	$(AM_V_CCLD)$(CC) $(CFLAGS) $(sim_link) -Wl,-soname,libcudart.so.13 -Wl,-Bsymbolic \
		-Wl,--version-script=$(srcdir)/tests/sim/libcudart.map -o $@ $(sim_cudart_objects) -lpthread -ldl \
		&& ln -sf libcudart.so.13 $(@D)/libcudart.so

%D%/lib/libcudart_static.a: $(sim_cudart_objects)
	$(AM_V_AR)rm -f $@ && $(AR) cr $@ $(sim_cudart_objects)

dist_check_SCRIPTS += %D%/pair.bats
TESTS += %D%/pair.bats

include tests/workloads/local.mk
