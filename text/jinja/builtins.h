// The filters, tests and globals of Jinja2, and the methods of Python's types, by name.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

class Heap;

struct NamedBuiltin {
  std::string_view name;
  Builtin function;
};

// nullptr if there is none of this name.
Builtin FindFilter(std::string_view name);
Builtin FindTest(std::string_view name);
// Whether Jinja2 has a filter of this name that this sandbox refuses.
bool IsRefusedFilter(std::string_view name);

std::span<const NamedBuiltin> StringFilters();
std::span<const NamedBuiltin> SequenceFilters();
std::span<const NamedBuiltin> SelectionFilters();
std::span<const NamedBuiltin> NumberFilters();

// range, dict, namespace, ...; made once per rendering.
std::map<std::string, Value, std::less<>> MakeGlobals(Heap& heap);

}  // namespace incipit::jinja
