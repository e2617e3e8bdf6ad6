// A template's source to nodes, by Jinja2's grammar. What Jinja2 has and this sandbox refuses
// (tags, filters, methods, functions and literals) is UNIMPLEMENTED, naming line and construct.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/template_limits.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

absl::StatusOr<Program> ParseTemplate(std::string_view source, const ChatTemplateLimits& limits);

}  // namespace incipit::jinja
