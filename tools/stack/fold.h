/* SPDX-License-Identifier: BSD-3-Clause */
/* The frames of a stack on which a user can act, and the names by which users of PyTorch know the
 * others: the table fold.def. Pure functions; thread-safe; no errors. */
#ifndef GM_TOOLS_STACK_FOLD_H
#define GM_TOOLS_STACK_FOLD_H

#include <stdbool.h>
#include <stddef.h>

enum gm_fold {
	GM_FOLD_none,
#define GM_FOLD_KIND(name, help) GM_FOLD_##name,
#include "tools/stack/fold.def"
#undef GM_FOLD_KIND
	GM_FOLD_COUNT
};

#define GM_FOLD_NAME 64 /* bytes of a name, its end included */

/* "cache"; NULL: none. */
const char *gm_fold_word(enum gm_fold fold);

/* The first row that matches a call. `function` NULL: not known. `file`: path of the object, of
 * Python of the source; NULL: none. */
enum gm_fold gm_fold_of(bool python, const char *function, const char *file);

/*
 * The name of a call of C: "aten::mm" of at::_ops::mm::call, "backward of mm" of the node of
 * autograd MmBackward0, "AccumulateGrad", or the file of a library without names. Cut to `n`.
 * Returns `buf`; "": none of these. Arguments as above.
 */
const char *gm_fold_name(const char *function, const char *object, char *buf, size_t n);

/* Is it the name of a node of autograd, with its operator? */
bool gm_fold_is_backward(const char *name);

#endif
