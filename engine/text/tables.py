#!/usr/bin/env python3
"""Writes classes.h and composition.h from the Unicode character database that Python carries.

    python3 engine/text/tables.py

Only needed to move to another version of Unicode; the tables are checked in.
"""
import os
import unicodedata as ucd

HERE = os.path.dirname(os.path.abspath(__file__))
END = 0x110000


def runs(holds):
    """Flat list first, last, first, last, ... of the code points that hold."""
    flat, first = [], None
    for c in range(END + 1):
        inside = c < END and holds(c)
        if inside and first is None:
            first = c
        elif not inside and first is not None:
            flat += [first, c - 1]
            first = None
    return flat


def lower_runs():
    """Flat list first, last, step, shift: every step-th code point from first to last has its small form at + shift."""
    pairs = [(c, ord(chr(c).lower())) for c in range(END) if len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)]
    flat, at = [], 0
    while at < len(pairs):
        first, small = pairs[at]
        best, best_step = 1, 1
        for step in (1, 2):
            n = 1
            while at + n < len(pairs) and pairs[at + n] == (first + step * n, small + step * n):
                n += 1
            if n > best:
                best, best_step = n, step
        flat += [first, first + best_step * (best - 1), best_step, small - first]
        at += best
    return flat


def combining_runs():
    """Flat list first, last, class."""
    flat = []
    for c in range(END):
        k = ucd.combining(chr(c))
        if not k:
            continue
        if flat and flat[-2] == c - 1 and flat[-1] == k:
            flat[-2] = c
        else:
            flat += [c, c, k]
    return flat


def decompositions():
    """Flat lists code point, first, second: of those that come together again, and of those that stay apart."""
    pairs, apart = [], []
    for c in range(END):
        text = ucd.decomposition(chr(c))
        if not text or text[0] == "<":
            continue
        parts = [int(x, 16) for x in text.split()]
        whole = len(parts) == 2 and ucd.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c)
        (pairs if whole else apart).append([c] + (parts + [0])[:2])
    return sum(pairs, []), sum(apart, [])


def table(name, comment, numbers, kind="uint32_t"):
    out, line = ["/* %s */" % comment, "static const %s %s[] = {" % (kind, name)], "   "
    for n in numbers:
        word = " %s," % (str(n) if n < 1000 else hex(n))
        if len(line) + len(word) > 118:
            out.append(line)
            line = "   "
        line += word
    return "\n".join(out + [line, "};", ""])


def write(name, about, guard, *tables):
    with open(os.path.join(HERE, name), "w") as f:
        f.write("/* %s\n * Made by tables.py from Unicode %s: do not edit. */\n" % (about, ucd.unidata_version))
        f.write("#ifndef %s\n#define %s\n\n#include <stdint.h>\n\n" % (guard, guard))
        f.write("\n".join(tables))
        f.write("\n#endif\n")


write("classes.h", "Letters, numbers and small letters, for unicode.c alone.", "VT_TEXT_CLASSES_H",
      table("letters", "general category L: first, last", runs(lambda c: ucd.category(chr(c))[0] == "L")),
      table("numbers", "general category N: first, last", runs(lambda c: ucd.category(chr(c))[0] == "N")),
      table("smaller", "first, last, step, shift: every step-th one has its small form at + shift", lower_runs(),
            "int32_t"))
whole, apart = decompositions()
write("composition.h", "Canonical composition, for composition.c alone.", "VT_TEXT_COMPOSITION_H",
      table("combining", "canonical combining class: first, last, class", combining_runs()),
      table("whole", "code point, the two that it is made of and that come together again", whole),
      table("apart", "code point, the one or two (0 = one) that it becomes and stays", apart))
