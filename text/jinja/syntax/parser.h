// Parses the source of a template, with the grammar of Jinja2. ParseTemplate() returns
// UNIMPLEMENTED for every unsupported tag, filter, method, function and literal of Jinja2. The
// error message names the line.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/template_limits.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

absl::StatusOr<Program> ParseTemplate(std::string_view source, const ChatTemplateLimits& limits);

}  // namespace incipit::jinja
