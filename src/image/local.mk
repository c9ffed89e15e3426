# SPDX-License-Identifier: BSD-3-Clause
# A library of its own, for the preload and gpumemstat: libgpumem-core loads no images.
noinst_LTLIBRARIES += libgmimage.la
libgmimage_la_SOURCES = %D%/cubin.c %D%/cubin.h %D%/fatbin.c %D%/fatbin.h %D%/image.c %D%/image.h %D%/judge.c \
	%D%/judge.h %D%/lines.c %D%/lines.h %D%/places.c %D%/places.h %D%/ptx.c %D%/ptx.h %D%/sections.c %D%/sections.h %D%/symbols.def %D%/unpack.c %D%/unpack.h %D%/view.c %D%/view.h %D%/why.def
libgmimage_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
libgmimage_la_CFLAGS = $(AM_CFLAGS) -fPIC
