// Declares the reference backend, which computes every operation by the plain loops of
// kernels/reference/ops.h. The reference backend is slow. Conformance tests compare the results of
// all other backends with the results of the reference backend.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace incipit::reference {

std::unique_ptr<Backend> CreateBackend(size_t memory_limit_bytes);

}  // namespace incipit::reference
