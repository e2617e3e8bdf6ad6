#include "text/jinja/builtins.h"

#include <algorithm>

namespace incipit::jinja {
namespace {

constexpr NamedBuiltin kRefusedFilters[] = {
    {"forceescape"}, {"pprint"}, {"random"},   {"striptags"},
    {"urlencode"},   {"urlize"}, {"wordwrap"}, {"xmlattr"},
};
// Attributes of Python's types that are not here.
constexpr NamedBuiltin kRefusedOfString[] = {
    {"casefold"}, {"encode"},    {"expandtabs"}, {"format_map"}, {"isidentifier"},
    {"istitle"},  {"maketrans"}, {"swapcase"},   {"translate"},
};
constexpr NamedBuiltin kRefusedOfDict[] = {{"fromkeys"}};
constexpr NamedBuiltin kRefusedOfNumber[] = {
    {"as_integer_ratio"}, {"bit_count"}, {"bit_length"}, {"conjugate"}, {"denominator"},
    {"from_bytes"},       {"fromhex"},   {"hex"},        {"imag"},      {"is_integer"},
    {"numerator"},        {"real"},      {"to_bytes"},
};
constexpr NamedBuiltin kRefusedOfRange[] = {{"start"}, {"step"}, {"stop"}};
constexpr NamedBuiltin kRefusedOfIterator[] = {{"close"}, {"send"}, {"throw"}};

const NamedBuiltin* FindIn(std::initializer_list<Builtins> tables, std::string_view name) {
  for (const Builtins table : tables) {
    const auto it = std::ranges::find(table, name, &NamedBuiltin::name);
    if (it != table.end()) return &*it;
  }
  return nullptr;
}

}  // namespace

const NamedBuiltin* FindFilter(std::string_view name) {
  return FindIn(
      {StringFilters(), SequenceFilters(), SelectionFilters(), NumberFilters(), kRefusedFilters},
      name);
}

const NamedBuiltin* FindTest(std::string_view name) { return FindIn({Tests()}, name); }

const NamedBuiltin* FindMethod(Kind self, std::string_view name) {
  switch (self) {
    case Kind::kString:
      return FindIn({StringMethods(), StringSearchMethods(), kRefusedOfString}, name);
    case Kind::kDict:
      return FindIn({DictMethods(), kRefusedOfDict}, name);
    case Kind::kList:
    case Kind::kTuple:
      if (self == Kind::kTuple && name == "copy") return nullptr;
      return FindIn({ListMethods()}, name);
    case Kind::kRange:
      if (name == "copy") return nullptr;
      return FindIn({ListMethods(), kRefusedOfRange}, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return FindIn({kRefusedOfNumber}, name);
    case Kind::kIterator:
      return FindIn({kRefusedOfIterator}, name);
    default:
      return nullptr;
  }
}

bool IsMutatingMethod(Kind self, std::string_view name) {
  constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kOfList[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};
  if (self == Kind::kDict) return std::ranges::find(kOfDict, name) != std::end(kOfDict);
  return self == Kind::kList && std::ranges::find(kOfList, name) != std::end(kOfList);
}

bool IsRefusedMethod(std::string_view name) {
  constexpr std::string_view kNotCalled[] = {"denominator", "imag", "numerator", "real"};
  return FindIn({kRefusedOfString, kRefusedOfDict, kRefusedOfNumber, kRefusedOfIterator}, name) !=
             nullptr &&
         std::ranges::find(kNotCalled, name) == std::end(kNotCalled);
}

bool IsMacroAttribute(std::string_view name) {
  constexpr std::string_view kNames[] = {"arguments", "caller", "catch_kwargs", "catch_varargs",
                                         "name"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool IsRefusedFunction(std::string_view name) {
  return name == "cycler" || name == "joiner" || name == "lipsum";
}

}  // namespace incipit::jinja
