// Reads the prompts that the server computes or loads before it is ready (flag --prewarm). The file
// has one JSON object in each line: {"text": "..."} or {"token_ids": [...]}, and optionally
// "tenant" and "salt".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"

namespace incipit {

// Maximum size of the file and of one line, in bytes.
inline constexpr size_t kPrewarmBytesMax = size_t{256} << 20;
inline constexpr size_t kPrewarmLineBytesMax = size_t{16} << 20;
// Maximum number of prompts in the file.
inline constexpr size_t kPrewarmPromptsMax = 10'000;

struct PrewarmPrompt {
  int32_t line = 0;    // number of the line in the file, from 1
  std::string tenant;  // a valid name; the default is kDefaultTenant
  std::string salt;
  std::variant<std::string, TokensDraft> prompt;  // not empty; token ids are not negative
};

// Returns the prompts in `text`, the contents of the file `name`, in the order of the lines. Lines
// that contain only spaces and tabs are skipped. Returns INVALID_ARGUMENT if a line is not a JSON
// object, or has an unknown key, a value of a wrong type, a tenant or salt that `limits` forbids,
// or both or neither of "text" and "token_ids". The error message begins with `name` and the number
// of the line. Also returns INVALID_ARGUMENT if `text` exceeds kPrewarmBytesMax,
// kPrewarmLineBytesMax or kPrewarmPromptsMax.
absl::StatusOr<std::vector<PrewarmPrompt>> ParsePrewarmPrompts(std::string_view text,
                                                               std::string_view name,
                                                               const RequestLimits& limits);

// Returns the prompts in the file `path`. Returns the errors of ReadTextFile and of
// ParsePrewarmPrompts.
absl::StatusOr<std::vector<PrewarmPrompt>> ReadPrewarmFile(const std::string& path,
                                                           const RequestLimits& limits);

}  // namespace incipit
