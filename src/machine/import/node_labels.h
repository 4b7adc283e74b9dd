#pragma once

#include <string_view>

#include "machine/import/network_tree.h"

namespace weft::topology {

// Whether a text has labels of Kubernetes nodes that say where in the network they are: network.topology.nvidia.com (as
// topograph and weft write them), cloud.google.com/gce-topology, topology.k8s.aws/network-node-layer.
bool is_node_labels(std::string_view text);

// Nodes with such labels: YAML or JSON of `kubectl get nodes -o yaml`, documents of kind Node, the table of
// `kubectl get nodes --show-labels`. The switch nearest to a node is the leaf (of Google's labels the sub-block, of
// Amazon's the highest layer). Nodes without a label of the lowest level are left out, and `assumed` says so.
// Errors (bad input), naming the file: no node has such labels; a leaf below two switches of one level.
Result<NetworkTree> parse_node_labels(std::string_view name, std::string_view text);

}  // namespace weft::topology
