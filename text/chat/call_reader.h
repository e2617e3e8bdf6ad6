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
    kReading,  // The bytes that were read may be the beginning of a tool call.
    kCalls,    // A tool call is complete. Another tool call may follow without an opening marker.
    kDone,     // All tool calls after the opening marker are complete.
    // The bytes after the last complete tool call are ordinary text. The caller must parse the last
    // of these bytes again, because this byte may begin another marker.
    kFailed,
  };

  virtual ~CallReader() = default;

  // Reads the next byte of the output. REQUIRES: all earlier results of Read() were kReading or
  // kCalls.
  virtual State Read(char byte) = 0;

  // Informs the reader that the output has ended. The reader then accepts a tool call without a
  // closing marker, and TakeCalls() returns this tool call.
  virtual void End() {}

  // Returns the complete tool calls that no earlier TakeCalls() has returned.
  std::vector<ToolCall> TakeCalls() { return std::exchange(calls_, {}); }

 protected:
  // If `calls` has a value, appends its tool calls to the list of complete tool calls, and returns
  // `success`. If `calls` is nullopt, returns kFailed.
  State Add(std::optional<std::vector<ToolCall>> calls, State success);

 private:
  std::vector<ToolCall> calls_;
};

// The beginning of a tool call in one format: a marker such as <tool_call>, or a byte such as '{'.
struct CallBegin {
  // Marker (string) before a tool call, such as <tool_call>; may be empty. CallReader::Read() gets
  // only the bytes after the marker.
  std::string_view marker;
  // Each of these bytes, such as '{', can begin a tool call without a marker. White space may
  // precede the byte. CallReader::Read() also gets this byte.
  std::string_view first_bytes;
  // Byte between two tool calls, such as ';'; 0 if the format has none. The CallReader of the
  // second tool call gets this byte first.
  char separator = 0;
};
CallBegin CallBeginOf(ToolFormat format);

// Returns a new reader of tool calls in the format `format`. `strings`, the set of parameters that
// are strings, may be null. REQUIRES: `format` is not kNone, and `strings` outlives the reader.
std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, const StringParameters* strings);

}  // namespace incipit
