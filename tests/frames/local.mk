# SPDX-License-Identifier: BSD-3-Clause
# Frames of Python beside the interpreter's own account, on every Python of this machine.
dist_check_SCRIPTS += %D%/frames.bats
TESTS += %D%/frames.bats
EXTRA_DIST += %D%/frames.py %D%/libframes.c
check_DATA += %D%/libframes.so
CLEANFILES += %D%/libframes.so
FRAMES_OF = lines public pyapi python released selfcheck
%D%/libframes.so: %D%/libframes.c src/stack/layout.c $(FRAMES_OF:%=src/stack/%.c) src/stack/pyapi.def
	$(PRELOAD_SHARED) $(srcdir)/%D%/libframes.c $(FRAMES_OF:%=$(srcdir)/src/stack/%.c) -lpthread -ldl
