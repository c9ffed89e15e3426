# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/calls.def %D%/driver.c %D%/driver.h %D%/hooks.def %D%/tables.def
libgmsim_la_SOURCES += %D%/null.c %D%/null.h
EXTRA_DIST += %D%/exports.txt
