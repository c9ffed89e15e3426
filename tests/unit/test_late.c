/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of libdl and libpthread that were missing at load are found later (base/glibc.h). */
#include "../../shim/entry/glibc_late.h"

#include <dlfcn.h>
#include <pthread.h>

#include "../tap.h"

#ifdef GM_GLIBC_LATE
static unsigned times;

static void count(void)
{
	times++;
}

static void test_all_there(void)
{
	for (unsigned i = 0; i < gm_glibc_late_count; i++)
		TAP_OK(*gm_glibc_late_table[i].address, "%s is there at load, as of glibc 2.34",
		       gm_glibc_late_table[i].function);
	TAP_OK(!gm_glibc_late_missing(), "no function is missing");
}

static void test_filled_in(void)
{
	pthread_once_t once = PTHREAD_ONCE_INIT;
	for (unsigned i = 0; i < gm_glibc_late_count; i++)
		*gm_glibc_late_table[i].address = NULL;
	TAP_OK(!gm_glibc_late_missing(),
	       "no function stays missing without any of them, as before 2.34");
	for (unsigned i = 0; i < gm_glibc_late_count; i++)
		TAP_PTR(*gm_glibc_late_table[i].address,
			dlsym(RTLD_DEFAULT, gm_glibc_late_table[i].function),
			"%s is the function that dlsym returns", gm_glibc_late_table[i].function);
	pthread_once(&once, count);
	pthread_once(&once, count);
	TAP_IS(times, 1, "a function that was found works");
}

int main(void)
{
	test_all_there();
	test_filled_in();
	return tap_done();
}
#else
int main(void)
{
	TAP_SKIP_ALL("this build calls libdl and libpthread directly");
}
#endif
