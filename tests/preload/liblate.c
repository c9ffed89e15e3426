/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is initialised before ours, so is finalised after it. It then calls late_work. */
void (*late_work)(void);

__attribute__((destructor)) static void finish(void)
{
	if (late_work)
		late_work();
}
