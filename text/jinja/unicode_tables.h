// The data behind IsIdentifierStart and IsIdentifierContinue of unicode.h.
#pragma once

#include <cstdint>
#include <span>

namespace incipit::jinja {

// Code points at which membership flips, ascending; the first one turns it on.
extern const std::span<const uint32_t> kAlphabetic, kIdentifierStart, kIdentifierContinue;

}  // namespace incipit::jinja
