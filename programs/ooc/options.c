/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ooc.h"

const char *const ooc_mode_names[3] = {"in-core", "streamed", "out-of-core"};
const char *ooc_name = "ooc";

void ooc_fail(int status, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	fprintf(stderr, "%s: ", ooc_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

static void help(const struct ooc_program *program)
{
	printf("Usage: %s [OPTION]...\n"
	       "%s: %s.\n\n"
	       "  -n, --elements=N      elements of each of the two arrays of floats (16M)\n"
	       "  -t, --steps=LIST      steps (1)\n"
	       "  -m, --mode=LIST       in-core, streamed, out-of-core (all three)\n"
	       "  -s, --streams=LIST    streams; in-core uses none (8)\n"
	       "      --room=BYTES      device memory that out-of-core uses (95%% of what is "
	       "free)\n"
	       "      --host=KIND       memory of the host: pageable, pinned (pageable)\n"
	       "      --repeat=N        runs of each (1)\n"
	       "      --verify          compare the result with the CPU's; status 1 if it differs\n"
	       "      --untimed         print only what is the same in every run\n"
	       "      --help            print this\n\n"
	       "A LIST has up to %d values with commas. k, M, G, T are powers of 1000, Ki, Mi, Gi, "
	       "Ti of 1024.\n"
	       "Each run prints a line of key=value. doc/programs.md says what they mean.\n",
	       program->name, program->name, program->does, OOC_VALUES);
}

/* --- values --- */

/* A number and its unit; the whole text. */
static uint64_t number_read(const char *option, const char *text, uint64_t least, uint64_t most)
{
	static const char units[] = "kMGT";
	uint64_t base = 1000, scale = 1;
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
	if (unit && *end++ && *end == 'i') {
		base = 1024;
		end++;
	}
	for (const char *u = units; unit && u <= unit; u++)
		scale *= base;
	if (!isdigit((unsigned char)*text) || *end)
		ooc_fail(OOC_USAGE, "--%s=%s: not a number, as 64, 20M or 2Gi", option, text);
	if (errno == ERANGE || value > UINT64_MAX / scale || value * scale < least ||
	    value * scale > most)
		ooc_fail(OOC_USAGE, "--%s=%s: %llu to %llu are possible", option, text,
			 (unsigned long long)least, (unsigned long long)most);
	return value * scale;
}

static uint64_t steps_read(const char *option, const char *text)
{
	return number_read(option, text, 0, OOC_STEPS_MAX);
}

static uint64_t streams_read(const char *option, const char *text)
{
	return number_read(option, text, 1, OOC_STREAMS_MAX);
}

static uint64_t mode_read(const char *option, const char *text)
{
	for (unsigned mode = 0; mode < 3; mode++)
		if (strcmp(text, ooc_mode_names[mode]) == 0)
			return mode;
	ooc_fail(OOC_USAGE, "--%s=%s: in-core, streamed and out-of-core are possible", option,
		 text);
}

static void list_read(const char *option, const char *text, struct ooc_list *out,
		      uint64_t (*value_read)(const char *option, const char *text))
{
	char value[32];
	out->count = 0;
	for (;;) {
		size_t length = strcspn(text, ",");
		if (out->count == OOC_VALUES)
			ooc_fail(OOC_USAGE, "--%s: more than %d values", option, OOC_VALUES);
		if (length >= sizeof value)
			ooc_fail(OOC_USAGE, "--%s=%.20s...: not a value", option, text);
		memcpy(value, text, length);
		value[length] = '\0';
		out->value[out->count++] = value_read(option, value);
		if (!text[length])
			return;
		text += length + 1;
	}
}

static bool host_read(const char *text)
{
	if (strcmp(text, "pageable") != 0 && strcmp(text, "pinned") != 0)
		ooc_fail(OOC_USAGE, "--host=%s: pageable and pinned are possible", text);
	return strcmp(text, "pinned") == 0;
}

/* --- options --- */

static void option_read(const struct ooc_program *program, int option, struct ooc_options *out)
{
	switch (option) {
	case 'n':
		out->elements = number_read("elements", optarg, 1, OOC_ELEMENTS_MAX);
		break;
	case 't':
		list_read("steps", optarg, &out->steps, steps_read);
		break;
	case 'm':
		list_read("mode", optarg, &out->modes, mode_read);
		break;
	case 's':
		list_read("streams", optarg, &out->streams, streams_read);
		break;
	case 'r':
		out->room = number_read("room", optarg, 2 * sizeof(float), UINT64_MAX);
		break;
	case 'k':
		out->pinned = host_read(optarg);
		break;
	case 'c':
		out->repeat = number_read("repeat", optarg, 1, 1000000);
		break;
	case 'v':
		out->verify = true;
		break;
	case 'u':
		out->untimed = true;
		break;
	case 'h':
		help(program);
		exit(fflush(stdout) ? OOC_FAILED : OOC_DONE);
	default:
		exit(OOC_USAGE); /* getopt_long has said why */
	}
}

void ooc_options_read(const struct ooc_program *program, int argc, char **argv,
		      struct ooc_options *out)
{
	static const struct option options[] = {{"elements", required_argument, NULL, 'n'},
						{"steps", required_argument, NULL, 't'},
						{"mode", required_argument, NULL, 'm'},
						{"streams", required_argument, NULL, 's'},
						{"room", required_argument, NULL, 'r'},
						{"host", required_argument, NULL, 'k'},
						{"repeat", required_argument, NULL, 'c'},
						{"verify", no_argument, NULL, 'v'},
						{"untimed", no_argument, NULL, 'u'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	ooc_name = program->name;
	*out = (struct ooc_options){.elements = 16000000,
				    .repeat = 1,
				    .modes = {{OOC_IN_CORE, OOC_STREAMED, OOC_OUT_OF_CORE}, 3},
				    .steps = {{1}, 1},
				    .streams = {{8}, 1}};
	for (int option; (option = getopt_long(argc, argv, "n:t:m:s:", options, NULL)) != -1;)
		option_read(program, option, out);
	if (optind < argc)
		ooc_fail(OOC_USAGE, "%s: takes options alone; --help shows them", argv[optind]);
}
