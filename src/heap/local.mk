# SPDX-License-Identifier: BSD-3-Clause
# The device code is headers alone, compiled by nvcc for the GPU and here for the emulation, which only tests link.
libgmsim_la_SOURCES += %D%/simt.c %D%/simt.h \
	%D%/device/aligned.h %D%/device/api.h %D%/device/bits.h %D%/device/bump.h %D%/device/corw.h %D%/device/granule.h %D%/device/granule_shard.h %D%/device/heap.h %D%/device/kma.h %D%/device/ouro.h \
	%D%/device/ouro_chunk.h %D%/device/ouro_page.h %D%/device/ouro_policy.h %D%/device/ouro_queue.h \
	%D%/device/ouro_s_c.h %D%/device/ouro_s_p.h %D%/device/ouro_va_c.h %D%/device/ouro_va_p.h \
	%D%/device/ouro_vl_c.h %D%/device/ouro_vl_p.h %D%/device/policies.h %D%/device/policy.def %D%/device/run.h %D%/device/rw.h \
	%D%/device/rw_bm.h %D%/device/rw_pool.h %D%/device/rw_run.h \
	%D%/device/simt.h %D%/device/simt_cpu.h %D%/device/simt_gpu.h %D%/device/span.h %D%/device/stock.h
libgm_la_SOURCES += %D%/figures.c %D%/grow.c %D%/heap.c %D%/heap.h %D%/host.h %D%/image.c %D%/job.h %D%/launch.c %D%/note.c %D%/own.c %D%/own.h %D%/policy.c %D%/service.c %D%/trim.c
libgmsim_la_SOURCES += %D%/sim_kernels.c %D%/sim_kernels.h

# The heap's own kernels, and kernels.S, which takes their bytes in.
EXTRA_DIST += %D%/kernels.cu %D%/kernels.sh
if GM_HELPERS
CLEANFILES += %D%/kernels.fatbin %D%/kernels.S
nodist_libgm_la_SOURCES = %D%/kernels.S
%D%/kernels.fatbin: %D%/kernels.sh %D%/kernels.cu %D%/job.h $(wildcard $(srcdir)/src/heap/device/*.h)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SHELL) $(srcdir)/src/heap/kernels.sh '$(NVCC)' $(srcdir)/src $@

%D%/kernels.S: %D%/kernels.fatbin
	$(AM_V_GEN)printf '\t.section .note.GNU-stack,"",%%progbits\n\t.section .rodata\n\t.balign 64\n%s%s\t.incbin "%s"\n' \
		'	.hidden gm_heap_kernels; .globl gm_heap_kernels; ' 'gm_heap_kernels:' $< >$@-t && mv $@-t $@
endif
