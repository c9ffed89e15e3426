/* SPDX-License-Identifier: BSD-3-Clause */
/* The stacks of mklog's word `stack`. */
#ifndef GM_TESTS_MKLOG_STACKS_H
#define GM_TESTS_MKLOG_STACKS_H

#include "log/log.h"
#include "mklog.h"

/* Two frames of C, one of them in no object. Below 100 also train and <module> of Python; stack 66
 * has a function whose name would control a terminal, 67 one whose name would run in a browser.
 * From 100 on C frames only, and from 200 on NUMBER - 200 cut frames. */
static void stack_put(unsigned number)
{
	const struct gm_record object = {.address = 0x7000,
					 .size = 0x1000,
					 .held = 2,
					 .id = 1,
					 .string = gm_log_string("/nowhere/libone.so"),
					 .kind = GM_RECORD_OBJECT};
	struct gm_frame frames[GM_FRAMES_MOST] = {{1, 0, 0x100 + number}, {0, 0, 0xdead}};
	struct gm_record record = {.size = 2, .id = number, .kind = GM_RECORD_STACK};
	gm_log_put_body(&object, "\xab\xcd", 2);
	if (number < 100) {
		const char *function = number == 66 ? "\033[31mred\nline"
				       : number == 67
					       ? "</script><!--<script>hacked = 1;//<img src=x "
						 "onerror=\"hacked = 1\">"
					       : "train";
		frames[2] = python_frame("/home/me/project/train.py", function, number);
		frames[3] = python_frame("/home/me/project/train.py", "<module>", 1);
		record.size = 4;
	} else if (number < 200) {
		record.held = GM_STACK_C_ONLY;
	} else {
		record.held = GM_STACK_CUT;
		for (record.size = 0; record.size < number - 200 && record.size < GM_FRAMES_MOST;
		     record.size++)
			frames[record.size] = (struct gm_frame){1, 0, record.size};
	}
	gm_log_put_body(&record, frames, record.size * sizeof *frames);
}

#endif
