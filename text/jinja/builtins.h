// The filters, tests and globals of Jinja2, and the methods of Python's types, by name.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

class Heap;

// nullptr if there is none of this name. The function is null if this sandbox refuses it.
const NamedBuiltin* FindFilter(std::string_view name);
const NamedBuiltin* FindTest(std::string_view name);
// A method of the values of a kind.
const NamedBuiltin* FindMethod(Kind self, std::string_view name);

// Whether it would change a list or a dict, which the sandbox forbids.
bool IsMutatingMethod(Kind self, std::string_view name);
// Whether some type of Python has a method of this name, and no type has it here.
bool IsRefusedMethod(std::string_view name);
// Whether Jinja2's macros have an attribute of this name, which is not here.
bool IsMacroAttribute(std::string_view name);
// Whether Jinja2 has a global function of this name that this sandbox refuses.
bool IsRefusedFunction(std::string_view name);

using Builtins = std::span<const NamedBuiltin>;
Builtins StringFilters();
Builtins SequenceFilters();
Builtins SelectionFilters();
Builtins NumberFilters();
Builtins Tests();
Builtins StringMethods();
Builtins StringSearchMethods();
Builtins DictMethods();
Builtins ListMethods();

// range, dict, namespace, ...; made once per rendering.
std::map<std::string, Value, std::less<>> MakeGlobals(Heap& heap);

}  // namespace incipit::jinja
