#!/usr/bin/env python3
"""Writes text/unicode/unicode_tables.cpp: what the reference tokenizer knows of Unicode and the
packaged libraries do not, or know differently.

The reference (PyPI `tokenizers`) takes each property from another library, and each of those has
another version of Unicode. This script asks the reference about every code point, asks utf8proc and
PCRE2 the same, and writes the differences. Run it in an environment that has `tokenizers`:
    python tools/make_tokenizer_unicode_tables.py > text/unicode/unicode_tables.cpp
"""
import ctypes
import ctypes.util
import sys
import textwrap

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CHUNKS = [CODE_POINTS[i:i + 4096] for i in range(0, len(CODE_POINTS), 4096)]
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf "
              "Cs Co").split()  # in utf8proc's order
ASCII_SYMBOLS = set(map(ord, "$+<=>^`|~"))  # which the reference counts as punctuation
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


class Pcre2:
    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("pcre2-8"))
        for name in ("compile", "match_data_create", "get_ovector_pointer"):
            getattr(self.lib, f"pcre2_{name}_8").restype = ctypes.c_void_p
        self.lib.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
        self.text = "".join(map(chr, CODE_POINTS)).encode()

    def property(self, name):
        """The code points that have a property; empty if this PCRE2 does not know it."""
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


def reference_matches(pattern):
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for chunk in CHUNKS
            for piece, _ in splitter.pre_tokenize_str("".join(map(chr, chunk))) for c in piece}


def isolated(splitter):
    """The code points that a pre-tokenizer makes a piece of their own."""
    texts = ["a" + "a".join(map(chr, chunk)) + "a" for chunk in CHUNKS]
    return {ord(p) for text in texts for p, _ in splitter.pre_tokenize_str(text)
            if len(p) == 1 and p != "a"}


def reference_words():
    splitter = pre_tokenizers.Whitespace()
    texts = [" ".join(f"a{chr(c)}a" for c in chunk) for chunk in CHUNKS]
    return {ord(p[1]) for text in texts for p, _ in splitter.pre_tokenize_str(text)
            if len(p) == 3 and p[0] == p[2] == "a"}


def ranges(code_points):
    result = []
    for c in sorted(code_points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def write_array(kind, name, comment, items):
    print(f"\n// {comment}\nconstexpr {kind} {name}[] = {{")
    joined = " ".join(f"{{{item}}},".replace(" ", "~") for item in items)
    print(textwrap.indent(textwrap.fill(joined, 96, break_long_words=False,
                                        break_on_hyphens=False), "    ").replace("~", " "))
    print("};")


def write_changes(name, comment, reference, base):
    changed = [(f, l, "true") for f, l in ranges(reference - base)]
    changed += [(f, l, "false") for f, l in ranges(base - reference)]
    write_array("CodePointFlag", name, comment,
                [f"0x{f:X}, 0x{l:X}, {value}" for f, l, value in sorted(changed)])


def write_categories(proc_category):
    reference = {}
    for category in CATEGORIES:
        if category != "Cs":
            reference |= dict.fromkeys(reference_matches(rf"\p{{{category}}}"), category)
    changes = []
    for c in CODE_POINTS:
        if reference[c] != CATEGORIES[proc_category[c]]:
            if changes and changes[-1][1] == c - 1 and changes[-1][2] == reference[c]:
                changes[-1][1] = c
            else:
                changes.append([c, c, reference[c]])
    write_array("CategoryChange", "kCategoryChanges", "General categories, of expressions.",
                [f"0x{f:X}, 0x{l:X}, {CATEGORIES.index(g)}" for f, l, g in changes])


def write_lowercase(proc):
    items = []
    normalizer = normalizers.Lowercase()
    for c in CODE_POINTS:
        lower = normalizer.normalize_str(chr(c))
        if lower != chr(proc.utf8proc_tolower(c)) and len(lower) == 1:
            offset = ord(lower) - c
            if items and items[-1][1] == c - 1 and items[-1][2] == offset:
                items[-1][1] = c
            else:
                items.append([c, c, offset])
    write_array("CaseOffset", "kLowercaseChanges", "Lower case, as an offset from upper case.",
                [f"0x{f:X}, 0x{l:X}, {offset}" for f, l, offset in items])


def write_inert(proc, marks, proc_marks):
    """Characters that are newer than the reference's normal forms, which leave them alone."""
    inert = set(proc_marks - marks)
    compatible = normalizers.NFKD()
    for c in CODE_POINTS:
        buffer = (ctypes.c_int32 * 32)()
        length = proc.utf8proc_decompose_char(c, buffer, 32, 1 << 1 | 1 << 2 | 1 << 4, None)
        if list(buffer[:length]) != [c] and compatible.normalize_str(chr(c)) == chr(c):
            inert.add(c)
    write_array("CodePointRange", "kInertInNormalForms", "Newer than the normal forms.",
                [f"0x{f:X}, 0x{l:X}" for f, l in ranges(inert)])


def write_properties(pcre2):
    """Scripts and binary properties of expressions, where PCRE2 differs."""
    changes = []
    for name in SCRIPTS + BINARY:
        base = pcre2.property(name if name in BINARY else f"sc:{name}")
        reference = reference_matches(rf"\p{{{name}}}")
        for values, flag in ((reference - base, "true"), (base - reference, "false")):
            changes += [f'"{name.replace("_", "").lower()}", 0x{f:X}, 0x{l:X}, {flag}'
                        for f, l in ranges(values)]
    write_array("PropertyChange", "kPropertyChanges",
                "Scripts and other properties of expressions.", changes)


def main():
    proc = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
    category = [proc.utf8proc_category(c) for c in range(0x110000)]

    def of(*letters):
        return {c for c in CODE_POINTS if CATEGORIES[category[c]][0] in letters
                or CATEGORIES[category[c]] in letters}

    proc.utf8proc_version.restype = ctypes.c_char_p
    print("// Written by tools/make_tokenizer_unicode_tables.py, from tokenizers "
          f"{tokenizers.__version__} and utf8proc {proc.utf8proc_version().decode()}.\n"
          "// clang-format off\n"
          '#include "text/unicode/unicode_tables.h"\n\nnamespace incipit {\nnamespace {')
    write_categories(category)
    write_changes("kNumericChanges", "Rust's is_numeric, beside N.",
                  isolated(pre_tokenizers.Digits(individual_digits=True)), of("N"))
    write_changes("kPunctuationChanges", "Punctuation, beside P and ASCII symbols.",
                  isolated(pre_tokenizers.Punctuation("isolated")), of("P") | ASCII_SYMBOLS)
    write_changes("kWordChanges", r"\w of Rust's expressions, beside L, M, Nd, Nl and Pc.",
                  reference_words(), of("L", "M", "Nd", "Nl", "Pc"))
    stripped = normalizers.StripAccents()
    marks = {c for c in CODE_POINTS if not stripped.normalize_str(chr(c))}
    write_changes("kMarkChanges", "Combining marks, beside M.", marks, of("M"))
    write_inert(proc, marks, of("M"))
    write_lowercase(proc)
    write_properties(Pcre2())
    print("\n}  // namespace\n")
    for kind, name in (("CategoryChange", "CategoryChanges"), ("CodePointFlag", "NumericChanges"),
                       ("CodePointFlag", "PunctuationChanges"), ("CodePointFlag", "WordChanges"),
                       ("CodePointFlag", "MarkChanges"), ("CodePointRange", "InertInNormalForms"),
                       ("CaseOffset", "LowercaseChanges"), ("PropertyChange", "PropertyChanges")):
        print(f"std::span<const {kind}> {name}() {{ return k{name}; }}")
    print("\n}  // namespace incipit")


if __name__ == "__main__":
    sys.exit(main())
