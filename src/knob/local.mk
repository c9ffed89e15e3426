# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/conf.c %D%/conf.h %D%/knob.c %D%/knob.def %D%/knob.h %D%/parse.c %D%/removed.def
