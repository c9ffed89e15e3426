# SPDX-License-Identifier: BSD-3-Clause
# libgpumem-core: the pool for programs that call gpumem.h.
# Names are versioned (libgpumem-core.map). An added name raises CURRENT and AGE; no name is ever removed.
lib_LTLIBRARIES += libgpumem-core.la
include_HEADERS = %D%/gpumem.h %D%/gpumem_vector.hpp
libgpumem_core_la_SOURCES = %D%/alone.c %D%/api.c %D%/core.h src/base/glibc_dlsym.c
libgpumem_core_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(srcdir)/%D%
libgpumem_core_la_CFLAGS = $(AM_CFLAGS) -fPIC
libgpumem_core_la_LIBADD = libgm.la -lpthread -ldl
libgpumem_core_la_LDFLAGS = -version-info 4:0:4 -Wl,--version-script=$(srcdir)/%D%/libgpumem-core.map \
	-Wl,-Bsymbolic-functions -Wl,-z,defs,-z,now,-z,nodelete,-z,relro,-z,noexecstack $(GM_GLIBC_LINK)
EXTRA_libgpumem_core_la_DEPENDENCIES = %D%/libgpumem-core.map
EXTRA_DIST += %D%/libgpumem-core.map

# The header for kernels, with all device code that it needs.
nodist_include_HEADERS = %D%/gpumem_device.cuh
CLEANFILES += %D%/gpumem_device.cuh
EXTRA_DIST += %D%/gpumem_device.cuh.in %D%/flatten.awk
%D%/gpumem_device.cuh: %D%/gpumem_device.cuh.in %D%/flatten.awk $(wildcard $(srcdir)/src/heap/device/*.h)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(AWK) -v src=$(srcdir)/src -f $(srcdir)/%D%/flatten.awk $< >$@-t && mv $@-t $@

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %D%/gpumem.pc
