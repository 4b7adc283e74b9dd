#pragma once

#include <string>

#include "apps/doctor/rules.h"
#include "base/report/doctor.h"
#include "machine/topology.h"

namespace weft::doctor {

// The change of a machine that replays a finding (the rule's fault, as in causes.tsv), on the NIC that the evidence
// names: "mlx5_3" is the machine's NIC 3, on the node of the first rank that said so. Where no line names a NIC, or the
// machine has no such one, it is the first. Empty: the rule has no fault.
std::string fault_of(const Rule& rule, const report::DoctorFinding& finding, const topology::Topology& machine,
                     std::int64_t ranks_per_node);

}  // namespace weft::doctor
