#include "server/http/append_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "text/unicode/utf8.h"

namespace incipit {
namespace {

bool IsPlain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

void AppendEscaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

void AppendJson(std::string_view text, std::string& out) {
  if (!IsUtf8(text)) {
    std::string repaired;
    Utf8Repair repair;
    repair.Push(text, repaired);
    repair.Flush(repaired);
    AppendJson(repaired, out);
    return;
  }
  out += '"';
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsPlain(text[i])) continue;
    out += text.substr(begin, i - begin);
    AppendEscaped(text[i], out);
    begin = i + 1;
  }
  out += text.substr(begin);
  out += '"';
}

void AppendJson(float value, std::string& out) {
  if (std::isnan(value)) value = 0;
  constexpr float kMax = std::numeric_limits<float>::max();
  fmt::format_to(std::back_inserter(out), "{:.9g}", std::clamp(value, -kMax, kMax));
}

void AppendJson(std::span<const TokenId> tokens, std::string& out) {
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", tokens[i]);
  }
  out += ']';
}

}  // namespace incipit
