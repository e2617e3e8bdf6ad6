// A Backend that computes every operation as its definition (kernels/reference/ops.h). Slow; the
// oracle of the conformance suite, and what a fast backend's doubtful answer is compared with.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace incipit::reference {

std::unique_ptr<Backend> CreateBackend(size_t memory_limit_bytes);

}  // namespace incipit::reference
