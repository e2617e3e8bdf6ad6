#include "base/scheduling.h"

#include <sched.h>

namespace incipit {

void NeverInterruptOthers() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  const sched_param parameters{};
  sched_setscheduler(0, SCHED_BATCH, &parameters);
}

}  // namespace incipit
