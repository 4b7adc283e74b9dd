#include "topology/import/slurm.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "topology/import/hostlist.h"
#include "topology/import/text_lines.h"

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

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {}

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

  Status read_line(std::string_view line) {
    std::string own, nodes, switches;
    bool block = false;
    for (const std::string_view word : words_of(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) return bad_input("{}:{}: '{}' is no KEY=VALUE", name_, line_, word);
      const std::string_view value = word.substr(equals + 1);
      if (starts_with_word(word, "switchname="))
        own = value;
      else if (starts_with_word(word, "blockname="))
        own = value, block = true;
      else if (starts_with_word(word, "nodes="))
        nodes = value;
      else if (starts_with_word(word, "switches="))
        switches = value;
      else if (!starts_with_word(word, "linkspeed=") && !starts_with_word(word, "blocksizes="))
        return bad_input("{}:{}: unknown key '{}'", name_, line_, word.substr(0, equals));
    }
    if (own.empty()) {
      if (starts_with_word(line, "blocksizes=")) return {};
      return bad_input("{}:{}: '{}' names no switch or block", name_, line_, line);
    }
    if (nodes.empty() && switches.empty())
      return bad_input("{}:{}: '{}' has neither nodes nor switches", name_, line_, own);
    const auto index = static_cast<std::int32_t>(tree_.switches.size());
    if (!switch_.emplace(own, index).second) return bad_input("{}:{}: switch '{}' is there twice", name_, line_, own);
    tree_.switches.push_back(own);
    blocks_ = blocks_ || block;
    WEFT_TRY(const auto hosts, expand(nodes));
    for (const std::string& host : hosts) {
      if (!host_.insert(host).second) return bad_input("{}:{}: node '{}' is there twice", name_, line_, host);
      tree_.hosts.push_back({host, {index}});
    }
    WEFT_TRY(auto below, expand(switches));
    if (!below.empty()) children_.push_back({index, std::move(below), line_});
    return {};
  }

  Result<std::vector<std::string>> expand(std::string_view text) const {
    auto names = expand_hostlist(text);
    if (!names) return bad_input("{}:{}: {}", name_, line_, names.error().message);
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
  std::int64_t line_ = 0;
  bool blocks_ = false;
};

}  // namespace

bool is_slurm_topology(std::string_view text) {
  return std::ranges::any_of(lines_of(text), [](const TextLine& line) { return is_definition(line.text); });
}

Result<NetworkTree> parse_slurm(std::string_view name, std::string_view text) { return Parser(name).run(text); }

}  // namespace weft::topology
