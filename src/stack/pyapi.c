/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/pyapi.h"

#include <dlfcn.h>
#include <stddef.h>

struct gm_python gm_python;

enum need { SOME, TO_READ, ALWAYS };
static const struct {
	const char *name;
	enum need need;
	void **at;
} names[] = {
#define GM_PYTHON(need, result, name, parameters) {#name, need, (void **)(void *)&gm_python.name},
#define GM_PYTHON_OBJECT(need, name) {#name, need, &gm_python.name},
#include "stack/pyapi.def"
#undef GM_PYTHON
#undef GM_PYTHON_OBJECT
};

bool gm_python_search(void)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		*names[i].at = dlsym(RTLD_DEFAULT, names[i].name);
		if (!*names[i].at)
			dlerror();
		if (!*names[i].at && names[i].need == ALWAYS)
			return false;
	}
	if (!gm_python.PyThreadState_GetUnchecked)
		gm_python.PyThreadState_GetUnchecked = gm_python._PyThreadState_UncheckedGet;
	return gm_python.PyThreadState_GetUnchecked != NULL;
}

bool gm_python_is_readable(void)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!*names[i].at && names[i].need == TO_READ)
			return false;
	return true;
}
