#pragma once

#include "plan/schedule/algorithm.h"

// Collectives for nodes whose switch reduces and multicasts memory (NVLink SHARP).
namespace weft::collectives {

schedule::Algorithm nvls_all_reduce();
schedule::Algorithm nvls_tree_all_reduce();
schedule::Algorithm nvls_all_gather();
schedule::Algorithm nvls_reduce_scatter();
schedule::Algorithm nvls_broadcast();
schedule::Algorithm nvls_reduce();

}  // namespace weft::collectives
