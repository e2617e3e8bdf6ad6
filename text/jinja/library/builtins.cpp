#include "text/jinja/library/builtins.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {

namespace {

constexpr NamedBuiltin kRefusedFilters[] = {
    {"forceescape"}, {"pprint"}, {"random"},   {"striptags"},
    {"urlencode"},   {"urlize"}, {"wordwrap"}, {"xmlattr"},
};
// Methods of Python's str that this template interpreter does not support.
constexpr NamedBuiltin kRefusedOfString[] = {
    {"casefold"},    {"center"},  {"encode"},    {"expandtabs"},   {"format"},
    {"format_map"},  {"isascii"}, {"isdecimal"}, {"isidentifier"}, {"isnumeric"},
    {"isprintable"}, {"istitle"}, {"ljust"},     {"maketrans"},    {"partition"},
    {"rfind"},       {"rindex"},  {"rjust"},     {"rpartition"},   {"swapcase"},
    {"translate"},   {"zfill"},
};
constexpr NamedBuiltin kRefusedOfList[] = {{"copy"}};
constexpr NamedBuiltin kRefusedOfDict[] = {{"copy"}, {"fromkeys"}};
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
  return FindIn({StringFilters(), StringMethodFilters(), SequenceFilters(), SelectionFilters(),
                 NumberFilters(), kRefusedFilters},
                name);
}

const NamedBuiltin* FindTest(std::string_view name) { return FindIn({Tests()}, name); }

const NamedBuiltin* FindFunction(std::string_view name) { return FindIn({Functions()}, name); }

const NamedBuiltin* FindMethod(Kind self, std::string_view name) {
  switch (self) {
    case Kind::kString:
      return FindIn({StringMethods(), kRefusedOfString}, name);
    case Kind::kDict:
      return FindIn({DictMethods(), kRefusedOfDict}, name);
    case Kind::kList:
      return FindIn({ListMethods(), kRefusedOfList}, name);
    case Kind::kTuple:
      return FindIn({ListMethods()}, name);
    case Kind::kRange:
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
  // Jinja2 has the method loop.changed(), which this template interpreter does not support.
  if (name == "changed") return true;
  return FindIn({kRefusedOfString, kRefusedOfDict, kRefusedOfNumber, kRefusedOfIterator}, name) !=
             nullptr &&
         std::ranges::find(kNotCalled, name) == std::end(kNotCalled);
}

bool IsMacroAttribute(std::string_view name) {
  constexpr std::string_view kNames[] = {"arguments", "caller", "catch_kwargs", "catch_varargs",
                                         "name"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

Result NamedBuiltin::Call(Interpreter& in, Arguments& arguments) const {
  if (function == nullptr) return Unimplemented("'{}' is not supported", name);
  if (!parameters[0].empty()) INCIPIT_RETURN_IF_ERROR(arguments.Bind(*this));
  return function(in, arguments);
}

absl::Status Arguments::Bind(const NamedBuiltin& builtin) {
  builtin_ = &builtin;
  const auto begin = builtin.parameters.begin();
  const auto end = std::find(begin, builtin.parameters.end(), std::string_view());
  const size_t num_given = positional.size(), num_parameters = static_cast<size_t>(end - begin);
  if (num_given > num_parameters) {
    return InvalidArgument("{}() takes at most {} arguments ({} given)", builtin.name,
                           num_parameters, num_given);
  }
  positional.resize(num_parameters);
  for (auto& [name, value] : keyword) {
    const auto it = std::find(begin + builtin.num_positional_only, end, name.bytes());
    if (it == end) {
      return InvalidArgument("{}() got an unexpected keyword argument '{}'", builtin.name,
                             name.bytes());
    }
    const size_t index = static_cast<size_t>(it - begin);
    if (index < num_given) {
      return InvalidArgument("{}() got multiple values for argument '{}'", builtin.name,
                             name.bytes());
    }
    positional[index] = std::move(value);
  }
  for (size_t i = 0; i < builtin.num_required; ++i) {
    if (!Has(i)) {
      return InvalidArgument("{}() is missing the argument '{}'", builtin.name,
                             builtin.parameters[i]);
    }
  }
  return absl::OkStatus();
}

Value Arguments::TakeKeyword(std::string_view name) {
  const auto it = std::find_if(keyword.begin(), keyword.end(),
                               [&](const auto& entry) { return entry.first.bytes() == name; });
  if (it == keyword.end()) return Value();
  Value value = std::move(it->second);
  keyword.erase(it);
  return value;
}

absl::Status Arguments::RefuseKeywords(std::string_view function) const {
  if (keyword.empty()) return absl::OkStatus();
  return InvalidArgument("{}() takes no keyword argument '{}'", function,
                         keyword.front().first.bytes());
}

absl::StatusOr<bool> Arguments::Truth(Interpreter& in, size_t index) const {
  if (!Has(index)) return false;
  return IsTrue(in, positional[index]);
}

absl::StatusOr<Int> Arguments::Index(size_t index, Int otherwise) const {
  if (!Has(index)) return otherwise;
  return ToIndex(positional[index], builtin_->parameters[index]);
}

Result Arguments::String(size_t index) const {
  const Value& value = positional[index];
  if (value.is_string()) return value;
  return InvalidArgument("{}() argument '{}' must be a string, not '{}'", builtin_->name,
                         builtin_->parameters[index], TypeName(value));
}

}  // namespace incipit::jinja
