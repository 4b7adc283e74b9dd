#pragma once

#include "apps/doctor/evidence.h"
#include "base/report/doctor.h"

namespace weft::doctor {

// At most three root findings: rules that name a cause before those that name what fails before those that may be an
// effect; then the earliest. What may be an effect of a stronger root is folded under it, as cascades and teardown are.
// A finding is confirmed if its rule names a cause or a second source agrees; otherwise suspected.
report::DoctorReport diagnose(const Evidence& evidence);

}  // namespace weft::doctor
