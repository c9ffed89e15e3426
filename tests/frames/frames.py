# SPDX-License-Identifier: BSD-3-Clause
# Compares the reader of frames with sys._getframe and traceback.extract_stack, frame by frame: file, qualified name,
# line. frames.py WAY; prints "N stacks, N frames, N different", or "refused" if the self-check did.
import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import sys
import threading
import time
import traceback

without_lock = ctypes.CDLL(os.environ["FRAMES_LIB"])
with_lock = ctypes.PyDLL(os.environ["FRAMES_LIB"])
REFUSED, WAITING, READY = 1, 2, 3
QUALIFIED = sys.version_info >= (3, 11)
stacks = frames = different = 0
over = False  # after its end the interpreter is not read
counting = threading.Lock()


def plain(text):
    """Halves of surrogate pairs as the log has them."""
    return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)


def name(code):
    return plain(code.co_qualname if QUALIFIED else code.co_name)


def look(library, label):
    """The reader's stack of this function's caller, and the interpreter's own ones."""
    global stacks, frames, different
    text = ctypes.create_string_buffer(1 << 20)
    frame = sys._getframe(1)
    library.frames_text(text, len(text))
    public, wanted = traceback.extract_stack(frame), []
    while frame:
        wanted.append((plain(frame.f_code.co_filename), name(frame.f_code), frame.f_lineno or 0))
        frame = frame.f_back
    lines = text.value.decode().split("\n")[1:-1]  # the first one is look itself
    got = [(file, function, int(line)) for file, function, line in (line.split("\t") for line in lines)]
    same = got == wanted and [(f, n) for f, _, n in got] == [(plain(s.filename), s.lineno or 0) for s in reversed(public)]
    with counting:
        stacks, frames, different = stacks + 1, frames + len(wanted), different + (not same)
        if not same and different < 4:
            print(f"# {label}: {len(got)} frames, not {len(wanted)}")
            for pair in list(zip(got + [None] * 9, wanted))[:12]:
                if pair[0] != pair[1]:
                    print(f"#   {pair[0]!r}, not {pair[1]!r}")


def both(label):
    look(without_lock, label)
    look(with_lock, label + ", with the lock")


def calls():
    both("plain")
    (lambda: both("lambda"))()

    def deep(n):
        return both("deep") if n == 0 else deep(n - 1)

    deep(30)
    deep(700)

    def decorate(function):
        @functools.wraps(function)
        def inner(*arguments):
            return function(*arguments)

        return inner

    @decorate
    @decorate
    def decorated():
        both("decorated")

    decorated()
    functools.partial(decorated)()
    list(map(lambda x: both("map"), [1]))
    sorted([2, 1], key=lambda x: both("key") or x)


def generators():
    @contextlib.contextmanager
    def context():
        both("enter")
        yield
        both("exit")

    def inner():
        both("inner generator")
        yield 1
        with context():
            both("with")
            yield 2

    def outer():
        both("generator")
        yield 0
        yield from inner()

    list(outer())
    [x for x in outer()]
    [both("comprehension") for _ in range(2)]
    {x: both("dict comprehension") for x in range(2)}
    list(both("generator expression") for _ in range(2))
    half = outer()
    next(half)
    sys._getframe().f_locals
    both("an object of this frame exists")
    half.close()


class Methods:

    def __init__(self):
        self.itself = self
        both("__init__")

    def __call__(self):
        both("__call__")

    def __eq__(self, other):
        both("__eq__")
        return True

    def __iter__(self):
        both("__iter__")
        return iter([1])

    @property
    def read(self):
        both("property")

    @classmethod
    def of_class(cls):
        both("classmethod")

    def __del__(self):
        if not over:
            both("__del__ in a collection")


def classes():
    methods = Methods()
    methods()
    methods.read
    Methods.of_class()
    methods == 1
    list(methods)
    del methods
    gc.collect()


def run(text, file):
    exec(compile(text, file, "exec"), {"both": both})


def texts():
    run('def g():\n\n    both("exec")\ng()\n', "<exec \u00e9>")
    run('def gr\u00f6\u00dfe():\n both("Latin 1")\ngr\u00f6\u00dfe()', "/tmp/gr\u00f6\u00dfe.py")
    run('def \u51fd\u6570():\n\n\n both("two bytes")\n\u51fd\u6570()', "/tmp/\u51fd\u6570.py")
    run('def \U00020000():\n both("four bytes")\n\U00020000()', "/tmp/\U00020000\U0001f600.py")
    run('both("half of a pair")', "/tmp/\udcff.py")
    run("\n" * 70000 + 'both("line 70001")', "far.py")
    run("\n".join(f"x{i} = 1" for i in range(3000)) + '\nboth("long code")', "long.py")
    run(
        "def f():\n x = (\n  1,\n  both('tuple'),\n\n  2)\n while True:\n  try:\n   1 / 0\n"
        "  except ZeroDivisionError:\n   both('except')\n  finally:\n   both('finally')\n  break\nf()",
        "lines.py",
    )
    for i in range(200):  # code objects at addresses of ended ones
        run("\n" * i + f'def f{i % 7}():\n both("reused")\nf{i % 7}()', f"again{i % 10}.py")
    space = {"look": look, "library": without_lock}
    for i in range(100):  # names, and line tables, that differ in the middle alone
        name = f"/home/user/project/templates/cache/{i:03}/generated/compiled/module/very/long/layout.py"
        before, after = ("\n", "") if i % 2 else ("", "\n")
        line = "  if x: x = 1\n"
        code = f"def f(x):\n{line * 40}{before}  look(library, 'middle')\n{after}{line * 60}"
        exec(compile(code, name, "exec"), space)
        space.pop("f")(0)


def coroutines():
    async def values():
        both("async generator")
        yield 1
        await asyncio.sleep(0)
        yield 2

    async def one(n):
        both("coroutine")
        await asyncio.sleep(0)
        both("after await")
        async for _ in values():
            both("async for")

    async def many():
        await asyncio.gather(*(one(i) for i in range(3)))

    asyncio.run(many())


def callbacks():
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, 4, callback(lambda a, b: both("called by C") or 0))


def everything():
    for part in (calls, generators, classes, texts, coroutines, callbacks):
        part()


def traced():
    def trace(*_):
        return trace

    def trace_and_look(frame, event, arg):
        if event == "line" and frame.f_code.co_name == "small":
            sys.settrace(None)
            both("within a trace function")
            sys.settrace(trace_and_look)
        return trace_and_look

    def small():
        x = 1
        return (x +
                2)

    sys.settrace(trace)
    everything()
    sys.settrace(trace_and_look)
    small()
    sys.settrace(None)
    sys.setprofile(lambda *_: None)
    everything()
    sys.setprofile(None)
    if hasattr(sys, "monitoring"):
        monitoring = sys.monitoring
        monitoring.use_tool_id(2, "frames")
        monitoring.register_callback(2, monitoring.events.LINE, lambda *_: None)
        monitoring.set_events(2, monitoring.events.LINE | monitoring.events.INSTRUCTION)
        everything()
        monitoring.set_events(2, 0)
        monitoring.free_tool_id(2)


def threads():
    several = [threading.Thread(target=everything) for _ in range(3)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    global different
    if without_lock.frames_bare() != 0:
        print("# a thread without a frame has frames")
        different += 1


def waits():
    """The main thread waits for another one from the start on."""
    thread = threading.Thread(target=everything)
    thread.start()
    thread.join()


def unseen():
    """The program sees nothing of the check: no event of an audit hook, no call, no code that is compiled."""
    global different
    events = []
    importlib_is_done = sys.modules.get("atexit")  # else the check imports it
    sys.addaudithook(lambda event, _: events.append(event))
    sys.setprofile(lambda frame, *_: events.append(frame.f_code.co_filename))
    if not wait_for_check() or not importlib_is_done:
        sys.exit("# not ready")
    sys.setprofile(None)
    own = [event for event in events if event in ("compile", "exec", "import") or event[0] == "<"]
    if own:
        print(f"# {own}")
        different += 1
    everything()


def fork():
    child = os.fork()
    if child == 0:
        everything()
        # Its own thread, not the parent's, is the main one.
        thread = threading.Thread(target=everything)
        thread.start()
        thread.join()
        os._exit(different != 0)
    if os.waitpid(child, 0)[1]:
        sys.exit("# the child differs")
    everything()


def subinterpreters():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    try:
        other = interpreters.create("legacy") if sys.version_info >= (3, 13) else interpreters.create(isolated=False)
    except TypeError:
        other = interpreters.create()
    code = (
        "import ctypes\n"
        "text = ctypes.create_string_buffer(100000)\n"
        f"library = ctypes.CDLL({os.environ['FRAMES_LIB']!r})\n"
        "def within():\n"
        "    return library.frames_text(text, 100000)\n"
        "n = within()\n"
        "first = text.value.decode().split('\\n')[0].split('\\t') if n >= 0 else None\n"
        # To 3.11 the state found is of the main interpreter, so nothing is read; from 3.12 on all is.
        f"wanted = {sys.version_info >= (3, 12)!r}\n"
        "assert (n == 2 and first[1:] == ['within', '5']) if wanted else n == -1, (n, first)\n"
    )
    for in_thread in (False, True):
        failed = []

        def go():
            run_string = getattr(interpreters, "run_string", None) or interpreters.exec
            result = run_string(other, code)
            if result:
                failed.append(result)

        if in_thread:
            thread = threading.Thread(target=go)
            thread.start()
            thread.join()
        else:
            go()
        if failed:
            sys.exit(f"# {failed[0]}")
    interpreters.destroy(other)
    everything()


def busy(captures):
    """So many captures in four threads, while three others compile, collect, trace and look at frames."""
    done = [0, 0]
    ended = threading.Event()
    sys.setswitchinterval(1e-5)

    def deep(n):
        return deep(n - 1) if n else (without_lock.frames_repeat(500), look(without_lock, "busy"))[0]

    def generator(n):
        yield deep(n)

    def capture(i):
        j = 0
        while done[0] < captures:
            j += 1
            source = "\n" * (j % 50) + f"def gr\u00f6\u00dfe_{j % 9}(n):\n  return sum(generator(n))\nwrong = gr\u00f6\u00dfe_{j % 9}({j % 25})"
            space = {"generator": generator}
            exec(compile(source, f"<w{i} \u00e9 {j % 11}>", "exec"), space)
            with counting:
                done[0] += 501
                done[1] += space["wrong"]

    def burn(i):
        x = 0
        while not ended.is_set():
            x += 1
            exec(compile(f"def f{x % 100}():\n return [g for g in range(50)]\nclass C: pass\nf{x % 100}()", f"<b{x % 13}>", "exec"), {})
            if i == 0 and x % 20 == 0:
                gc.collect()
            if i == 1:
                [frame.f_lineno for frame in sys._current_frames().values()]
            if i == 2:
                sys.settrace(lambda *_: None)
                sys.settrace(None)
                if x % 50 == 0 and hasattr(sys, "monitoring"):
                    sys.monitoring.use_tool_id(3, "burn")
                    sys.monitoring.set_events(3, sys.monitoring.events.LINE)
                    sys.monitoring.set_events(3, 0)
                    sys.monitoring.free_tool_id(3)

    several = [threading.Thread(target=capture, args=(i,)) for i in range(4)]
    burners = [threading.Thread(target=burn, args=(i,)) for i in range(3)]
    for thread in burners + several:
        thread.start()
    for thread in several:
        thread.join()
    ended.set()
    for thread in burners:
        thread.join()
    global stacks, different
    stacks += done[0]
    different += done[1]


def ends():
    """Threads capture without end while the interpreter ends."""

    def deep(n):
        return deep(n - 1) if n else without_lock.frames_forever()

    for _ in range(3):
        threading.Thread(target=deep, args=(20,), daemon=True).start()
    time.sleep(0.01)


def timed():
    def deep(n):
        return deep(n - 1) if n else min(without_lock.frames_time(100000) for _ in range(5))

    without_lock.frames_time.restype = ctypes.c_double
    print(f"{deep(27):.0f} ns")


def wait_for_check():
    """The check wants a stack of two frames."""
    without_lock.frames_open()
    while without_lock.frames_open() == WAITING:
        time.sleep(0.001)
    return without_lock.frames_open() == READY


ways = {"everything": everything, "traced": traced, "threads": threads, "fork": fork, "subinterpreters": subinterpreters,
        "ends": ends, "timed": timed, "waits": waits, "unseen": unseen, "busy": lambda: busy(int(sys.argv[2]))}
sys.setrecursionlimit(5000)
if sys.argv[1] not in ("waits", "unseen") and not wait_for_check():
    everything()  # the public way, where the thread has the lock
    print("refused")
    sys.exit()
ways[sys.argv[1]]()
gc.collect()
over = True
print(f"{stacks} stacks, {frames} frames, {different} different", flush=True)
