#include "machine/import/network_tree.h"
#include "machine/import/node_labels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/export/switch_tree.h"
#include "machine/import/hostlist.h"
#include "machine/import/ibnetdiscover.h"
#include "machine/import/slurm.h"
#include "machine/machine.h"

namespace weft::topology {
namespace {

using Names = std::vector<std::string>;

TEST(Hostlist, ExpandsAndCompresses) {
  EXPECT_EQ(*expand_hostlist("tux[0-2,07],login"), (Names{"tux0", "tux1", "tux2", "tux07", "login"}));
  EXPECT_EQ(*expand_hostlist("r[1-2]n[1-2]"), (Names{"r1n1", "r1n2", "r2n1", "r2n2"}));
  EXPECT_EQ(compress_hostlist(Names{"n8", "n9", "n10", "n12", "x"}), "n[8-10,12],x");
  EXPECT_EQ(compress_hostlist(Names{"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(expand_hostlist("a[3-1]").error().message, "the range '3-1' runs backwards");
  EXPECT_EQ(expand_hostlist("a[1-").error().message, "'a[1-' has a bracket that is not closed");
  EXPECT_FALSE(expand_hostlist("a[0-999999]b[0-999999]"));
}

std::string slurm_error(std::string_view text) {
  const auto tree = parse_slurm("t.conf", text);
  return tree ? "no error" : tree.error().message;
}

TEST(Slurm, ReadsATreeWithCommentsAndContinuedLines) {
  const auto tree = parse_slurm("t.conf",
                                "# leaves\nSwitchName=s0 Nodes=a[0-1]\nswitchname=s1 nodes=a[2-3]  # more\n"
                                "SwitchName=top \\\n  Switches=s[0-1]\n");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->hosts.size(), 4u);
  EXPECT_EQ(tree->switches, (Names{"s0", "s1", "top"}));
  EXPECT_EQ(tree->trunks.size(), 2u);
}

TEST(Slurm, ErrorsNameLineAndValue) {
  EXPECT_EQ(slurm_error("SwitchName=s0 Nodes=a0\nSwitchName=s0 Nodes=a1\n"), "t.conf:2: switch 's0' is there twice");
  EXPECT_EQ(slurm_error("SwitchName=s0 Nodes=a0\nSwitchName=s1 Nodes=a0\n"), "t.conf:2: node 'a0' is there twice");
  EXPECT_EQ(slurm_error("SwitchName=s0 Switches=s9\n"), "t.conf:1: switch 's9' is not defined");
  EXPECT_EQ(slurm_error("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"), "t.conf:2: switch 'a' is below itself");
  EXPECT_EQ(slurm_error("SwitchName=s0\n"), "t.conf:1: 's0' has neither nodes nor switches");
  EXPECT_EQ(slurm_error("SwitchName=s0 Node=a\n"), "t.conf:1: unknown key 'Node'");
}

constexpr std::string_view kYaml =
    "---\n# two of them\n- topology: small\n  cluster_default: false\n  tree:\n    switches:\n"
    "      - switch: top\n        children: s[1-2]\n      - switch: s1\n        nodes: a[1-2]\n"
    "      - switch: \"s2\"\n        nodes: a[3-5]   # more\n- topology: blocks\n  cluster_default: true\n  block:\n"
    "    block_sizes:\n      - 4\n      - 8\n    blocks:\n      - block: b1\n        nodes: n[1-4]\n"
    "      - block: b2\n        nodes: n[5-8]\n- topology: none\n  flat: true\n";

TEST(SlurmYaml, ReadsTheDefaultTopologyOrTheOneThatIsNamed) {
  EXPECT_TRUE(is_slurm_yaml(kYaml));
  EXPECT_FALSE(is_slurm_yaml("SwitchName=s0 Nodes=a[0-1]\n"));
  const auto blocks = parse_slurm_yaml("t.yaml", kYaml);
  ASSERT_TRUE(blocks) << blocks.error().message;
  EXPECT_EQ(blocks->hosts.size(), 8u);
  EXPECT_EQ(blocks->switches, (Names{"b1", "b2", "between-blocks"}));
  const auto tree = parse_slurm_yaml("t.yaml", kYaml, "small");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->hosts.size(), 5u);
  EXPECT_EQ(tree->switches, (Names{"top", "s1", "s2"}));
  EXPECT_EQ(tree->trunks.size(), 2u);
}

TEST(SlurmYaml, SaysTheSameAsTheConfOfThatTree) {
  const auto conf =
      parse_slurm("t.conf", "SwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=a[1-2]\nSwitchName=s2 Nodes=a[3-5]\n");
  const auto yaml = parse_slurm_yaml("t.yaml", kYaml, "small");
  ASSERT_TRUE(conf && yaml);
  EXPECT_EQ(conf->switches, yaml->switches);
  ASSERT_EQ(conf->hosts.size(), yaml->hosts.size());
  for (std::size_t h = 0; h < conf->hosts.size(); ++h) {
    EXPECT_EQ(conf->hosts[h].name, yaml->hosts[h].name);
    EXPECT_EQ(conf->hosts[h].ports, yaml->hosts[h].ports);
  }
}

TEST(SlurmYaml, ErrorsNameLineAndValue) {
  const auto error = [](std::string_view text, std::string_view topology = {}) {
    const auto tree = parse_slurm_yaml("t.yaml", text, topology);
    return tree ? "no error" : tree.error().message;
  };
  EXPECT_EQ(error(kYaml, "big"), "topology=big: t.yaml has small, blocks, none");
  EXPECT_EQ(error(kYaml, "none"),
            "t.yaml:24: topology 'none' is flat, not a tree or blocks; topology=NAME chooses another");
  EXPECT_EQ(error("- topology: t\n  tree:\n    switches:\n    - switch: a\n      node: n1\n"),
            "t.yaml:5: unknown key 'node'");
  EXPECT_EQ(error("- topology: t\n  trees:\n"), "t.yaml:2: unknown key 'trees'");
  EXPECT_EQ(error("- topology: t\n  tree:\n    switches:\n    - switch: a\n      children: b\n"),
            "t.yaml:4: switch 'b' is not defined");
  EXPECT_EQ(error("- topology: t\n  tree:\n  - x\n"), "t.yaml:3: 'x' is no KEY: VALUE");
}

TEST(Slurm, WhatIsWrittenIsReadAsTheSameTree) {
  const auto t = load_machine("dgx-h100:nodes=64,tiers=2");
  ASSERT_TRUE(t) << t.error().message;
  const auto text = to_slurm(*t);
  ASSERT_TRUE(text) << text.error().message;
  // 32 nodes share the eight leaves of a group; both groups share the spines.
  EXPECT_EQ(*text,
            "# dgx-h100:nodes=64,tiers=2: topology/tree, written by weft\n"
            "SwitchName=leaf0 Nodes=node[0-31]\nSwitchName=leaf1 Nodes=node[32-63]\n"
            "SwitchName=spine0 Switches=leaf[0-1]\n");
  const auto tree = parse_slurm("t.conf", *text);
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->hosts.size(), 64u);
}

TEST(Kubernetes, NodesCarryTheirSwitches) {
  const auto text = to_kubernetes(*load_machine("dgx-h100:nodes=64"));
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("  name: node40\n  labels:\n    network.topology.nvidia.com/accelerator: domain40\n"
                       "    network.topology.nvidia.com/leaf: leaf1\n    network.topology.nvidia.com/spine: spine0\n"),
            std::string::npos);
  EXPECT_EQ(to_kubernetes(*load_machine("dgx-h100")).error().message, "'dgx-h100' has no network switches");
}

TEST(Kubernetes, WhatIsWrittenIsReadAsTheSameTree) {
  const auto text = to_kubernetes(*load_machine("dgx-h100:nodes=64,tiers=2"));
  ASSERT_TRUE(text && is_node_labels(*text));
  const auto tree = parse_node_labels("nodes.yaml", *text);
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->hosts.size(), 64u);
  EXPECT_EQ(tree->switches, (std::vector<std::string>{"leaf0", "leaf1", "spine0"}));
  EXPECT_EQ(tree->trunks.size(), 2u);
  EXPECT_TRUE(tree->assumed.empty());
}

// kubectl sorts keys: labels come before the name, and others have names, too.
TEST(Kubernetes, ListsOfKubectlAreReadInYamlAndJson) {
  const auto yaml = parse_node_labels("n.yaml",
                                      "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n"
                                      "    labels:\n      network.topology.nvidia.com/leaf: s1\n    name: a1\n"
                                      "  status:\n    images:\n    - names:\n      - x\n"
                                      "- apiVersion: v1\n  kind: Node\n  metadata:\n    labels:\n"
                                      "      network.topology.nvidia.com/leaf: \"s2\"\n    name: a2\n"
                                      "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: control\n");
  ASSERT_TRUE(yaml) << yaml.error().message;
  ASSERT_EQ(yaml->hosts.size(), 2u);
  EXPECT_EQ(yaml->hosts[1].name, "a2");
  EXPECT_EQ(yaml->assumed, "1 of 3 Kubernetes nodes have no label network.topology.nvidia.com/leaf and are left out");
  const auto json = parse_node_labels("n.json",
                                      "{\n \"items\": [\n  {\n   \"metadata\": {\n    \"labels\": {\n"
                                      "     \"cloud.google.com/gce-topology-block\": \"b\",\n"
                                      "     \"cloud.google.com/gce-topology-subblock\": \"sb\"\n    },\n"
                                      "    \"name\": \"gke-1\"\n   }\n  }\n ]\n}\n");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->hosts[0].name, "gke-1");
  EXPECT_EQ(json->switches, (std::vector<std::string>{"sb", "b"}));
}

// YAML's mappings in braces: on one line, on several, with quoted keys and values, below a metadata in braces.
TEST(Kubernetes, LabelsInBracesAreLabels) {
  const auto tree = parse_node_labels(
      "n.yaml",
      "apiVersion: v1\nkind: Node\nmetadata:\n  name: a1\n"
      "  labels: {kubernetes.io/arch: amd64, network.topology.nvidia.com/leaf: s1}\n---\n"
      "kind: Node\nmetadata: {labels: {\"network.topology.nvidia.com/leaf\": \"s1\", x: [1, 2]}, name: a2}\n---\n"
      "kind: Node\nmetadata:\n  labels: {beta.kubernetes.io/os: linux,\n    network.topology.nvidia.com/leaf: s2,\n"
      "    other: 'a, b'}\n  name: a3\nspec: {taints: []}\n---\n"
      "kind: Node\nmetadata:\n  labels: {\n    network.topology.nvidia.com/leaf: s2 }\n  name: a4\n");
  ASSERT_TRUE(tree) << tree.error().message;
  std::vector<std::string> hosts;
  for (const auto& host : tree->hosts) hosts.push_back(host.name);
  EXPECT_EQ(hosts, (std::vector<std::string>{"a1", "a2", "a3", "a4"}));
  EXPECT_EQ(tree->switches.size(), 3u);  // two leaves, and what joins them
}

TEST(Kubernetes, TheTableOfShowLabelsIsRead) {
  const auto tree =
      parse_node_labels("n.txt",
                        "NAME   STATUS  ROLES   AGE  VERSION  LABELS\n"
                        "ip-1   Ready   <none>  3d   v1.31    arch=amd64,topology.k8s.aws/network-node-layer-2=nn-7,"
                        "topology.k8s.aws/network-node-layer-3=nn-9\n"
                        "ip-2   Ready   <none>  3d   v1.31    topology.k8s.aws/network-node-layer-3=nn-9,"
                        "topology.k8s.aws/network-node-layer-2=nn-7\n");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->hosts.size(), 2u);
  EXPECT_EQ(tree->switches, (std::vector<std::string>{"nn-9", "nn-7"}));
  EXPECT_EQ(parse_node_labels("n.txt", "NAME LABELS\na b=c\n").error().message,
            "n.txt:1: no node has a label network.topology.nvidia.com/leaf, or Google's or Amazon's of topology");
}

constexpr std::string_view kIb =
    "switchguid=0x1\nSwitch\t40 \"S-01\"\t# \"sw1\" base port 0\n[1]\t\"H-11\"[1] # \"tux0 HCA-1\" 4xHDR\n"
    "[39]\t\"S-02\"[1]\n[40]\t\"S-02\"[2]\n\nSwitch\t40 \"S-02\"\t# \"sw2\"\n[1]\t\"S-01\"[39]\n[2]\t\"S-01\"[40]\n"
    "[3]\t\"H-12\"[1]\n\nCa\t1 \"H-11\"\t# \"tux0 HCA-1\"\n[1](11) \t\"S-01\"[1]\t# lid 10 4xHDR\n"
    "Ca\t1 \"H-12\"\t# \"tux0 HCA-2\"\n[1](12) \t\"S-02\"[3]\t# lid 11 4xHDR\n";

TEST(Ibnetdiscover, HostsPortsTrunksAndSpeed) {
  const auto fabric = parse_ibnetdiscover("ib.txt", kIb);
  ASSERT_TRUE(fabric) << fabric.error().message;
  ASSERT_EQ(fabric->tree.hosts.size(), 1u);
  EXPECT_EQ(fabric->tree.hosts[0].name, "tux0");
  EXPECT_EQ(fabric->tree.hosts[0].ports, (std::vector<std::int32_t>{0, 1}));
  ASSERT_EQ(fabric->tree.trunks.size(), 1u);
  EXPECT_EQ(fabric->tree.trunks[0].count, 2);
  EXPECT_EQ(fabric->network, "ib-hdr");
  EXPECT_EQ(parse_ibnetdiscover("ib.txt", "[1] \"S-1\"[1]\n").error().message,
            "ib.txt:1: a port before any switch or adapter");
}

TEST(Ibnetdiscover, PortsToDevicesThatAreNotListedAreLeftOutAndSaid) {
  const std::string text = std::string(kIb) + "\nSwitch\t40 \"S-03\"\t# \"sw3\"\n[1]\t\"H-99\"[1]\t# \"gone HCA-1\"\n";
  const auto fabric = parse_ibnetdiscover("ib.txt", text);
  ASSERT_TRUE(fabric) << fabric.error().message;
  EXPECT_EQ(fabric->tree.hosts.size(), 1u);
  EXPECT_NE(fabric->tree.assumed.find("does not list"), std::string::npos) << fabric->tree.assumed;
}

TEST(NetworkTree, HostsOfAFileAreCopiesOfAPreset) {
  const auto tree = parse_slurm("t.conf",
                                "SwitchName=s0 Nodes=a[0-1]\nSwitchName=s1 Nodes=b[0-1]\n"
                                "SwitchName=top Switches=s[0-1]\n");
  const auto catalog = Catalog::load(embedded::files());
  const auto cluster = cluster_of(*catalog, *tree, *load_machine("dgx-h100"), "ib-ndr", 4);
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_TRUE(cluster->validate());
  EXPECT_EQ(host_names(*cluster), (Names{"a0", "a1", "b0", "b1"}));
  // 2 nodes · 8 NICs below a leaf, 4 : 1 oversubscribed: 4 ports of 50 GB/s up.
  for (const Link& l : cluster->links())
    if (l.kind == LinkKind::kNetwork && cluster->device(l.a).node < 0) {
      EXPECT_DOUBLE_EQ(l.rate_ab.gb(), 200);
    }
}

}  // namespace
}  // namespace weft::topology
