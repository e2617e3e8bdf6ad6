// Names the instruction sets for which the inner loops of the CPU backend are compiled.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/enum_names.h"

namespace incipit {

enum class CpuIsa : uint8_t { kAmx, kAvx512Bf16, kAvx512Vnni, kAvx512, kAvx2, kPortable };

// Names of the instruction sets. Each instruction set includes all instruction sets that follow it
// in this list.
inline constexpr EnumName<CpuIsa> kCpuIsaNames[] = {{CpuIsa::kAmx, "amx"},
                                                    {CpuIsa::kAvx512Bf16, "avx512_bf16"},
                                                    {CpuIsa::kAvx512Vnni, "avx512_vnni"},
                                                    {CpuIsa::kAvx512, "avx512"},
                                                    {CpuIsa::kAvx2, "avx2"},
                                                    {CpuIsa::kPortable, "portable"}};
constexpr std::string_view NameOf(CpuIsa isa) { return NameIn(kCpuIsaNames, isa); }

}  // namespace incipit
