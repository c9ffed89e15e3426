# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/knob.c %D%/knob.def %D%/knob.h
