# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/cfi.c %D%/cfi.h %D%/cfi_value.c %D%/cfi_value.h \
	%D%/held.c %D%/held.h %D%/layout.c %D%/layout.h %D%/lines.c %D%/lines.h %D%/name.c %D%/name.h %D%/objects.c %D%/objects.h %D%/public.c %D%/public.h \
	%D%/pyapi.c %D%/pyapi.def %D%/pyapi.h %D%/python.c %D%/python.h \
	%D%/recent.c %D%/recent.h %D%/released.c %D%/released.h %D%/selfcheck.c %D%/selfcheck.h %D%/stack.c \
	%D%/stack.h %D%/table.c %D%/table.h %D%/unwind.c %D%/unwind.h
