# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat, one folder for each concern; it links nothing of CUDA. Only replay uses the pool, on the null driver.
# Everything but main is a library, which tests/fuzz uses, too.
bin_PROGRAMS += gpumemstat
noinst_LIBRARIES += libgmtool.a
gpumemstat_SOURCES = %D%/glibc_old.c %D%/main.c src/base/glibc_dlsym.c
# Common to all commands: their options, completion.
libgmtool_a_SOURCES = %D%/complete.c %D%/complete.h %D%/options.c %D%/options.def %D%/options.h %D%/tool.c \
	%D%/tool.h
# Logs: search, open, and read into figures.
libgmtool_a_SOURCES += %D%/log/alive.c %D%/log/alive.h %D%/log/level.h %D%/log/bins.c %D%/log/bins.h %D%/log/blocks.c \
	%D%/log/blocks.h %D%/log/cache.c %D%/log/cache.h %D%/log/churn.c %D%/log/churn.h %D%/log/course.c %D%/log/course.h %D%/log/curve.c %D%/log/curve.h %D%/log/figures.c \
	%D%/log/figures.h %D%/log/figures_heap.c %D%/log/figures_site.c %D%/log/figures_table.c %D%/log/find.c %D%/log/find.h %D%/log/groups.c %D%/log/heaps.c %D%/log/holes.c %D%/log/holes.h \
	%D%/log/groups.h %D%/log/heaps.h %D%/log/logs.c %D%/log/logs.h %D%/log/moment.c %D%/log/moment.h %D%/log/oom.c \
	%D%/log/oom.h %D%/log/owners.c %D%/log/lacked.c %D%/log/lacked.h %D%/log/lending.c %D%/log/lending.h %D%/log/lives.c %D%/log/lives.h %D%/log/owners.h %D%/log/pieces.c %D%/log/pieces.h %D%/log/kernel_sites.c %D%/log/kernel_sites.h %D%/log/process.c %D%/log/process.h %D%/log/timeline.c %D%/log/timeline.h %D%/log/usage.c %D%/log/usage.h
# Call stacks, and the symbols of their frames.
libgmtool_a_SOURCES += %D%/stack/build_id.c %D%/stack/child.c %D%/stack/child.h %D%/stack/covered.c %D%/stack/fold.c %D%/stack/fold.def \
	%D%/stack/fold.h %D%/stack/frames.c %D%/stack/frames.h %D%/stack/lines.c %D%/stack/short_name.c %D%/stack/sites.c %D%/stack/sites.h \
	%D%/stack/symbols.c %D%/stack/symbols.h
# Text, tables, JSON; the terminal.
libgmtool_a_SOURCES += %D%/output/emit.c %D%/output/emit.h %D%/output/layout.c %D%/output/layout.h \
	%D%/output/pack.c %D%/output/pack.h %D%/output/pager.c %D%/output/pager.h %D%/output/progress.c %D%/output/progress.h \
	%D%/output/screen.c %D%/output/screen.h
# Commands of one file, and files for a single command.
libgmtool_a_SOURCES += %D%/command/archive.c %D%/command/archive.h %D%/command/check.c \
	%D%/command/env.c %D%/command/frag.c %D%/command/hist.c %D%/command/hooks.c %D%/command/image.c \
	%D%/command/live.c %D%/command/log.c %D%/command/map.c \
	%D%/command/selection.c %D%/command/selection.h %D%/command/sleep.c
# summary; frag uses its fragmentation and foreign memory.
libgmtool_a_SOURCES += %D%/summary/copy.c %D%/summary/foreign.c %D%/summary/frag.c %D%/summary/heap.c %D%/summary/table.c \
	%D%/summary/log.c %D%/summary/refused.c %D%/summary/short.c %D%/summary/summary.c %D%/summary/summary.h
# diff.
libgmtool_a_SOURCES += %D%/diff/counters.c %D%/diff/diff.c %D%/diff/diff.h %D%/diff/sites.c
# Findings, and the rules that measure for them.
libgmtool_a_SOURCES += %D%/finding/findings.c %D%/finding/findings.def %D%/finding/findings.h \
	%D%/finding/rule_copy.c %D%/finding/rule_heap.c %D%/finding/rule_log.c %D%/finding/rule_logs.c %D%/finding/rule_torch.c
# run and record.
libgmtool_a_SOURCES += %D%/launch/elf.c %D%/launch/elf.h %D%/launch/launch.c %D%/launch/launch.h \
	%D%/launch/leftover_logs.c %D%/launch/leftover_logs.h %D%/launch/preload.c %D%/launch/preload.h
# doctor.
libgmtool_a_SOURCES += %D%/doctor/child.c %D%/doctor/command.c %D%/doctor/doctor.c %D%/doctor/doctor.h \
	%D%/doctor/driver.c %D%/doctor/here.c %D%/doctor/torch.c %D%/doctor/script.c %D%/doctor/script.h \
	%D%/doctor/tables.c
# top.
libgmtool_a_SOURCES += %D%/top/nvml.c %D%/top/nvml.h %D%/top/read.c %D%/top/top.c %D%/top/top.h
# export, a file a format.
libgmtool_a_SOURCES += %D%/export/chrome.c %D%/export/convert.c %D%/export/convert.h %D%/export/csv.c \
	%D%/export/export.c %D%/export/export.h %D%/export/formats.def %D%/export/metrics.c \
	%D%/export/pickle.c %D%/export/pickle.h %D%/export/pytorch.c %D%/export/segments.c \
	%D%/export/segments.h %D%/export/stacks.c %D%/export/stacks.h
# plot.
libgmtool_a_SOURCES += %D%/plot/hist.c %D%/plot/plot.c %D%/plot/plot.h %D%/plot/read.c %D%/plot/svg.c \
	%D%/plot/svg.h %D%/plot/ticks.c %D%/plot/ticks.h %D%/plot/time.c
# report; the page is below.
libgmtool_a_SOURCES += %D%/report/blocks.c %D%/report/lives.c %D%/report/log.c %D%/report/report.c %D%/report/report.h
# replay, and its policies.
libgmtool_a_SOURCES += %D%/replay/csv.c %D%/replay/input.c %D%/replay/log.c %D%/replay/policy.c \
	%D%/replay/policy.h %D%/replay/policy_async.c %D%/replay/policy_cached.c %D%/replay/policy_driver.c \
	%D%/replay/policy_area.c %D%/replay/policy_area.h %D%/replay/policy_expandable.c %D%/replay/policy_first.c \
	%D%/replay/policy_meter.c %D%/replay/policy_meter.h %D%/replay/policy_pool.c \
	%D%/replay/policy_span.c %D%/replay/policy_span.h %D%/replay/policy_torch.c %D%/replay/replay.c \
	%D%/replay/replay.h %D%/replay/trace.c src/driver/null.c

libgmtool_a_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(top_srcdir) -DGM_LIBDIR='"$(libdir)"'
gpumemstat_CPPFLAGS = $(libgmtool_a_CPPFLAGS)
if !SANITIZE
gpumemstat_LDFLAGS = -Wl,--wrap=__libc_start_main,--wrap=dlinfo $(GM_GLIBC_LINK)
endif
gpumemstat_LDADD = libgmtool.a libgmimage.la libgm.la -lpthread -ldl -lm

# The page of `report`: its parts in one file, which page.S includes.
report_scripts = %D%/report/format.js %D%/report/data.js %D%/report/lives.js %D%/report/stacks.js %D%/report/pictures.js \
	%D%/report/timeline.js %D%/report/strips.js %D%/report/flame.js %D%/report/tables.js %D%/report/diff.js %D%/report/main.js
EXTRA_DIST += %D%/report/page.html %D%/report/page.css $(report_scripts)
CLEANFILES += %D%/report/report.html %D%/report/page.S
nodist_libgmtool_a_SOURCES = %D%/report/page.S
%D%/report/report.html: %D%/report/page.html %D%/report/page.css $(report_scripts)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && (cd $(srcdir)/tools/report && \
		sed -e '/^@STYLE@$$/{' -e 'r page.css' -e 'd' -e '}' -e '/^@SCRIPT@$$/{' \
			$(patsubst %,-e 'r %',$(notdir $(report_scripts))) -e 'd' -e '}' page.html) >$@-t && mv -f $@-t $@
%D%/report/page.S: %D%/report/report.html
	$(AM_V_GEN)printf '\t.section .note.GNU-stack,"",%%progbits\n\t.section .rodata\n%s\n%s\n\t.incbin "%s"\n%s\n' \
		'	.globl gm_report_page, gm_report_page_end' 'gm_report_page:' $< 'gm_report_page_end:' >$@-t && mv -f $@-t $@

# A build without device code gives no error; the last line of make reports it.
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

# The files of `make install` in a relocatable folder, for the bundle and for the wheel.
STAGE = gpumem-stage
STAGE_TO = --silent prefix= exec_prefix= bindir=/bin libdir=/lib includedir=/include datarootdir=/share datadir=/share \
	mandir=/share/man docdir=/share/doc/gpumem
EXTRA_DIST += %D%/stage.sh
.PHONY: stage
stage:
	rm -rf $(STAGE)
	$(MAKE) $(AM_MAKEFLAGS) install $(STAGE_TO) DESTDIR="$$PWD/$(STAGE)" >/dev/null
	STRIP='$(STRIP)' $(SHELL) $(srcdir)/%D%/stage.sh $(STAGE)
# The time of each packed file: SOURCE_DATE_EPOCH, or the date at the top of NEWS. Before a release it has none;
# 1980 is the first year of zip.
PACKED_AT = "$${SOURCE_DATE_EPOCH:-`date -u +%s -d "$$(sed -n '1s/.*(\([0-9-]*\)).*/\1/p' $(srcdir)/NEWS | grep . || echo 1980-01-01)"`}"

BUNDLE = gpumem-$(PACKAGE_VERSION)-$(host_cpu)
EXTRA_DIST += %D%/bundle.sh
CLEANFILES += $(BUNDLE).tar.gz
.PHONY: bundle
bundle:
	$(MAKE) $(AM_MAKEFLAGS) stage STAGE=$(BUNDLE)
	$(SHELL) $(srcdir)/%D%/bundle.sh $(BUNDLE) $(BUNDLE) $(PACKED_AT)
	rm -rf $(BUNDLE)
	@echo "$(BUNDLE).tar.gz: unpack it anywhere, and run bin/gpumemstat"
include tools/wheel/local.mk
dist_doc_DATA = LICENSE NEWS README.md
