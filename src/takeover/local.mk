# SPDX-License-Identifier: BSD-3-Clause
# A library of its own, only for the preload: libgpumem-core has no kernels to take over.
noinst_LTLIBRARIES += libgmtakeover.la
libgmtakeover_la_SOURCES = %D%/builtin.c %D%/decode.c %D%/decode.h %D%/helper.h %D%/load.c %D%/load.h %D%/patch.c %D%/patch.h %D%/takeover.c %D%/takeover.def \
	%D%/takeover.h
libgmtakeover_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
libgmtakeover_la_CFLAGS = $(AM_CFLAGS) -fPIC
EXTRA_DIST += %D%/empty.cu %D%/helper.cu %D%/helper.sh

# The modules that a takeover loads, and images.S, which includes their bytes.
if GM_HELPERS
helper_names := empty runtime $(shell sed -n 's/^GM_POLICY."[^"]*", *\([a-z0-9_]*\),.*/\1/p' $(srcdir)/src/heap/device/policy.def)
helper_images := $(helper_names:%=%D%/%.fatbin)
helper_texts := $(helper_images:=.ptx)
helper_cubins := $(foreach arch,$(gpu_archs),$(helper_names:%=%D%/%.$(arch).cubin))
CLEANFILES += $(helper_images) $(helper_texts) %D%/images.S %D%/*.cubin %D%/*.ptx
DEVICE_CODE += $(helper_images) $(helper_texts)
gpu_cubins += $(helper_cubins)
$(helper_cubins): %D%/helper.sh %D%/helper.cu %D%/empty.cu %D%/helper.h $(wildcard $(srcdir)/src/heap/device/*.h $(srcdir)/src/heap/policies/*.h)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SHELL) $(srcdir)/src/takeover/helper.sh compile '$(NVCC)' $(srcdir)/src $@
$(helper_images): %.fatbin: $(foreach arch,$(gpu_archs),%.$(arch).cubin) src/takeover/helper.sh src/gpu_archs
	$(AM_V_GEN)$(SHELL) $(srcdir)/src/takeover/helper.sh bind '$(NVCC)' $(srcdir)/src $@ $(gpu_oldest) $(gpu_archs)
# `bind` writes both.
$(helper_texts): %.ptx: %;

%D%/images.S: $(helper_images) Makefile
	$(AM_V_GEN){ printf '\t.section .note.GNU-stack,"",%%progbits\n\t.section .rodata\n'; \
		for n in $(helper_names); do for kind in '' .ptx; do \
			name=gm_helper_$${n}_code$${kind:+_ptx}; \
			printf '\t.balign 64\n\t.hidden %s\n\t.globl %s\n%s:\n\t.incbin "%s"\n' \
				$$name $$name $$name %D%/$$n.fatbin$$kind; \
		done; done; } >$@-t && mv -f $@-t $@
nodist_libgmtakeover_la_SOURCES = %D%/images.S
endif
