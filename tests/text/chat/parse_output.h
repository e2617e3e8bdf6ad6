// Parses output text in tests, as a whole and in pieces.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/output_parser.h"

namespace incipit {

inline void PrintTo(const ToolCall& call, std::ostream* out) {
  *out << call.name << call.arguments_json;
}

inline void PrintTo(const ParsedText& text, std::ostream* out) {
  *out << "reasoning {" << text.reasoning << "} content {" << text.content << "}";
  for (const ToolCall& call : text.calls) PrintTo(call, &(*out << " call "));
}

struct ParserOptions {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  bool begins_in_reasoning = false;
  bool has_tools = true;
  const StringParameters* strings = nullptr;
};

inline OutputParser MakeParser(const ParserOptions& options) {
  return OutputParser(options.tools, options.reasoning, options.begins_in_reasoning,
                      options.has_tools, options.strings);
}

inline void Append(ParsedText piece, ParsedText& whole) {
  whole.reasoning += piece.reasoning;
  whole.content += piece.content;
  whole.calls.insert(whole.calls.end(), piece.calls.begin(), piece.calls.end());
}

// Parses an output that arrives in `pieces`. Returns the concatenated results of all pieces.
inline ParsedText ParsePieces(const ParserOptions& options,
                              std::span<const std::string_view> pieces) {
  OutputParser parser = MakeParser(options);
  ParsedText whole;
  for (const std::string_view piece : pieces) Append(parser.Push(piece), whole);
  Append(parser.Finish(), whole);
  return whole;
}

inline ParsedText ParseWhole(const ParserOptions& options, std::string_view text) {
  return ParsePieces(options, std::vector<std::string_view>{text});
}

}  // namespace incipit
