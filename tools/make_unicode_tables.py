#!/usr/bin/env python3
"""Writes unicode_identifiers.cpp, unicode_properties.cpp and unicode_case.cpp in text/jinja: the
character properties and case mappings that Python's str methods use.

Run it in the root of the repository with the Python whose behaviour is wanted (3.11: Unicode 14). What it
writes is kept in the repository; the build does not run it.
"""

import unicodedata

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def toggles(predicate):
    """The code points at which membership flips, ascending; the first one turns it on."""
    points, inside = [], False
    for code_point in range(0x110001):
        member = code_point < 0x110000 and predicate(chr(code_point))
        if member != inside:
            points.append(code_point)
            inside = member
    return points


def mapping(convert, default):
    """Where `convert` differs from `default`: ranges (first, last, step, delta) of the one-to-one mappings,
    and the one-to-many ones."""
    singles, specials = [], []
    for code_point in CODE_POINTS:
        mapped = convert(chr(code_point))
        if mapped == default(chr(code_point)):
            continue
        if len(mapped) > 1:
            specials.append((code_point, [ord(c) for c in mapped]))
        else:
            singles.append((code_point, ord(mapped) - code_point))
    ranges = []
    for code_point, delta in singles:
        if ranges:
            first, last, step, previous = ranges[-1]
            gap = code_point - last
            if delta == previous and gap in (1, 2) and (first == last or gap == step):
                ranges[-1] = (first, code_point, gap, delta)
                continue
        ranges.append((code_point, code_point, 1, delta))
    return ranges, specials


def wrapped(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 99:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    lines.append(line)
    return "\n".join(lines)


def case_ignorable(c):
    return ("A" + c + "\u03a3").lower().endswith("\u03c2") and not (c + "\u03a3").lower().endswith("\u03c2")


PROPERTIES = {
    "kAlphabetic": str.isalpha,
    "kDecimal": str.isdecimal,
    "kDigit": str.isdigit,
    "kNumeric": str.isnumeric,
    "kLowercase": str.islower,
    "kUppercase": lambda c: unicodedata.category(c) != "Lt" and c.isupper(),
    "kTitlecase": lambda c: unicodedata.category(c) == "Lt",
    "kPrintable": str.isprintable,
    "kCaseIgnorable": case_ignorable,
    "kIdentifierStart": str.isidentifier,
    "kIdentifierContinue": lambda c: ("a" + c).isidentifier(),
}
PROPERTY_FILES = {
    "unicode_identifiers.cpp": ["kAlphabetic", "kIdentifierStart", "kIdentifierContinue"],
    "unicode_properties.cpp": [
        "kDecimal", "kDigit", "kNumeric", "kLowercase", "kUppercase", "kTitlecase", "kPrintable", "kCaseIgnorable",
    ],
}
MAPPINGS = {
    "Lower": (str.lower, lambda c: c),
    "Upper": (str.upper, lambda c: c),
    "TitleUnlikeUpper": (str.title, str.upper),
    "FoldUnlikeLower": (str.casefold, str.lower),
}


def write(path, body):
    head = [
        "// Written by tools/make_unicode_tables.py from Unicode %s." % unicodedata.unidata_version,
        '#include "text/jinja/unicode_tables.h"',
        "",
        "namespace incipit::jinja {",
        "// clang-format off",
    ]
    tail = ["// clang-format on", "}  // namespace incipit::jinja", ""]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(head + body + tail))


def array(type_name, name, items):
    lines = ["static constexpr %s %sData[] = {" % (type_name, name), wrapped(items), "};"]
    return lines + ["const std::span<const %s> %s(%sData);" % (type_name, name, name)]


def main():
    for path, names in PROPERTY_FILES.items():
        body = []
        for name in names:
            body += array("uint32_t", name, ["%d" % p for p in toggles(PROPERTIES[name])])
        write("text/jinja/" + path, body)
    body = []
    for name, (convert, default) in MAPPINGS.items():
        ranges, specials = mapping(convert, default)
        body += array("CaseRange", "kTo" + name, ["{%d,%d,%d,%d}" % r for r in ranges])
        items = ["{%d,{%s}}" % (c, ",".join(str(x) for x in m)) for c, m in specials]
        body += array("CaseSpecial", "kTo%sSpecial" % name, items)
    write("text/jinja/unicode_case.cpp", body)


main()
