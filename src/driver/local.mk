# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/calls.def %D%/driver.c %D%/driver.h %D%/hooks.def %D%/tables.def
libgmsim_la_SOURCES += %D%/null.c %D%/null.h
EXTRA_DIST += %D%/exports.txt
# The names of exports.txt, sorted, as strings of C.
BUILT_SOURCES += %D%/known.h
CLEANFILES += %D%/known.h
%D%/known.h: %D%/exports.txt
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(AWK) '!/^#/ { for (i = 3; i <= NF; i++) print "\"" $$i "\"," }' $< | \
		LC_ALL=C sort >$@-t && mv $@-t $@
