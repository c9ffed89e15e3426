# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat: one file a command; it links nothing of CUDA. replay alone uses the pool, on the null driver.
bin_PROGRAMS += gpumemstat
gpumemstat_SOURCES = %D%/alive.c %D%/alive.h %D%/archive.c %D%/archive.h %D%/bins.c %D%/bins.h %D%/blocks.c \
	%D%/blocks.h %D%/build_id.c %D%/check.c %D%/churn.c %D%/churn.h %D%/complete.c %D%/complete.h %D%/convert.c \
	%D%/convert.h %D%/curve.c %D%/curve.h %D%/diff.c %D%/doctor.c %D%/doctor.h %D%/doctor_child.c \
	%D%/doctor_command.c %D%/doctor_driver.c %D%/doctor_here.c %D%/elf.c %D%/elf.h %D%/emit.c %D%/emit.h \
	%D%/env.c %D%/export.c %D%/export.h %D%/export_chrome.c %D%/export_csv.c %D%/export_metrics.c \
	%D%/export_pytorch.c %D%/export_segments.c %D%/export_segments.h %D%/export_stacks.c %D%/export_stacks.h \
	%D%/figures.c %D%/figures.h %D%/figures_heap.c %D%/find.c %D%/find.h %D%/findings.c %D%/findings.def \
	%D%/findings.h %D%/foreign.c %D%/formats.def %D%/frag.c %D%/frames.c %D%/frames.h %D%/glibc_old.c \
	%D%/groups.c %D%/groups.h %D%/hist.c %D%/hooks.c %D%/image.c %D%/launch.c %D%/layout.c %D%/layout.h \
	%D%/leftover_logs.c %D%/leftover_logs.h %D%/live.c %D%/logs.c %D%/logs.h %D%/main.c %D%/map.c %D%/moment.c \
	%D%/moment.h %D%/nvml.c %D%/nvml.h %D%/oom.c %D%/oom.h %D%/options.c %D%/options.def %D%/options.h \
	%D%/pager.c %D%/pager.h %D%/pickle.c %D%/pickle.h %D%/plot.c %D%/plot.h %D%/plot_hist.c %D%/plot_read.c \
	%D%/plot_time.c %D%/policy.c %D%/policy.h %D%/policy_cached.c %D%/policy_driver.c %D%/policy_first.c \
	%D%/policy_meter.c %D%/policy_meter.h %D%/policy_pool.c %D%/policy_span.c %D%/policy_span.h \
	%D%/policy_torch.c %D%/preload.c %D%/preload.h %D%/progress.c %D%/progress.h %D%/replay.c %D%/replay.h \
	%D%/replay_csv.c %D%/replay_input.c %D%/replay_log.c %D%/replay_trace.c %D%/report.c %D%/report.h \
	%D%/report_blocks.c %D%/report_log.c %D%/rule_copy.c %D%/rule_heap.c %D%/rule_log.c %D%/rule_logs.c \
	%D%/screen.c %D%/screen.h %D%/summary.c %D%/summary.h %D%/summary_copy.c %D%/summary_frag.c \
	%D%/summary_heap.c %D%/summary_log.c %D%/summary_short.c %D%/svg.c %D%/svg.h %D%/symbols.c %D%/symbols.h \
	%D%/ticks.c %D%/ticks.h %D%/timeline.c %D%/timeline.h %D%/tool.c %D%/tool.h %D%/top.c %D%/top.h \
	%D%/top_read.c %D%/usage.c %D%/usage.h src/driver/null.c
gpumemstat_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -DGM_LIBDIR='"$(libdir)"'
if !SANITIZE
gpumemstat_LDFLAGS = -Wl,--wrap=__libc_start_main,--wrap=dlinfo,--wrap=dlsym \
	-Wl,--push-state,--no-as-needed,-l:libdl.so.2,-l:libpthread.so.0,--pop-state
endif
gpumemstat_LDADD = libgmimage.la libgm.la -lpthread -ldl -lm

# The page of `report`: its parts in one file, and page.S, which takes its bytes in.
report_scripts = %D%/report/format.js %D%/report/data.js %D%/report/stacks.js %D%/report/timeline.js %D%/report/flame.js \
	%D%/report/tables.js %D%/report/main.js
EXTRA_DIST += %D%/report/page.html %D%/report/page.css $(report_scripts)
CLEANFILES += %D%/report/report.html %D%/report/page.S
nodist_gpumemstat_SOURCES = %D%/report/page.S
%D%/report/report.html: %D%/report/page.html %D%/report/page.css $(report_scripts)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && (cd $(srcdir)/tools/report && \
		sed -e '/^@STYLE@$$/{' -e 'r page.css' -e 'd' -e '}' -e '/^@SCRIPT@$$/{' \
			$(patsubst %,-e 'r %',$(notdir $(report_scripts))) -e 'd' -e '}' page.html) >$@-t && mv -f $@-t $@
%D%/report/page.S: %D%/report/report.html
	$(AM_V_GEN)printf '\t.section .note.GNU-stack,"",%%progbits\n\t.section .rodata\n%s\n%s\n\t.incbin "%s"\n%s\n' \
		'	.globl gm_report_page, gm_report_page_end' 'gm_report_page:' $< 'gm_report_page_end:' >$@-t && mv -f $@-t $@

# What has no device code does not say so by itself; the last line of make is where people look.
EXTRA_DIST += %D%/inkernel.sh
if !GM_HELPERS
all-local: $(LTLIBRARIES) $(PROGRAMS)
	@bash $(srcdir)/tools/inkernel.sh .
endif

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = completions/gpumemstat
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = completions/_gpumemstat
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_fishcompletion_DATA = completions/gpumemstat.fish

# A folder that runs wherever it is unpacked; of the time that NEWS begins with, unless SOURCE_DATE_EPOCH says another.
BUNDLE = gpumem-$(PACKAGE_VERSION)-$(host_cpu)
BUNDLE_TO = --silent prefix= exec_prefix= bindir=/bin libdir=/lib includedir=/include datarootdir=/share datadir=/share \
	mandir=/share/man docdir=/share/doc/gpumem
EXTRA_DIST += %D%/bundle.sh
CLEANFILES += $(BUNDLE).tar.gz
.PHONY: bundle
bundle:
	rm -rf $(BUNDLE)
	$(MAKE) $(AM_MAKEFLAGS) install $(BUNDLE_TO) DESTDIR="$$PWD/$(BUNDLE)" >/dev/null
	STRIP='$(STRIP)' $(SHELL) $(srcdir)/%D%/bundle.sh $(BUNDLE) $(BUNDLE) \
		"$${SOURCE_DATE_EPOCH:-`date -u +%s -d "$$(sed -n '1s/.*(\(.*\)).*/\1/p' $(srcdir)/NEWS)"`}"
	rm -rf $(BUNDLE)
	@echo "$(BUNDLE).tar.gz: unpack it anywhere, and run bin/gpumemstat"
dist_doc_DATA = LICENSE NEWS README.md
