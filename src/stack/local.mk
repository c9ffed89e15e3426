# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/cfi.c %D%/cfi.h %D%/cfi_value.c %D%/cfi_value.h \
	%D%/held.c %D%/held.h %D%/name.c %D%/name.h %D%/objects.c %D%/objects.h %D%/python.c %D%/python.def %D%/python.h \
	%D%/recent.c %D%/recent.h %D%/released.c %D%/released.h %D%/stack.c \
	%D%/stack.h %D%/table.c %D%/table.h %D%/unwind.c %D%/unwind.h
