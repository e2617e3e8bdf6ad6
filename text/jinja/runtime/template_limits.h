// What a chat template may use, so that no template and no request can stall or exhaust the server.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit {

// What a template may use before it is stopped with INVALID_ARGUMENT naming the limit.
struct ChatTemplateLimits {
  // Evaluated nodes, compared and copied elements, and KiBs of text made on the way.
  int64_t steps_max = 10'000'000;
  // Nested blocks and expressions in the source; nested calls of macros while it runs. Variables
  // may be nested twice as deep.
  int32_t depth_max = 100;
  size_t output_bytes_max = 16 << 20;   // and of any string on the way
  size_t memory_bytes_max = 256 << 20;  // all strings and containers alive at once
  size_t source_bytes_max = 1 << 20;
  int64_t range_length_max = 100'000;  // of one range(); as Jinja2's sandbox
};

}  // namespace incipit
