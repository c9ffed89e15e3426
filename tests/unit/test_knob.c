/* SPDX-License-Identifier: BSD-3-Clause */
#include "knob/knob.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/msg.h"
#include "knob/conf.h"

#include "../tap.h"

static void good_values(void)
{
	union gm_knob_value v;
	char why[256] = "";
	TAP_OK(gm_knob_parse(GM_KNOB_ID_enable, "off", &v, why, sizeof why) && !v.flag,
	       "off is the value 0");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_enable, "Yes", &v, why, sizeof why) && v.flag,
	       "Yes is the value 1");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_mode, "trace", &v, why, sizeof why) &&
		       v.choice == GM_MODE_TRACE,
	       "trace is a mode");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_log, "EVENTS", &v, why, sizeof why) &&
		       v.choice == GM_LOG_EVENTS,
	       "a word in any case is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_limit, "75%", &v, why, sizeof why) && v.share.ppm == 750000,
	       "a share of the device is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_limit, "2G", &v, why, sizeof why) && v.share.ppm == 0 &&
		       v.share.bytes == (uint64_t)2 << 30,
	       "a size instead of a share is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_log, "small,0", &v, why, sizeof why) &&
		       v.level.choice == GM_LOG_SMALL && v.level.sample == 0,
	       "a level with a time of 0, which needs no unit");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_log, "events", &v, why, sizeof why) &&
		       v.level.sample == 100000000,
	       "a level without a time");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_sleep, "0", &v, why, sizeof why) && !v.sleep.on,
	       "a switch is off");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_sleep, "1", &v, why, sizeof why) && v.sleep.on &&
		       v.sleep.after == UINT64_MAX,
	       "a switch is on");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_sleep, "30s", &v, why, sizeof why) && v.sleep.on &&
		       v.sleep.after == 30000000000,
	       "a switch is on, with a time");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_trim_after, "Off", &v, why, sizeof why) &&
		       v.trim.after == UINT64_MAX && !v.trim.keep.bytes && !v.trim.keep.ppm,
	       "a time of never");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_trim_after, "2s", &v, why, sizeof why) &&
		       v.trim.after == 2000000000,
	       "a time of 2 s");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_trim_after, "2s,0", &v, why, sizeof why) &&
		       v.trim.after == 2000000000 && !v.trim.keep.ppm && !v.trim.keep.bytes,
	       "a time and a share of nothing");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_trim_after, "0,10%", &v, why, sizeof why) &&
		       v.trim.after == 0 && v.trim.keep.ppm == 100000,
	       "a time of 0 and a share");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_trim_after, "off,1G", &v, why, sizeof why) &&
		       v.trim.keep.bytes == (uint64_t)1 << 30,
	       "never and a size are read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_prewarm, "0%", &v, why, sizeof why) && v.share.ppm == 0 &&
		       v.share.bytes == 0,
	       "a share of 0 percent is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_log_events, "all,-copy,-free", &v, why, sizeof why) &&
		       v.set == (UINT32_MAX & ~6u),
	       "a list with words taken away is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_log_events, "none,mark", &v, why, sizeof why) &&
		       v.set == 1u << 8,
	       "a list of one is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_fill, "0xA5", &v, why, sizeof why) && v.choice == 0xa5,
	       "a byte in hexadecimal is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_fill, "255", &v, why, sizeof why) && v.choice == 255,
	       "a byte in decimal is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_fill, "0", &v, why, sizeof why) && v.choice == 0,
	       "the byte 0 is not the word zero");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_copy, "64", &v, why, sizeof why) && v.threads == 64,
	       "a number of threads is read");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_copy, "Off", &v, why, sizeof why) && v.threads == 0,
	       "off means no threads");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_copy, "AUTO", &v, why, sizeof why) &&
		       v.threads == GM_THREADS_AUTO,
	       "auto means as many threads as the machine allows");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_fill, "Zero", &v, why, sizeof why) &&
		       v.choice == GM_FILL_ZERO,
	       "a word in the place of a byte");
	TAP_OK(gm_knob_parse(GM_KNOB_ID_log_name, "100%%/%h.%p.%r.%j.%e", &v, why, sizeof why) &&
		       strcmp(v.text, "100%%/%h.%p.%r.%j.%e") == 0,
	       "a name with each word");
}

static void bad_values(void)
{
	static const struct {
		enum gm_knob_id id;
		const char *text, *why;
	} bad[] = {
		{GM_KNOB_ID_enable, "maybe", "expected 0 or 1"},
		{GM_KNOB_ID_enable, "", "expected 0 or 1"},
		{GM_KNOB_ID_mode, "fast", "expected one of pool, trace"},
		{GM_KNOB_ID_mode, "poo", "expected one of pool, trace"},
		{GM_KNOB_ID_limit, "0", "expected a size such as 512M, or a percentage up to 100%"},
		{GM_KNOB_ID_limit, "101%",
		 "expected a size such as 512M, or a percentage up to 100%"},
		{GM_KNOB_ID_log_limit, "big", "expected a size of at least 32M, such as 512M"},
		{GM_KNOB_ID_log_limit, "1M", "expected a size of at least 32M, such as 512M"},
		{GM_KNOB_ID_limit, "0%",
		 "expected a size such as 512M, or a percentage up to 100%"},
		{GM_KNOB_ID_prewarm, "much",
		 "expected a size such as 512M, or a percentage up to 100%"},
		{GM_KNOB_ID_trim_after, "10",
		 "expected a time such as 100ms or 10s, or off, and perhaps a comma and a size or "
		 "a percentage to keep"},
		{GM_KNOB_ID_trim_after, "never", NULL},
		{GM_KNOB_ID_trim_after, "10s,", NULL},
		{GM_KNOB_ID_trim_after, "10s,much", NULL},
		{GM_KNOB_ID_trim_after, ",1G", NULL},
		{GM_KNOB_ID_trim_after,
		 "000000000000000000000000000000000000000000000000000000000000000010s", NULL},
		{GM_KNOB_ID_log, "off,5",
		 "expected one of off, small, events, and perhaps a comma "
		 "and a time"},
		{GM_KNOB_ID_log, "small,", NULL},
		{GM_KNOB_ID_log, "0", NULL},
		{GM_KNOB_ID_sleep, "30", "expected 0, 1, or a time such as 30s"},
		{GM_KNOB_ID_sleep, "", NULL},
		{GM_KNOB_ID_log_events, "all,-sleep",
		 "expected a list of all, none, allocate, free, copy, map, retire, heap, module, "
		 "sample, mark, tensor"},
		{GM_KNOB_ID_log_events, "allocate,", NULL},
		{GM_KNOB_ID_fill, "256", "expected a byte such as 0xa5, or one of off, zero"},
		{GM_KNOB_ID_fill, "0x", "expected a byte such as 0xa5, or one of off, zero"},
		{GM_KNOB_ID_log_name, "%d.gml", "expected no % but %h, %p, %r, %j, %e and %%"},
		{GM_KNOB_ID_log_name, "50%", "expected no % but %h, %p, %r, %j, %e and %%"},
		{GM_KNOB_ID_fill, "-1", "expected a byte such as 0xa5, or one of off, zero"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		union gm_knob_value v = {.ns = 77};
		char why[256] = "";
		TAP_OK(!gm_knob_parse(bad[i].id, bad[i].text, &v, why, sizeof why) && v.ns == 77,
		       "%s=%s is refused", gm_knob_table[bad[i].id].name, bad[i].text);
		if (bad[i].why)
			TAP_STR(why, bad[i].why, "the reason is given");
	}
}

static void every_default_is_good(void)
{
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++) {
		union gm_knob_value v;
		char why[256];
		TAP_OK(gm_knob_parse((enum gm_knob_id)i, gm_knob_table[i].fallback, &v, why,
				     sizeof why),
		       "the default of %s is a value of it", gm_knob_table[i].name);
	}
}

/* The stderr output of a process that reads its knobs in this environment. */
static void said(const char *name, const char *value, char *out, size_t n)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(99);
	pid_t child = fork();
	if (child == 0) {
		clearenv();
		setenv(name, value, 1);
		dup2(ends[1], STDERR_FILENO);
		gm_msg_follow();
		gm_knob_get();
		gm_knob_get();
		_exit(0);
	}
	close(ends[1]);
	size_t at = 0;
	ssize_t got;
	while ((got = read(ends[0], out + at, n - 1 - at)) > 0)
		at += (size_t)got;
	out[at] = '\0';
	close(ends[0]);
	waitpid(child, NULL, 0);
}

static void messages(void)
{
	static const struct {
		const char *name, *value, *line;
	} cases[] = {
		{"GPUMEM_MODE", "fast",
		 "gpumem: GPUMEM_MODE=fast: expected one of pool, trace; using pool\n"},
		{"GPUMEM_LIMITS", "1G",
		 "gpumem: GPUMEM_LIMITS is not a knob; did you mean GPUMEM_LIMIT?\n"},
		{"GPUMEM_PIGMENT_OF_WALL", "1",
		 "gpumem: GPUMEM_PIGMENT_OF_WALL is not a knob; see gpumem-knobs(7)\n"},
		{"GPUMEM_TEST_DATA", "/nowhere", ""},
		{"GPUMEM_LIMIT", "50%", ""},
		{"GPUMEMORY", "1", ""},
		{"GPUMEM_KEEP", "1G",
		 "gpumem: GPUMEM_KEEP is not a knob any more; GPUMEM_TRIM_AFTER=TIME,SIZE "
		 "replaces it\n"},
		{"GPUMEM_LAUNCHES", "1", "gpumem: GPUMEM_LAUNCHES is not a knob any more\n"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char line[1024];
		said(cases[i].name, cases[i].value, line, sizeof line);
		TAP_STR(line, cases[i].line, "%s=%s, read twice, is told once", cases[i].name,
			cases[i].value);
	}
}

static void the_environment(void)
{
	setenv("GPUMEM_VERBOSE", "0", 1);
	setenv("GPUMEM_LIMIT", "10%", 1);
	setenv("GPUMEM_MODE", "fast", 1);
	setenv("GPUMEM_LOG_NAME", "here/%p", 1);
	const struct gm_knobs *knobs = gm_knob_get();
	setenv("GPUMEM_LOG_NAME", "XXXXXXX", 1);
	TAP_IS(knobs->limit.share.ppm, 100000, "a value is read from the environment");
	TAP_IS(knobs->mode.choice, GM_MODE_POOL, "a bad value is the default");
	TAP_STR(knobs->log_name.text, "here/%p", "text outlives a change of the environment");
	TAP_IS(gm_knob_origin(GM_KNOB_ID_limit).source, GM_KNOB_ENVIRONMENT,
	       "the source of a value is kept");
	TAP_STR(gm_knob_origin(GM_KNOB_ID_limit).text, "10%", "the text of a value is kept");
	TAP_IS(gm_knob_origin(GM_KNOB_ID_mode).source, GM_KNOB_DEFAULT,
	       "the source of a refused value is the default");
	TAP_STR(gm_knob_origin(GM_KNOB_ID_mode).refused, "fast", "the refused value is kept");
	TAP_STR(gm_knob_origin(GM_KNOB_ID_trim_after).text, "10s",
		"a knob that is not set has the default's text");
	TAP_STR(gm_knob_origin(GM_KNOB_ID_trim_after).refused, NULL,
		"a knob that is not set has no refused value");
}

/* The contents of /etc/gpumem.conf are covered by tests/cli/conf.bats alone. */
static void the_file(void)
{
	TAP_STR(gm_conf_get()->path, "", "GPUMEM_TEST_CONF= means no file");
	TAP_STR(GM_CONF_PATH, "/etc/gpumem.conf", "/etc/gpumem.conf is the usual file");
	TAP_IS(gm_conf_get()->n_bad, 0, "a missing file has no bad line");
	TAP_STR(gm_knob_source_name(GM_KNOB_FILE), "file", "the source of a value has a name");
}

int main(void)
{
	setenv("GPUMEM_TEST_CONF", "", 1);
	good_values();
	bad_values();
	every_default_is_good();
	messages();
	TAP_STR(gm_knob_nearest("GPUMEM_LOGS"), "GPUMEM_LOG", "a wrong name has its nearest name");
	TAP_STR(gm_knob_nearest("GPUMEM_FRE"), "GPUMEM_FREE",
		"a short wrong name has its nearest name");
	TAP_STR(gm_knob_nearest("GPUMEM_FOO"), NULL, "three letters that are all others are far");
	TAP_STR(gm_knob_nearest("PATH"), NULL, "no name is near PATH");
	the_environment();
	the_file();
	return tap_done();
}
