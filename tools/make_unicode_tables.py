#!/usr/bin/env python3
"""Writes text/unicode/unicode_tables.cpp: the differences in Unicode data between the packaged libraries (utf8proc,
PCRE2) and the references that tokenizers and templates follow.

The references are PyPI's `tokenizers`, whose parts use different versions of Unicode, and the str methods of the
Python that runs this script. The script asks a reference and a library about every code point and writes the
differences as lists of exceptions.

    build/venv/bin/python tools/make_unicode_tables.py     # writes the file; tools/test_env.sh creates the venv
    python3 tools/make_unicode_tables.py --check           # compares the file with the computed tables

The check covers the tables of those references that are installed in the version that the file names. It exits with
77 if there are none.
"""
import argparse
import ctypes
import ctypes.util
import pathlib
import sys
import textwrap
import unicodedata
from typing import NamedTuple

try:
    import tokenizers
    from tokenizers import Regex, normalizers, pre_tokenizers
except ImportError:
    tokenizers = None

PATH = pathlib.Path(__file__).parent.parent / "text/unicode/unicode_tables.cpp"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CHUNKS = ["".join(map(chr, CODE_POINTS[i:i + 4096])) for i in range(0, len(CODE_POINTS), 4096)]
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf "
              "Cs Co").split()  # in the order of utf8proc and of category in categories.h
SCRIPTS = """
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali
Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian
Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret
Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian
Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul
Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A Linear_B Lisu
Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin
Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani
Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham
Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian
Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau
Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham
SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog
Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh
Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi
Zanabazar_Square""".split()
BINARY = ["Alphabetic", "Lowercase", "Uppercase", "White_Space", "Emoji", "Extended_Pictographic",
          "Ideographic"]


class Utf8proc:
    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
        self.lib.utf8proc_version.restype = ctypes.c_char_p
        self.version = self.lib.utf8proc_version().decode()
        self.categories = [CATEGORIES[self.lib.utf8proc_category(c)] for c in range(0x110000)]
        self.buffer = (ctypes.c_int32 * 32)()

    def decomposition(self, code_point, options):
        length = self.lib.utf8proc_decompose_char(code_point, self.buffer, 32, options, None)
        return "".join(map(chr, self.buffer[:length]))

    def map(self, name):
        convert = getattr(self.lib, f"utf8proc_to{name}")
        return {c: chr(convert(c)) for c in CODE_POINTS}

    def fold(self):
        return {c: self.decomposition(c, 1 << 10) for c in CODE_POINTS}


class Pcre2:
    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("pcre2-8"))
        for name in ("compile", "match_data_create", "get_ovector_pointer"):
            getattr(self.lib, f"pcre2_{name}_8").restype = ctypes.c_void_p
        self.lib.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
        version = ctypes.create_string_buffer(64)
        self.lib.pcre2_config_8(11, version)
        self.version = version.value.decode().split()[0]
        self.text = "".join(CHUNKS).encode()

    def property(self, name):
        """Returns the code points that have a property, or an empty set if this PCRE2 does not know the property."""
        error, offset = ctypes.c_int(), ctypes.c_size_t()
        pattern = rf"\p{{{name}}}+".encode()
        utf_ucp = 0x00080000 | 0x00020000
        code = self.lib.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), utf_ucp,
                                        ctypes.byref(error), ctypes.byref(offset), None)
        found = set()
        if not code:
            return found
        data = ctypes.c_void_p(self.lib.pcre2_match_data_create_8(1, None))
        position = 0
        while self.lib.pcre2_match_8(ctypes.c_void_p(code), self.text,
                                     ctypes.c_size_t(len(self.text)), ctypes.c_size_t(position),
                                     0x40000000, data, None) > 0:
            bounds = self.lib.pcre2_get_ovector_pointer_8(data)
            begin, position = bounds[0], bounds[1]
            found |= set(map(ord, self.text[begin:position].decode()))
        return found


class Table(NamedTuple):
    """Exceptions under one name: rows (first, last, value) in ascending order; values are C++ literals."""
    name: str
    comment: str
    rows: list


def runs(values, step=0):
    """Returns (first, last, value) for consecutive code points whose values are equal, or grow by `step`."""
    result = []
    for c in sorted(values):
        if result and result[-1][1] == c - 1 and values[c] == result[-1][2] + (c - result[-1][0]) * step:
            result[-1][1] = c
        else:
            result.append([c, c, values[c]])
    return result


def category_table(name, comment, categories, base):
    changed = {c: CATEGORIES.index(g) for c, g in categories.items() if g != base[c]}
    return Table(name, comment, runs(changed))


def set_table(name, comment, reference, base):
    return Table(name, comment, runs({c: int(c in reference) for c in reference ^ base}))


def mapping_table(name, comment, reference, base):
    """Returns a table of mappings. A value packs the characters to which the first code point maps, 20 bits each, the
    first character in the lowest bits."""
    def packed(text):
        return sum(ord(c) << 20 * i for i, c in enumerate(text))
    changed = {c: packed(text) for c, text in reference.items() if text != base[c]}

    def digits(value):
        return f"{value:X}" if value < 1 << 20 else f"{digits(value >> 20)}'{value & 0xFFFFF:05X}"
    return Table(name, comment, [(f, l, "0x" + digits(v)) for f, l, v in runs(changed, 1)])


def of(categories, *wanted):
    """Returns the code points whose category, or the category's first letter, is in `wanted`."""
    items = categories.items() if isinstance(categories, dict) else enumerate(categories)
    return {c for c, category in items if category in wanted or category[0] in wanted}


# Tables for templates, from Python's str.

def case_ignorable(c):
    return ("A" + c + "\u03a3").lower().endswith("\u03c2") and not (c + "\u03a3").lower().endswith("\u03c2")


def python_tables(proc):
    categories = {c: unicodedata.category(chr(c)) for c in range(0x110000)}

    def having(predicate):
        return {c for c in range(0x110000) if predicate(chr(c))}

    def mapped(convert):
        return {c: convert(chr(c)) for c in CODE_POINTS}

    # text/jinja/runtime/python_characters.cpp and text/unicode/case_mapping.cpp assume these equalities.
    assert having(str.isalpha) == of(categories, "L")
    assert having(str.isdecimal) == of(categories, "Nd")
    assert having(str.isprintable) == set(categories) - of(categories, "C", "Z") | {0x20}
    assert having(str.istitle) == having(lambda c: c.isupper() or categories[ord(c)] == "Lt")
    assert mapped(str.casefold) == proc.fold()
    uppercase = having(str.isupper) - of(categories, "Lt")
    return [
        category_table("kPythonCategories", "Characters with different general categories in Python and in the library utf8proc. The value is that of Python.", categories, proc.categories),
        set_table("kPythonDigit", "Characters for which str.isdigit() of Python is true but the general category is not Nd, or vice versa.", having(str.isdigit), of(categories, "Nd")),
        set_table("kPythonNumeric", "Characters for which str.isnumeric() of Python is true but the general category is not Nd, Nl or No, or vice versa.", having(str.isnumeric), of(categories, "N")),
        set_table("kPythonLowercase", "Characters for which str.islower() of Python is true but the general category is not Ll, or vice versa.", having(str.islower), of(categories, "Ll")),
        set_table("kPythonUppercase", "Characters for which str.isupper() of Python is true but the category is not Lu, or vice versa. Omits category Lt.", uppercase, of(categories, "Lu")),
        set_table("kPythonCaseIgnorable", "Characters with the property Case_Ignorable but outside the categories Mn, Me, Cf, Lm and Sk, or vice versa.",
                  having(case_ignorable), of(categories, "Mn", "Me", "Cf", "Lm", "Sk")),
        mapping_table("kPythonLower", "Characters for which str.lower() of Python and utf8proc have different results. The value is that of Python.", mapped(str.lower), proc.map("lower")),
        mapping_table("kPythonUpper", "Characters for which str.upper() of Python and utf8proc have different results. The value is that of Python.", mapped(str.upper), proc.map("upper")),
        mapping_table("kPythonTitle", "Characters for which str.title() of Python and utf8proc have different results. The value is that of Python.", mapped(str.title), proc.map("title")),
    ]


# Tables for tokenizers, from the reference tokenizer.

def reference_matches(pattern, chunks=CHUNKS):
    splitter = pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True)
    return {ord(c) for chunk in chunks for piece, _ in splitter.pre_tokenize_str(chunk) for c in piece}


def isolated(splitter):
    """Returns the code points that a pre-tokenizer splits into pieces of one character."""
    texts = ["a" + "a".join(chunk) + "a" for chunk in CHUNKS]
    return {ord(p) for text in texts for p, _ in splitter.pre_tokenize_str(text)
            if len(p) == 1 and p != "a"}


def reference_words():
    splitter = pre_tokenizers.Whitespace()
    texts = [" ".join(f"a{c}a" for c in chunk) for chunk in CHUNKS]
    return {ord(p[1]) for text in texts for p, _ in splitter.pre_tokenize_str(text)
            if len(p) == 3 and p[0] == p[2] == "a"}


def reference_categories():
    categories = {}
    for category in CATEGORIES:
        if category != "Cs":
            categories |= dict.fromkeys(reference_matches(rf"\p{{{category}}}"), category)
    return categories


def inert_in_normal_forms(proc, marks):
    """Returns the characters that are newer than the reference's normal forms, which leave them unchanged."""
    compatible = normalizers.NFKD()
    stable_compatible_decompose = 1 << 1 | 1 << 2 | 1 << 4
    inert = {c for c in CODE_POINTS if proc.decomposition(c, stable_compatible_decompose) != chr(c)
             and compatible.normalize_str(chr(c)) == chr(c)}
    return inert | (of(proc.categories, "M") - marks)


def tokenizer_tables(proc):
    base = proc.categories
    stripped, lower = normalizers.StripAccents(), normalizers.Lowercase()
    marks = {c for c in CODE_POINTS if not stripped.normalize_str(chr(c))}
    return [
        category_table("kRegexCategories", "Characters with another general category in utf8proc than in the regular expressions of Hugging Face tokenizers.", reference_categories(), base),
        set_table("kRustNumeric", "Characters for which char::is_numeric() of Rust is true but the category in utf8proc is not N*, or vice versa.",
                  isolated(pre_tokenizers.Digits(individual_digits=True)), of(base, "N")),
        set_table("kRustPunctuation", "Characters that are punctuation in Hugging Face tokenizers but not in the categories P* of utf8proc, or vice versa.",
                  isolated(pre_tokenizers.Punctuation("isolated")), of(base, "P")),
        set_table("kRustWord", r"Characters that match \w in Rust but are outside the categories L*, M*, Nd, Nl and Pc of utf8proc, or vice versa.",
                  reference_words(), of(base, "L", "M", "Nd", "Nl", "Pc")),
        set_table("kRustMark", "Characters that are combining marks in Hugging Face tokenizers but not in category M* of utf8proc, or vice versa.", marks, of(base, "M")),
        set_table("kInertInNormalForms", "Characters that Hugging Face tokenizers do not normalize, because the Unicode version of their normal forms is older.", inert_in_normal_forms(proc, marks), set()),
        mapping_table("kRustLower", "Characters for which char::to_lowercase() of Rust and utf8proc have different results. The value is that of Rust.",
                      {c: lower.normalize_str(chr(c)) for c in CODE_POINTS}, proc.map("lower")),
    ]


def property_tables(pcre2):
    """Returns the scripts and binary properties of regular expressions for which PCRE2 differs."""
    tables, used = [], [chunk for chunk in CHUNKS if not 0x40000 <= ord(chunk[0]) < 0xDF000]
    for name in SCRIPTS + BINARY:
        base = pcre2.property(name if name in BINARY else f"sc:{name}")
        table = set_table(name.replace("_", "").lower(), "", reference_matches(rf"\p{{{name}}}", used), base)
        tables += [table] if table.rows else []
    return tables


# The output file.

def array(kind, name, comment, items):
    joined = " ".join("{" + item.replace(" ", "~") + "}," for item in items)
    body = textwrap.fill(joined, 100, initial_indent="    ", subsequent_indent="    ",
                         break_long_words=False, break_on_hyphens=False).replace("~", " ")
    return f"// {comment}\nstatic constexpr {kind} {name}Data[] = {{\n{body}\n}};\n"


def rows_of(table):
    return [f"0x{first:X}, 0x{last:X}, {value}" for first, last, value in table.rows]


def rendered(table):
    return (array("UnicodeException", table.name, table.comment, rows_of(table)) +
            f"const UnicodeExceptions {table.name}({table.name}Data);\n")


def rendered_properties(tables):
    rows, names = [], []
    for table in tables:
        names.append(f'"{table.name}", {{kPropertyData + {len(rows)}, {len(table.rows)}}}')
        rows += rows_of(table)
    return (array("UnicodeException", "kProperty", "Characters for which PCRE2 and the regular expressions of Hugging Face tokenizers differ in a script or property.", rows) +
            array("NamedExceptions", "kRegexProperties", "Names of scripts and properties, each with the first of its elements in kPropertyData and the number of its elements.", names) +
            "const std::span<const NamedExceptions> kRegexProperties(kRegexPropertiesData);\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    proc, pcre2 = Utf8proc(), Pcre2()
    sources = {"templates": f"// Templates: utf8proc {proc.version}, Python with Unicode "
                            f"{unicodedata.unidata_version}.\n"}
    if tokenizers:
        sources["tokenizers"] = (f"// Tokenizers: utf8proc {proc.version}, PCRE2 {pcre2.version}, "
                                 f"tokenizers {tokenizers.__version__}.\n")
    elif not is_check:
        sys.exit("the Python package tokenizers is not installed")
    written = PATH.read_text() if is_check else ""
    if is_check:
        sources = {name: line for name, line in sources.items() if line in written}
        if not sources:
            print("skipped: no reference is installed in the version that the file names")
            sys.exit(77)
    parts = []
    if "templates" in sources:
        parts += map(rendered, python_tables(proc))
    if "tokenizers" in sources:
        parts += map(rendered, tokenizer_tables(proc))
        parts.append(rendered_properties(property_tables(pcre2)))
    if is_check:
        stale = [part for part in parts if part not in written]
        print("checked: the tables of " + " and ".join(sources), *stale, sep="\n")
        sys.exit(1 if stale else 0)
    PATH.write_text("// Written by tools/make_unicode_tables.py; run it again instead of editing this file.\n" +
                    "".join(sources.values()) +
                    '// clang-format off\n#include "text/unicode/unicode_tables.h"\n\nnamespace incipit {\n\n' +
                    "\n".join(parts) + "\n}  // namespace incipit\n")


if __name__ == "__main__":
    main()
