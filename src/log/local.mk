# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/counters.def %D%/counters.h %D%/log.h %D%/read.h %D%/record.h
