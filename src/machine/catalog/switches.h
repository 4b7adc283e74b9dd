#pragma once

#include "machine/catalog/catalog.h"

namespace weft::topology {

// Does this switch part sum what comes in (NVLink SHARP, SHARP)?
bool part_reduces(const Catalog& catalog, std::string_view switch_part);

// Says of every NVSwitch whether it sums (fact "reduces"), by the kind of accelerator that it joins, unless the
// machine's source has said so already.
void describe_scale_up_switches(const Catalog& catalog, Topology& topology);

}  // namespace weft::topology
