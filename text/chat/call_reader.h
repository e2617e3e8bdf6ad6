// Reads the text of tool calls byte by byte. Each format of tool calls has its own reader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/string_parameters.h"
#include "text/chat/tool_call.h"
#include "text/chat/tool_format.h"

namespace incipit {

// Reads the text of one or several tool calls, after the opening marker such as <tool_call>. The
// text arrives byte by byte.
class CallReader {
 public:
  enum class State : uint8_t {
    kReading,  // The text may be the beginning of a call.
    kCalls,    // A tool call is complete. Another tool call may follow without an opening marker.
    kDone,     // All tool calls after the opening marker are complete.
    kFailed,   // The text is not a call. The last byte was not read as part of a call.
  };

  virtual ~CallReader() = default;

  // Reads the next byte of the output. REQUIRES: each previous call of Read returned kReading or
  // kCalls.
  virtual State Read(char byte) = 0;

  // Called at the end of the output. If only the closing marker is missing, TakeCalls() then
  // returns the call.
  virtual void End() {}

  // Returns the complete tool calls that TakeCalls() has not returned before.
  std::vector<ToolCall> TakeCalls() { return std::exchange(calls_, {}); }

 protected:
  // Adds `calls` to the complete tool calls, and returns `success`. Returns kFailed if `calls` is
  // nullopt.
  State Add(std::optional<std::vector<ToolCall>> calls, State success);

 private:
  std::vector<ToolCall> calls_;
};

// The strings and bytes with which a tool call of one format can begin.
struct CallBegin {
  // String that begins a tool call anywhere in the text, such as <tool_call>; may be empty.
  // CallReader::Read gets the bytes after the marker.
  std::string_view marker;
  // Each of these bytes begins a tool call at the beginning of the text or after another call.
  // White space may precede the byte. CallReader::Read gets the byte too.
  std::string_view first_bytes;
  // Byte between two tool calls, or 0. The CallReader of the second call gets this byte first.
  char separator = 0;
};
CallBegin CallBeginOf(ToolFormat format);

// Returns a reader of tool calls in the format `format`. `strings` (parameters that are strings)
// may be null. REQUIRES: `format` is not kNone, and `strings` outlives the CallReader.
std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, const StringParameters* strings);

}  // namespace incipit
