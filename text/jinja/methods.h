// The methods of Python's types.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

// A method of the values of a kind, which takes the value as positional[0]; nullptr if they have no
// such method. The function is null if Python has the method and this sandbox has not.
const NamedBuiltin* FindMethod(Kind self, std::string_view name);

// Whether it would change a list or a dict, which the sandbox forbids.
bool IsMutatingMethod(Kind self, std::string_view name);
// Whether every Python object, or this container, has this attribute with two underscores.
bool IsSpecialAttribute(std::string_view name);

std::span<const NamedBuiltin> StringMethods();
std::span<const NamedBuiltin> StringSearchMethods();
std::span<const NamedBuiltin> StringTestMethods();

}  // namespace incipit::jinja
