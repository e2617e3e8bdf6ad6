// Reads the text of tool calls byte by byte, in each ToolFormat.
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

// Reads the text after the marker with which a tool call begins, such as <tool_call>. A CallReader
// gets the text byte by byte, so the result does not depend on the pieces in which text arrives.
class CallReader {
 public:
  enum class State : uint8_t {
    kReading,  // The text may be the beginning of a call.
    kCalls,    // A call is complete, and another call may follow without a new marker.
    kDone,     // The last call is complete.
    kFailed,   // The text is not a call. The caller must handle the latest byte as content.
  };

  virtual ~CallReader() = default;

  // Reads the next byte of the output. REQUIRES: the earlier calls returned kReading or kCalls.
  virtual State Read(char byte) = 0;

  // Ends the text. If the text is a call of which only the closing marker is missing, makes the
  // call available to TakeCalls().
  virtual void End() {}

  // Returns the complete calls that TakeCalls() has not yet returned.
  std::vector<ToolCall> TakeCalls() { return std::exchange(calls_, {}); }

 protected:
  // Adds `calls` to the complete calls and returns `success`. If `calls` has no value, returns
  // kFailed.
  State Add(std::optional<std::vector<ToolCall>> calls, State success);

 private:
  std::vector<ToolCall> calls_;
};

// The beginning of a tool call in the output text of a ToolFormat.
struct CallBegin {
  // String that begins a call at any position of the content, or an empty string. The CallReader
  // reads the text after the marker.
  std::string_view marker;
  // Bytes that begin a call at the beginning of the content and after a call, even after white
  // space. The CallReader also reads the byte itself.
  std::string_view first_bytes;
  // Byte that separates two calls, or 0. The CallReader of the second call also reads the
  // separator.
  char separator = 0;
};
CallBegin CallBeginOf(ToolFormat format);

// Returns a reader of calls in the format `format`. `strings` may be null. REQUIRES: `format` is
// not kNone, and `strings` outlives the CallReader.
std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, const StringParameters* strings);

}  // namespace incipit
