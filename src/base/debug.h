/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions of debug builds (configure --enable-debug). A release build never aborts the host
 * program; a debug build prints through write(2), without allocating, and aborts.
 */
#ifndef GM_BASE_DEBUG_H
#define GM_BASE_DEBUG_H

#ifdef GM_DEBUG
void gm_debug_failed(const char *file, int line, const char *expression) __attribute__((noreturn));
#define GM_ASSERT(x) ((x) ? (void)0 : gm_debug_failed(__FILE__, __LINE__, #x))
#else
#define GM_ASSERT(x) ((void)sizeof(!(x)))
#endif

#define GM_TLS __thread __attribute__((tls_model("initial-exec")))
/* For variables of the library: without it, an access takes the address from a table first. */
#define GM_HIDDEN __attribute__((visibility("hidden")))
/* For code that a sanitizer's runtime calls before it has initialized itself. */
#define GM_EARLY __attribute__((no_sanitize("address", "thread", "undefined")))
#define GM_LIKELY(x) __builtin_expect(!!(x), 1)
#define GM_UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
