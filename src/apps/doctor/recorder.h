#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/doctor/fact.h"

namespace weft::doctor {

// Flight recorder dumps of the ranks of a job, compared call by call and group by group.
class Recorder {
 public:
  enum class Added { kYes, kNoDump, kTwice };  // kTwice: a second dump of one rank
  // `damage`: why only a part of the file could be read; empty: it is whole. A rank with a damaged dump is not blamed
  // for a call that its dump does not have.
  Added add(const std::string& file, const nlohmann::json& dump, std::string damage = {});
  // A file of which nothing can be read: a damaged dump if its name is that of a dump of another rank.
  void add_unread(const std::string& file, const std::string& why);
  struct Damaged {
    std::string file;
    int rank = -1;  // -1: not known
    std::string why;
  };
  const std::vector<Damaged>& damaged() const { return damaged_; }
  // Sentences say what damaged dumps leave open.
  std::vector<std::string> not_known() const;
  bool empty() const { return groups_.empty() && damaged_.empty(); }
  std::int64_t entries() const { return entries_; }
  std::int64_t not_understood() const { return not_understood_; }

  // F065 to F070: names, types and sizes that differ, by majority; else ranks that never joined a call. A rank that
  // waits in one group is not blamed in another: it is behind there because the first group is stuck.
  void finish(const Finder& found) const;

 private:
  struct Record {
    int rank = -1;
    std::string file, call, sizes, types, state;
  };
  struct Group {
    std::map<std::int64_t, std::vector<Record>> by_sequence;
    std::map<int, std::int64_t> last;  // by rank
    std::vector<int> members;          // of pg_config, in the group's own order
  };
  struct Message {  // of send or recv, between ranks of the job
    int from = -1, to = -1;
    bool send = false, complete = false;
    std::int64_t batch = 0;  // messages of one batch are posted together
    std::string file, group;

    int peer() const { return send ? to : from; }
  };
  struct Blame;

  std::string add_entry(const std::string& file, int rank, const nlohmann::json& entry);  // what is wrong with it
  bool is_damaged(int rank) const;
  bool differ(const std::string& name, const Group& group, const Finder& found) const;
  std::vector<Blame> absent(const std::string& name, const Group& group) const;
  int job_rank(const std::string& group, int rank) const;
  void add_message(const std::string& file, int rank, const nlohmann::json& entry, const std::string& group);
  std::vector<const Message*> open_messages(int rank) const;
  bool messages(const Finder& found) const;
  bool circle(const Finder& found) const;
  bool without_dump(const Finder& found) const;
  std::set<std::string> waits(int rank) const;

  std::map<std::string, Group> groups_;
  std::map<int, std::vector<Message>> messages_;  // by the rank that calls, in its order
  std::set<int> dumped_;                          // ranks, also of damaged dumps
  std::vector<Damaged> damaged_;
  std::set<std::string> names_;  // of dumps, without digits
  std::int64_t entries_ = 0, not_understood_ = 0;
};

}  // namespace weft::doctor
