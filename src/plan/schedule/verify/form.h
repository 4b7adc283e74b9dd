#pragma once

#include <vector>

#include "plan/schedule/verify/report.h"

namespace weft::schedule::symbolic {

// What can be seen of a step without what came before it: that what it names exists and may be used so; and that each
// end of a connection belongs to one strand.
class Form {
 public:
  // Keeps references to both.
  Form(const Schedule& schedule, Report& report);

  // Reports what is wrong with the next step of `self`.
  bool accepts(const Strand& self, const Step& now);

  // The lane at an end of a connection; -1 before its first use.
  int sender(std::size_t connection) const { return senders_[connection]; }
  int taker(std::size_t connection) const { return takers_[connection]; }

 private:
  bool accepts(const Strand& self, const Step& now, const Operand& o, const Operands& side, bool destination);
  bool in_memory(const Strand& self, const Step& now, const Operand& o) const;
  void own_connection(const Strand& self, const Step& now, const Operand& o, const Operands& side, bool destination);

  const Schedule& s_;
  Report& report_;
  Numbering at_;
  std::vector<int> senders_, takers_;
};

}  // namespace weft::schedule::symbolic
