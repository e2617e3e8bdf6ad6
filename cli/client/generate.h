// `incipit generate`: one prompt to a server, its answer to stdout as it is written.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunGenerate(std::span<const std::string_view> args);

}  // namespace incipit
