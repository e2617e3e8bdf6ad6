// A program with the CPU's backends alone.
#include "tests/conformance/support.h"

namespace incipit {

std::vector<BackendCase> DeviceBackends() { return {}; }

}  // namespace incipit
