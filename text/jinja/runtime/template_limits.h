// Limits for a chat template, so that no template and no request can block the server or exhaust
// its memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit {

// Limits for one chat template. If a template exceeds a limit, parsing or rendering returns
// INVALID_ARGUMENT.
struct ChatTemplateLimits {
  // Maximum number of steps (units of work) of one rendering. One step is one evaluated node of the
  // template, one compared or copied element, or one KiB of created text.
  int64_t steps_max = 10'000'000;
  // Maximum nesting depth of blocks and expressions in a template, and of macro calls during
  // rendering. The JSON variables of a request may be nested twice as deep.
  int32_t depth_max = 100;
  size_t output_bytes_max = 16 << 20;  // maximum size of the output and of each string, in bytes
  // Maximum size, in bytes, of all strings and containers that exist at the same time.
  size_t memory_bytes_max = 256 << 20;
  size_t source_bytes_max = 1 << 20;  // maximum size of the source of a template, in bytes
  // Maximum number of items of one range(...) in a template, as in the sandbox of Jinja2.
  int64_t range_length_max = 100'000;
};

}  // namespace incipit
