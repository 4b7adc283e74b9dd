#include "machine/import/node_labels.h"

#include <algorithm>
#include <map>

#include "machine/import/slurm.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

// Labels of one scheme, from the switch nearest to a node upward.
using Scheme = std::vector<std::string_view>;
const std::vector<Scheme> kSchemes = {
    {"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"},
    {"network.topology.nvidia.com/block", "network.topology.nvidia.com/spine",
     "network.topology.nvidia.com/datacenter"},
    {"topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2",
     "topology.k8s.aws/network-node-layer-1"},
    {"cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"},
    {"network.topology.nvidia.com/accelerator"}};

struct Node {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels;
};

// A key or value without quotes and the comma behind it.
std::string_view bare(std::string_view text) {
  text = trimmed(text);
  while (text.ends_with('}') && text.find('{') == std::string_view::npos)
    text = trimmed(text.substr(0, text.size() - 1));
  if (text.ends_with(',')) text = trimmed(text.substr(0, text.size() - 1));
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return text;
}

constexpr int kDeepestBraces = 16;  // of mappings in braces

// The position behind the bracket that closes the one at `at`; npos: there is none.
std::size_t behind_braces(std::string_view text, std::size_t at) {
  int depth = 0;
  char quote = '\0';
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// Writes the entries of "{a: b, c: {d: e}}", without its braces, a line each.
void add_entries(std::string_view inside, std::size_t indent, int depth, std::string& out) {
  for (std::size_t at = 0; at < inside.size();) {
    std::size_t end = at;
    while (end < inside.size() && inside[end] != ',') {
      if (inside[end] == '{' || inside[end] == '[' || inside[end] == '"' || inside[end] == '\'') {
        const bool quote = inside[end] == '"' || inside[end] == '\'';
        const std::size_t behind = quote ? inside.find(inside[end], end + 1) : behind_braces(inside, end) - 1;
        if (behind >= inside.size()) break;
        end = behind;
      }
      ++end;
    }
    const std::string_view entry = trimmed(inside.substr(at, end - at));
    const std::size_t brace = entry.find('{');
    if (brace != std::string_view::npos && entry.ends_with('}') && depth < kDeepestBraces) {
      out += std::string(indent, ' ') + std::string(entry.substr(0, brace)) + "\n";
      add_entries(entry.substr(brace + 1, entry.size() - brace - 2), indent + 2, depth + 1, out);
    } else if (!entry.empty()) {
      out += std::string(indent, ' ') + std::string(entry) + "\n";
    }
    at = std::max(end, at) + 1;
  }
}

std::size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(" -"), line.size()); }

// The colon between a key and its value: keys in quotes may have one.
std::size_t colon_of(std::string_view line) {
  const std::string_view content = trimmed(line);
  const auto start = static_cast<std::size_t>(content.data() - line.data());
  if (content.starts_with('"'))
    if (const auto quote = line.find('"', start + 1); quote != std::string_view::npos) return line.find(':', quote);
  return line.find(": ", start) != std::string_view::npos ? line.find(": ", start)
         : content.ends_with(':')                         ? line.rfind(':')
                                                          : std::string_view::npos;
}

// YAML's and JSON's mappings in braces as mappings by columns: "labels: {a: b, c: d}" on one line or on several. Braces
// with nothing behind them on their line stay, as JSON that has a line per entry is read as it is.
std::string without_braces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t brace = line.find('{');
    const std::size_t close = brace == std::string_view::npos ? brace : behind_braces(text, brace);
    const std::string_view before = line.substr(0, std::min(brace, line.size()));
    const bool entry = trimmed(before).empty() || trimmed(before) == "-" || trimmed(before).ends_with(':');
    if (close == std::string_view::npos || !entry || trimmed(line.substr(brace + 1)).empty()) {
      out += line;
      out += '\n';
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      continue;
    }
    out += before;
    out += '\n';
    std::string inside(text.substr(brace + 1, close - brace - 2));
    std::ranges::replace(inside, '\n', ' ');
    add_entries(inside, indent_of(line) + 2, 0, out);
    text.remove_prefix(close);
    text.remove_prefix(
        std::min(text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1, text.size()));
  }
  return out;
}

// Metadata of nodes, line by line, in YAML or in JSON.
std::vector<Node> of_documents(std::string_view written) {
  const std::string text = without_braces(written);
  std::vector<Node> nodes;
  std::size_t metadata = 0, inner = 0;  // columns of "metadata" and of what it has
  bool open = false;
  for (const TextLine& line : lines_of(text)) {
    const std::size_t indent = indent_of(line.text), colon = colon_of(line.text);
    if (colon == std::string_view::npos) continue;
    const std::string_view key = bare(line.text.substr(std::min(indent, colon), colon - std::min(indent, colon)));
    const std::string_view value = bare(line.text.substr(colon + 1));
    if (key == "metadata") {
      nodes.emplace_back();
      metadata = indent, inner = 0, open = true;
      continue;
    }
    if (!open) continue;
    if (indent <= metadata) {
      open = false;
      continue;
    }
    if (inner == 0) inner = indent;
    if (key == "name" && indent == inner)
      nodes.back().name = value;
    else if (key.find('/') != std::string_view::npos && !value.empty())
      nodes.back().labels.emplace(key, value);
  }
  for (Node& node : nodes)
    if (const auto host = node.labels.find("kubernetes.io/hostname"); node.name.empty() && host != node.labels.end())
      node.name = host->second;
  std::erase_if(nodes, [](const Node& node) { return node.name.empty(); });
  return nodes;
}

// kubectl get nodes --show-labels: the name is the first word, the labels are the last one.
std::vector<Node> of_table(std::string_view text) {
  std::vector<Node> nodes;
  bool in_table = false;
  for (const TextLine& line : lines_of(text)) {
    const auto words = words_of(line.text);
    if (words.size() > 1 && words.front() == "NAME" && words.back() == "LABELS") {
      in_table = true;
      continue;
    }
    if (!in_table || words.size() < 2) continue;
    Node node{.name = std::string(words.front())};
    for (std::string_view rest = words.back(); !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (const auto equals = one.find('='); equals != std::string_view::npos)
        node.labels.emplace(one.substr(0, equals), one.substr(equals + 1));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// Slurm's text of the same tree: "SwitchName=leaf0 Nodes=a,b".
std::string tree_of(const std::vector<Node>& nodes, const Scheme& scheme) {
  std::vector<std::map<std::string, std::vector<std::string>>> below(scheme.size());
  for (const Node& node : nodes) {
    std::string member = node.name;
    for (std::size_t level = 0; level < scheme.size(); ++level) {
      const auto label = node.labels.find(scheme[level]);
      if (label == node.labels.end()) break;
      auto& members = below[level][label->second];
      if (std::ranges::find(members, member) == members.end()) members.push_back(member);
      member = label->second;
    }
  }
  std::string text;
  for (std::size_t level = 0; level < below.size(); ++level)
    for (const auto& [name, members] : below[level])
      text += fmt::format("SwitchName={} {}={}\n", name, level == 0 ? "Nodes" : "Switches", fmt::join(members, ","));
  return text;
}

}  // namespace

bool is_node_labels(std::string_view text) {
  return std::ranges::any_of(kSchemes, [&](const Scheme& scheme) {
    const auto at = text.find(scheme.front());
    const std::size_t end = at + scheme.front().size();
    return at != std::string_view::npos && end < text.size() &&
           std::string_view(":=\"'").find(text[end]) != std::string_view::npos;
  });
}

Result<NetworkTree> parse_node_labels(std::string_view name, std::string_view text) {
  std::vector<Node> nodes = of_table(text);
  if (nodes.empty()) nodes = of_documents(text);
  for (const Scheme& scheme : kSchemes) {
    std::vector<Node> labelled = nodes;
    std::erase_if(labelled, [&](const Node& node) { return !node.labels.contains(scheme.front()); });
    if (labelled.empty()) continue;
    WEFT_TRY(NetworkTree tree, parse_slurm(name, tree_of(labelled, scheme)));
    if (labelled.size() < nodes.size())
      tree.assumed = fmt::format("{} of {} Kubernetes nodes have no label {} and are left out",
                                 nodes.size() - labelled.size(), nodes.size(), scheme.front());
    return tree;
  }
  return bad_input("{}:1: no node has a label network.topology.nvidia.com/leaf, or Google's or Amazon's of topology",
                   name);
}

}  // namespace weft::topology
