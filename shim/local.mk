# SPDX-License-Identifier: BSD-3-Clause
# The preload: nothing to link against, no constructor, and no library that a container may not have.
lib_LTLIBRARIES += libgpumem.la
libgpumem_la_SOURCES = %D%/dlsym.c %D%/hooks.c %D%/late.c %D%/late.h %D%/object.c %D%/object.h %D%/resolve.c %D%/resolve.h \
	%D%/shim.h
libgpumem_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(top_srcdir) -I$(top_srcdir)/core
libgpumem_la_CCASFLAGS = $(AM_CCASFLAGS)
libgpumem_la_CFLAGS = $(AM_CFLAGS) -fPIC
# Two segments rather than four (noseparate-code): each is a system call and page faults in every process.
libgpumem_la_LIBADD = libgmtakeover.la libgmimage.la libgm.la
libgpumem_la_LDFLAGS = -module -avoid-version -shared -Wl,--version-script=%D%/libgpumem.map \
	-Wl,-Bsymbolic-functions -Wl,-z,defs,-z,noseparate-code,-z,now,-z,nodelete,-z,relro,-z,noexecstack
EXTRA_libgpumem_la_DEPENDENCIES = %D%/libgpumem.map
EXTRA_DIST += %D%/entry-aarch64.S %D%/entry-x86_64.S
include %D%/handlers.mk

if HOST_AARCH64
libgpumem_la_SOURCES += %D%/entry-aarch64.S
else
libgpumem_la_SOURCES += %D%/entry-x86_64.S
endif

# As of glibc 2.34 these are empty archives and leave no trace; before it, the functions are found nowhere else.
libgpumem_la_LIBADD += -ldl -lpthread

# A debug build also lets the simulated driver ask which locks its caller holds.
if GM_DEBUG
SHIM_DEBUG_EXPORT = gm_lock_none_held;
endif

# The exports are the hooks, dlsym, and what libgpumem-core asks for (api/core.h). One anonymous version: a named one would not take a versioned reference over.
%D%/libgpumem.map: $(top_srcdir)/src/driver/hooks.def Makefile
	$(AM_V_GEN)$(MKDIR_P) %D% && { echo '{ global: dlsym; gm_preload_core; $(SHIM_DEBUG_EXPORT)' && \
		$(SED) -n 's/^GM_HOOK(\([A-Za-z0-9_]*\),.*/\1;/p' $(top_srcdir)/src/driver/hooks.def && \
		echo 'local: *; };'; } >$@-t && mv $@-t $@
CLEANFILES += %D%/libgpumem.map

# Nobody links with it, so nobody needs libtool's description; without that, uninstalling has to be told the name.
install-exec-hook:
	rm -f $(DESTDIR)$(libdir)/libgpumem.la
uninstall-hook:
	rm -f $(DESTDIR)$(libdir)/libgpumem.so
