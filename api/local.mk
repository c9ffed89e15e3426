# SPDX-License-Identifier: BSD-3-Clause
# libgpumem-core: the pool for programs that ask for it by gpumem.h.
# Names are versioned (libgpumem-core.map). What is added there raises CURRENT and AGE; nothing is ever taken away.
lib_LTLIBRARIES += libgpumem-core.la
include_HEADERS = %D%/gpumem.h
libgpumem_core_la_SOURCES = %D%/alone.c %D%/api.c %D%/core.h
libgpumem_core_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/%D%
libgpumem_core_la_CFLAGS = $(AM_CFLAGS) -fPIC
libgpumem_core_la_LIBADD = libgm.la -lpthread -ldl
libgpumem_core_la_LDFLAGS = -version-info 0:0:0 -Wl,--version-script=$(srcdir)/%D%/libgpumem-core.map \
	-Wl,-Bsymbolic-functions -Wl,-z,defs,-z,now,-z,nodelete,-z,relro,-z,noexecstack
EXTRA_libgpumem_core_la_DEPENDENCIES = %D%/libgpumem-core.map
EXTRA_DIST += %D%/libgpumem-core.map

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %D%/gpumem.pc
