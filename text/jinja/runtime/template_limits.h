// Limits for a chat template, so that no template and no request can stall or exhaust the server.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit {

// Limits of one rendering. A template that exceeds a limit ends with INVALID_ARGUMENT, and the
// message names the limit.
struct ChatTemplateLimits {
  // Maximum number of steps: evaluated nodes, compared and copied elements, and KiB of created
  // text.
  int64_t steps_max = 10'000'000;
  // Maximum nesting of blocks and expressions in the source, and of macro calls during rendering.
  // The nesting of variables may be twice as deep.
  int32_t depth_max = 100;
  size_t output_bytes_max = 16 << 20;  // maximum size of the output and of each created string
  // Maximum memory of all strings and containers that exist at the same time.
  size_t memory_bytes_max = 256 << 20;
  size_t source_bytes_max = 1 << 20;  // maximum size of the source of a template
  // Maximum number of items of one range(), as in the sandbox of Jinja2.
  int64_t range_length_max = 100'000;
};

}  // namespace incipit
