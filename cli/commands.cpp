#include "cli/commands.h"

#include "cli/bench.h"
#include "cli/chat.h"
#include "cli/generate.h"

namespace incipit {

std::span<const Command> Commands() {
  static constexpr Command kCommands[] = {
      {"generate", "continue one prompt", &RunGenerate},
      {"chat", "talk with a model that has a chat template", &RunChat},
      {"bench", "put load on a server and measure it", &RunBench},
  };
  return kCommands;
}

}  // namespace incipit
