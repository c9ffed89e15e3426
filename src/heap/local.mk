# SPDX-License-Identifier: BSD-3-Clause
# The device code is headers alone, compiled by nvcc for the GPU and here for the emulation (src/sim), which only tests link.
libgmsim_la_SOURCES += %D%/device/aligned.h %D%/device/api.h %D%/device/bits.h %D%/policies/bump.h %D%/policies/corw.h %D%/device/granule.h %D%/device/granule_class.h %D%/device/granule_hunt.h %D%/device/granule_shard.h %D%/device/granule_slot.h %D%/device/heap.h %D%/policies/kma.h %D%/policies/ouro.h \
	%D%/policies/ouro_chunk.h %D%/policies/ouro_page.h %D%/policies/ouro_policy.h %D%/policies/ouro_queue.h \
	%D%/policies/ouro_s_c.h %D%/policies/ouro_s_p.h %D%/policies/ouro_va_c.h %D%/policies/ouro_va_p.h \
	%D%/policies/ouro_vl_c.h %D%/policies/ouro_vl_p.h %D%/device/policies.h %D%/device/policy.def %D%/policies/run.h %D%/policies/rw.h %D%/device/shed.h %D%/device/sites.h \
	%D%/policies/rw_bm.h %D%/policies/rw_pool.h %D%/policies/rw_run.h %D%/policies/rw_walk.h \
	%D%/device/simt.h %D%/device/simt_gpu.h %D%/device/span.h %D%/policies/stock.h
libgm_la_SOURCES += %D%/chunks/chunks.c %D%/chunks/chunks.h %D%/chunks/grow.c %D%/chunks/service.c %D%/chunks/shed.c \
	%D%/chunks/slack.c %D%/chunks/trim.c %D%/flight.c %D%/flight.h %D%/heap.c %D%/heap.h %D%/host.h %D%/job.h %D%/kernel.c \
	%D%/kernel.h %D%/launch.c %D%/list.c %D%/list.h %D%/policy.c %D%/policy.h %D%/process.c %D%/process.h %D%/record.c %D%/record.h \
	%D%/sample.c %D%/sample.h %D%/sites.c %D%/sites.h

# The heap's own kernels: of all policies, and of the default one alone, which is loaded in a tenth of the time. kernels.S includes
# their bytes.
EXTRA_DIST += %D%/kernels.cu %D%/kernels.sh
if GM_HELPERS
kernels_names := kernels kernels_granule
kernels_images := $(kernels_names:%=%D%/%.fatbin)
kernels_cubins := $(foreach arch,$(gpu_archs),$(kernels_names:%=%D%/%.$(arch).cubin))
CLEANFILES += $(kernels_images) %D%/kernels.S %D%/*.cubin %D%/*.ptx
DEVICE_CODE += $(kernels_images)
nodist_libgm_la_SOURCES = %D%/kernels.S
gpu_cubins += $(kernels_cubins)
$(kernels_cubins): %D%/kernels.sh %D%/kernels.cu %D%/job.h $(wildcard $(srcdir)/src/heap/device/*.h $(srcdir)/src/heap/policies/*.h)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SHELL) $(srcdir)/src/heap/kernels.sh compile '$(NVCC)' $(srcdir)/src $@
$(kernels_images): %.fatbin: $(foreach arch,$(gpu_archs),%.$(arch).cubin) src/heap/kernels.sh src/gpu_archs
	$(AM_V_GEN)$(SHELL) $(srcdir)/src/heap/kernels.sh bind '$(NVCC)' $(srcdir)/src $@ $(gpu_oldest) $(gpu_archs)

%D%/kernels.S: $(kernels_images) Makefile
	$(AM_V_GEN){ printf '\t.section .note.GNU-stack,"",%%progbits\n\t.section .rodata\n'; \
		for n in $(kernels_names); do \
			printf '\t.balign 64\n\t.hidden gm_heap_%s\n\t.globl gm_heap_%s\ngm_heap_%s:\n\t.incbin "%s"\n' $$n $$n $$n %D%/$$n.fatbin; \
		done; } >$@-t && mv -f $@-t $@
endif
