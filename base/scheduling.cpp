#include "base/scheduling.h"

#include <pthread.h>
#include <sched.h>

#include "base/check.h"

namespace incipit {

void NeverInterruptOthers() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  const sched_param parameters{};
  sched_setscheduler(0, SCHED_BATCH, &parameters);
}

void NameThisThread(const char* name) {
  INCIPIT_CHECK(pthread_setname_np(pthread_self(), name) == 0);
}

}  // namespace incipit
