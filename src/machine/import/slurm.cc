#include "machine/import/slurm.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "machine/import/hostlist.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

bool starts_with_word(std::string_view line, std::string_view word) {
  return line.size() >= word.size() && std::ranges::equal(line.substr(0, word.size()), word, [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) == b;
         });
}

bool is_definition(std::string_view line) {
  line = trimmed(line);
  return starts_with_word(line, "switchname=") || starts_with_word(line, "blockname=");
}

// Switches as they are defined, in any order, and what is below them.
class Definitions {
 public:
  explicit Definitions(std::string_view name) : name_(name) {}

  struct Definition {
    std::string own, nodes, switches;  // lists of hosts and of switches below it
    bool block = false;
    std::int64_t line = 0;
  };

  Status add(const Definition& d) {
    if (d.nodes.empty() && d.switches.empty())
      return bad_input("{}:{}: '{}' has neither nodes nor switches", name_, d.line, d.own);
    const auto index = static_cast<std::int32_t>(tree_.switches.size());
    if (!switch_.emplace(d.own, index).second)
      return bad_input("{}:{}: switch '{}' is there twice", name_, d.line, d.own);
    tree_.switches.push_back(d.own);
    blocks_ = blocks_ || d.block;
    WEFT_TRY(const auto hosts, expand(d.nodes, d.line));
    for (const std::string& host : hosts) {
      if (!host_.insert(host).second) return bad_input("{}:{}: node '{}' is there twice", name_, d.line, host);
      tree_.hosts.push_back({host, {index}});
    }
    WEFT_TRY(auto below, expand(d.switches, d.line));
    if (!below.empty()) children_.push_back({index, std::move(below), d.line});
    return {};
  }

  Result<NetworkTree> tree() {
    WEFT_CHECK(join_switches());
    if (tree_.hosts.empty()) return bad_input("{}:1: no switch has nodes", name_);
    return std::move(tree_);
  }

 private:
  struct Children {
    std::int32_t parent = 0;
    std::vector<std::string> names;
    std::int64_t line = 0;
  };

  Result<std::vector<std::string>> expand(std::string_view text, std::int64_t line) const {
    auto names = expand_hostlist(text);
    if (!names) return bad_input("{}:{}: {}", name_, line, names.error().message);
    return names;
  }

  Status join_switches() {
    std::map<std::int32_t, std::int32_t> parent;
    for (const Children& c : children_) {
      for (const std::string& child : c.names) {
        const auto at = switch_.find(child);
        if (at == switch_.end()) return bad_input("{}:{}: switch '{}' is not defined", name_, c.line, child);
        if (!parent.emplace(at->second, c.parent).second)
          return bad_input("{}:{}: switch '{}' is below two switches", name_, c.line, child);
        for (std::int32_t up = c.parent;; up = parent.at(up)) {
          if (up == at->second) return bad_input("{}:{}: switch '{}' is below itself", name_, c.line, child);
          if (!parent.contains(up)) break;
        }
        tree_.trunks.push_back({at->second, c.parent, 0});
      }
    }
    // Blocks, and trees without a common root, meet at one that the file does not name.
    std::vector<std::int32_t> roots;
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(tree_.switches.size()); ++s)
      if (!parent.contains(s)) roots.push_back(s);
    if (roots.size() <= 1) return {};
    const auto top = static_cast<std::int32_t>(tree_.switches.size());
    tree_.switches.emplace_back(blocks_ ? "between-blocks" : "between-roots");
    for (const std::int32_t root : roots) tree_.trunks.push_back({root, top, 0});
    return {};
  }

  std::string_view name_;
  NetworkTree tree_;
  std::map<std::string, std::int32_t> switch_;
  std::set<std::string> host_;
  std::vector<Children> children_;
  bool blocks_ = false;
};

// topology.conf: a definition per line.
class Lines {
 public:
  explicit Lines(std::string_view name) : name_(name), definitions_(name) {}

  Result<NetworkTree> run(std::string_view text) {
    std::string joined;
    for (const TextLine& line : lines_of(text)) {
      std::string_view part = line.text.substr(0, line.text.find('#'));
      const std::string_view content = trimmed(part);
      if (joined.empty()) line_ = line.number;
      if (content.ends_with('\\')) {
        joined += std::string(content.substr(0, content.size() - 1)) + " ";
        continue;
      }
      joined += content;
      if (!joined.empty()) WEFT_CHECK(read_line(joined));
      joined.clear();
    }
    return definitions_.tree();
  }

 private:
  Status read_line(std::string_view line) {
    Definitions::Definition d{.line = line_};
    for (const std::string_view word : words_of(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) return bad_input("{}:{}: '{}' is no KEY=VALUE", name_, line_, word);
      const std::string_view value = word.substr(equals + 1);
      if (starts_with_word(word, "switchname="))
        d.own = value;
      else if (starts_with_word(word, "blockname="))
        d.own = value, d.block = true;
      else if (starts_with_word(word, "nodes="))
        d.nodes = value;
      else if (starts_with_word(word, "switches="))
        d.switches = value;
      else if (!starts_with_word(word, "linkspeed=") && !starts_with_word(word, "blocksizes="))
        return bad_input("{}:{}: unknown key '{}'", name_, line_, word.substr(0, equals));
    }
    if (!d.own.empty()) return definitions_.add(d);
    if (starts_with_word(line, "blocksizes=")) return {};
    return bad_input("{}:{}: '{}' names no switch or block", name_, line_, line);
  }

  std::string_view name_;
  Definitions definitions_;
  std::int64_t line_ = 0;
};

// topology.yaml: several topologies, of which one is read. Only the lines that Slurm's own files have are known.
class Yaml {
 public:
  Yaml(std::string_view name, std::string_view wanted) : name_(name), wanted_(wanted) {}

  Result<NetworkTree> run(std::string_view text) {
    for (const TextLine& line : lines_of(text)) {
      std::string_view content = trimmed(line.text.substr(0, line.text.find('#')));
      if (content.empty() || content == "---" || content == "...") continue;
      while (content.starts_with("- ")) content = trimmed(content.substr(2));
      const std::size_t colon = content.find(':');
      if (colon == std::string_view::npos) {
        if (in_sizes_) continue;
        return bad_input("{}:{}: '{}' is no KEY: VALUE", name_, line.number, content);
      }
      WEFT_CHECK(read_entry(trimmed(content.substr(0, colon)), bare(content.substr(colon + 1)), line.number));
    }
    WEFT_TRY(const Topology* chosen, choose());
    Definitions definitions(name_);
    for (const Definitions::Definition& d : chosen->definitions) WEFT_CHECK(definitions.add(d));
    return definitions.tree();
  }

 private:
  struct Topology {
    std::string name, kind;  // "tree", "block", …
    bool is_default = false;
    std::int64_t line = 0;
    std::vector<Definitions::Definition> definitions = {};
  };

  static std::string_view bare(std::string_view value) {
    value = trimmed(value);
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    return value;
  }

  static bool is_true(std::string_view value) { return value.size() == 4 && starts_with_word(value, "true"); }

  Status read_entry(std::string_view key, std::string_view value, std::int64_t line) {
    in_sizes_ = key == "block_sizes";
    if (key == "topology") {
      topologies_.push_back({.name = std::string(value), .kind = {}, .line = line});
      return {};
    }
    if (topologies_.empty()) return bad_input("{}:{}: '{}' before any topology", name_, line, key);
    Topology& t = topologies_.back();
    const bool names_kind = key == "tree" || key == "flat" || key == "ring" || (key == "block" && value.empty());
    if (key == "cluster_default") {
      t.is_default = is_true(value);
    } else if (names_kind && t.kind.empty()) {
      t.kind = key;
    } else if (t.kind == "tree" || t.kind == "block") {
      return read_definition(t, key, value, line);
    } else if (t.kind.empty()) {
      return bad_input("{}:{}: unknown key '{}'", name_, line, key);
    }
    return {};
  }

  Status read_definition(Topology& t, std::string_view key, std::string_view value, std::int64_t line) {
    const bool tree = t.kind == "tree";
    if (key == (tree ? "switches" : "blocks") || (!tree && key == "block_sizes")) return {};
    if (key == (tree ? "switch" : "block")) {
      t.definitions.push_back({.own = std::string(value), .block = !tree, .line = line});
      return {};
    }
    if ((key != "nodes" && (!tree || key != "children")) || t.definitions.empty())
      return bad_input("{}:{}: unknown key '{}'", name_, line, key);
    Definitions::Definition& d = t.definitions.back();
    (key == "nodes" ? d.nodes : d.switches) = value;
    return {};
  }

  // The one that is asked for, else the cluster's default, else the first.
  Result<const Topology*> choose() const {
    if (topologies_.empty()) return bad_input("{}:1: there is no topology", name_);
    auto chosen = std::ranges::find_if(
        topologies_, [&](const Topology& t) { return wanted_.empty() ? t.is_default : t.name == wanted_; });
    if (chosen == topologies_.end()) {
      std::vector<std::string_view> names;
      for (const Topology& t : topologies_) names.push_back(t.name);
      if (!wanted_.empty()) return bad_input("topology={}: {} has {}", wanted_, name_, fmt::join(names, ", "));
      chosen = topologies_.begin();
    }
    if (chosen->kind == "tree" || chosen->kind == "block") return &*chosen;
    return bad_input("{}:{}: topology '{}' is {}, not a tree or blocks; topology=NAME chooses another", name_,
                     chosen->line, chosen->name, chosen->kind.empty() ? "empty" : chosen->kind);
  }

  std::string_view name_, wanted_;
  std::vector<Topology> topologies_;
  bool in_sizes_ = false;
};

}  // namespace

bool is_slurm_topology(std::string_view text) {
  return std::ranges::any_of(lines_of(text), [](const TextLine& line) { return is_definition(line.text); });
}

bool is_slurm_yaml(std::string_view text) {
  return std::ranges::any_of(lines_of(text),
                             [](const TextLine& line) { return trimmed(line.text).starts_with("- topology:"); });
}

Result<NetworkTree> parse_slurm(std::string_view name, std::string_view text) { return Lines(name).run(text); }

Result<NetworkTree> parse_slurm_yaml(std::string_view name, std::string_view text, std::string_view topology) {
  return Yaml(name, topology).run(text);
}

}  // namespace weft::topology
