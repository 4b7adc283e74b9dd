#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

schedule::Algorithm hierarchical_all_reduce();
schedule::Algorithm hierarchical_all_gather();
schedule::Algorithm hierarchical_reduce_scatter();
schedule::Algorithm hierarchical_all_to_all();
schedule::Algorithm torus_all_reduce();
schedule::Algorithm mesh_all_reduce();
schedule::Algorithm mesh_all_gather();
schedule::Algorithm mesh_reduce_scatter();
schedule::Algorithm line_all_gather();
schedule::Algorithm line_reduce_scatter();

}  // namespace weft::collectives
