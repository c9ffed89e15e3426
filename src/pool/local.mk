# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/context.h %D%/fence.h %D%/pool.h
libgm_la_SOURCES += %D%/context.c %D%/fence.c
