/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is set up before ours, and so finished after it, and then does what it was told.
 */
void (*late_work)(void);

__attribute__((destructor)) static void finish(void)
{
	if (late_work)
		late_work();
}
