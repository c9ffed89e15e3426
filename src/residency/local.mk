# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/control.h %D%/door.c %D%/door.h %D%/folder.c %D%/folder.h %D%/harmless.def %D%/move.c %D%/move.h %D%/opened.c %D%/opened.h %D%/refusal.def %D%/store.c %D%/store.h %D%/window.c %D%/window.h
