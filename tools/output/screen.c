/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define BEGIN "\033[?1049h\033[?25l" /* alternate screen, no cursor */
#define END "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define REST_OF_LINE "\033[K"
#define REST_OF_SCREEN "\033[J"

static struct termios before, raw;
static volatile sig_atomic_t taken;
static sigset_t waiting; /* signal mask while waiting for a key */

static const int ending[] = {SIGHUP,  SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGSEGV,
			     SIGABRT, SIGBUS, SIGFPE,  SIGILL,	SIGUSR1, SIGUSR2, SIGXCPU};
enum { ENDING = sizeof ending / sizeof *ending };

/* screen_put, screen_give_back and screen_take are async-signal-safe. */
static bool screen_put(const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, text, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		text += done;
		n -= (size_t)done;
	}
	return true;
}

static void screen_give_back(void)
{
	if (!taken)
		return;
	screen_put(END, sizeof END - 1);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	taken = 0; /* last: a signal before it restores the terminal again */
}

static void screen_take(void)
{
	taken = 1; /* first: a signal behind it restores the terminal */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	screen_put(BEGIN, sizeof BEGIN - 1);
}

static void on_end(int signal_number)
{
	screen_give_back();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void on_stop(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	screen_give_back();
	raise(SIGSTOP);
	screen_take(); /* reached after SIGCONT */
	errno = saved;
}

static void on_resize(int signal_number)
{
	(void)signal_number;
}

static void signals_set(void)
{
	struct sigaction action = {.sa_flags = SA_NODEFER};
	sigemptyset(&action.sa_mask);
	action.sa_handler = on_end;
	for (unsigned i = 0; i < ENDING; i++) {
		struct sigaction old;
		/* An ignored signal stays ignored, such as SIGHUP under nohup. */
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
	}
	/* These two must end the wait for a key. They are blocked outside of ppoll, so that none is
	 * handled just before it. */
	sigset_t redrawing;
	sigemptyset(&redrawing);
	sigaddset(&redrawing, SIGTSTP);
	sigaddset(&redrawing, SIGWINCH);
	sigprocmask(SIG_BLOCK, &redrawing, &waiting);
	sigdelset(&waiting, SIGTSTP);
	sigdelset(&waiting, SIGWINCH);
	action.sa_flags = 0;
	action.sa_handler = on_stop;
	sigaction(SIGTSTP, &action, NULL);
	action.sa_handler = on_resize;
	sigaction(SIGWINCH, &action, NULL);
}

bool gm_screen_open(void)
{
	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
		return false;
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	atexit(screen_give_back);
	signals_set();
	screen_take();
	return true;
}

void gm_screen_close(void)
{
	screen_give_back();
}

bool gm_screen_draw(const char *text)
{
	struct winsize window = {0};
	const unsigned rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row
				      ? window.ws_row
				      : 24;
	bool ok = screen_put(HOME, sizeof HOME - 1);
	for (unsigned row = 0; ok && row < rows && *text; row++) {
		const size_t n = strcspn(text, "\n");
		ok = screen_put(text, n) && screen_put(REST_OF_LINE, sizeof REST_OF_LINE - 1) &&
		     (row + 1 == rows || screen_put("\n", 1));
		text += n + (text[n] == '\n');
	}
	return ok && screen_put(REST_OF_SCREEN, sizeof REST_OF_SCREEN - 1);
}

int gm_screen_key(uint64_t ns)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	const struct timespec wait = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	char key;
	int ready = ppoll(&input, 1, &wait, &waiting);
	if (ready < 0)
		return errno == EINTR ? 0 : EOF;
	if (ready == 0)
		return 0;
	ssize_t n = read(STDIN_FILENO, &key, 1);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	return n == 1 ? (unsigned char)key : EOF;
}
