# SPDX-License-Identifier: BSD-3-Clause
"""The one-line mutations that a file of C allows.

    operator   < becomes <=, + becomes -, ++ becomes --, | becomes &, ...
    condition  && becomes ||, == becomes !=, a negation is dropped, the condition of if or while is negated
    call       a statement that is one call is dropped
    order      a memory order becomes relaxed

Comments, strings and preprocessor lines are left alone. So are assertions: they check the code as tests do; and the
comparison in the lesser of two, and in what remains of one beyond another, which are the same where they are equal.
"""
import collections
import re

Mutation = collections.namedtuple("Mutation", "path line kind old new")

OPERATORS = [
    (r"(?<![<>=!+\-*/&|^%])<(?![<=])", "<="), (r"(?<!<)<=", "<"), (r"(?<![->=<])>(?![>=])", ">="), (r"(?<!>)>=", ">"),
    (r"(?<=[\w\])]) \+ (?=[\w(&*])", " - "), (r"(?<=[\w\])]) - (?=[\w(&*])", " + "),
    (r"(?<=[\w\])]) \* (?=[\w(])", " / "), (r"(?<=[\w\])]) / (?=[\w(])", " * "), (r"(?<=[\w\])]) % (?=[\w(])", " / "),
    (r"\+\+", "--"), (r"(?<!-)--(?!-)", "++"), (r"\+=", "-="), (r"-=", "+="), (r"\|=", "&="), (r"&=", "|="),
    (r"(?<=[\w\])]) \| (?=[\w(~])", " & "), (r"(?<=[\w\])]) & (?=[\w(~])", " | "), (r"<<(?!=)", ">>"), (r">>(?!=)", "<<"),
]
CONDITIONS = [(r"&&", "||"), (r"\|\|", "&&"), (r"==", "!="), (r"!=", "=="), (r"!(?=[\w(*])", "")]
ORDERS = [(r"memory_order_(acquire|release|acq_rel|seq_cst|consume)", "memory_order_relaxed")]
BRANCH = re.compile(r"\b(if|while) \((?=.*\)\s*\{?\s*$)")
CALL = re.compile(r"^(\s+)(\(void\))?\w[\w>.\-]*\(.*\);\s*$")
NO_CALL = re.compile(r"^\s*(return|if|while|for|switch|else|do|case|sizeof)\b")
ASSERTION = re.compile(r"\b(gm_assert|gm_lock_assert\w*|gm_pool_assert\w*|static_assert|_Static_assert|assert)\b")
# The lesser or greater of two, or their difference, which is the same if they are equal.
LESSER = re.compile(r"([\w.>\-\[\]]+) [<>]=? ([\w.>\-\[\]]+) \? (\1 : \2|\2 : \1|\1 - \2 : 0\b|0 : \2 - \1)")
HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def masked(text):
    """The same text with blanks in place of comments, strings and characters."""
    return HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def condition_end(code, start):
    """The place where the parenthesis before `start` is closed, or None."""
    depth = 1
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return None


def replaced(line, code, table, kind):
    lesser = LESSER.search(code)
    for pattern, new in table:
        for found in re.finditer(pattern, code):
            if lesser and lesser.start() < found.start() < lesser.end() and new in ("<", "<=", ">", ">="):
                continue
            yield kind, line[:found.start()] + new + line[found.end():]


def negated(line, code):
    for found in BRANCH.finditer(code):
        end = condition_end(code, found.end())
        if end is not None:
            yield "condition", line[:found.end()] + "!(" + line[found.end():end] + ")" + line[end:]


def dropped(line, code):
    found = CALL.match(code)
    if found and not NO_CALL.match(code) and condition_end(code, code.index("(", found.end(2) if found[2] else 0) + 1):
        yield "call", found[1] + ";"


def mutations(path, text):
    continued = False
    for number, (line, code) in enumerate(zip(text.split("\n"), masked(text).split("\n")), 1):
        skip = continued or code.lstrip().startswith("#")
        continued = skip and code.endswith("\\")
        if skip or ASSERTION.search(code) or not line.startswith("\t"):
            continue
        for kind, new in [*replaced(line, code, OPERATORS, "operator"), *replaced(line, code, CONDITIONS, "condition"),
                          *replaced(line, code, ORDERS, "order"), *negated(line, code), *dropped(line, code)]:
            yield Mutation(path, number, kind, line.strip(), new.strip()), new
