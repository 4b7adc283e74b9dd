#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/units.h"
#include "model/sim/flow/carrier.h"

namespace weft::sim {

// What happens at some time of a simulation: one of the types in this class, with the fields of that type. It is as
// small as the largest of them, because millions of events wait at once. A value type.
class FlowEvent {
 public:
  enum class Kind : std::uint8_t {
    kTimer,
    kLocalEnds,
    kPosted,
    kMessageArrives,
    kSignalArrives,
    kSignalsArrive,
    kPartArrives,
    kSumArrives,
    kResume,
    kFlap,
    kChange,
    kBackground,
    kComputed
  };

  using Timer = Carrier::Timer;  // of the carrier
  struct LocalEnds {             // a part of an operation that crosses no link
    static constexpr Kind kKind = Kind::kLocalEnds;
    std::int32_t actor;
  };
  struct Posted {  // a poster is done with some
    static constexpr Kind kKind = Kind::kPosted;
    std::int32_t poster;
    std::uint32_t turn;
  };
  struct MessageArrives {
    static constexpr Kind kKind = Kind::kMessageArrives;
    std::int32_t connection;
  };
  struct SignalArrives {
    static constexpr Kind kKind = Kind::kSignalArrives;
    std::int32_t connection;
    std::int32_t step;  // that sent it; -1: not kept
  };
  struct SignalsArrive {  // several at once
    static constexpr Kind kKind = Kind::kSignalsArrive;
    std::int32_t signals;
  };
  struct PartArrives {  // of a message that a switch sums
    static constexpr Kind kKind = Kind::kPartArrives;
    std::int32_t aggregation;
    Rank rank;
  };
  struct SumArrives {
    static constexpr Kind kKind = Kind::kSumArrives;
    std::int32_t aggregation;
  };
  struct Resume {
    static constexpr Kind kKind = Kind::kResume;
    std::int32_t actor;
  };
  struct Flap {  // a link goes down or comes back
    static constexpr Kind kKind = Kind::kFlap;
    std::int32_t flap;
    std::int32_t down;  // 1, or 0
  };
  struct Change {  // of a link's rate, for good
    static constexpr Kind kKind = Kind::kChange;
    std::int32_t change;
  };
  struct Background {  // a stream's next load starts
    static constexpr Kind kKind = Kind::kBackground;
    std::int32_t stream;
  };
  struct Computed {  // a rank's kernel ends
    static constexpr Kind kKind = Kind::kComputed;
    Rank rank;
    std::uint32_t turn;
  };

  FlowEvent() = default;
  FlowEvent(const Timer& timer)  // NOLINT(google-explicit-constructor): an event is one of its types
      : kind_(Kind::kTimer),
        timer_kind_(timer.kind),
        fields_{static_cast<std::uint32_t>(timer.subject), timer.detail} {}
  template <class What, Kind kKind = What::kKind>
  FlowEvent(const What& what) : kind_(kKind) {  // NOLINT(google-explicit-constructor)
    static_assert(sizeof what <= sizeof fields_ && std::is_trivially_copyable_v<What>);
    std::memcpy(fields_, &what, sizeof what);
  }

  Kind kind() const { return kind_; }
  // Does a simulation that waits for nothing else go on? (Loads that are under way count themselves.)
  bool keeps_going() const {
    return kind_ != Kind::kTimer && kind_ != Kind::kFlap && kind_ != Kind::kChange && kind_ != Kind::kBackground;
  }

  // Requires: it is of this type.
  template <class What>
  What as() const {
    What what;
    std::memcpy(&what, fields_, sizeof what);
    return what;
  }
  Timer timer() const { return {timer_kind_, static_cast<std::int32_t>(fields_[0]), fields_[1]}; }

  // Calls handle() with what it is.
  template <class Handle>
  void visit(Handle&& handle) const {
    switch (kind_) {
      case Kind::kTimer:
        return handle(timer());
      case Kind::kLocalEnds:
        return handle(as<LocalEnds>());
      case Kind::kPosted:
        return handle(as<Posted>());
      case Kind::kMessageArrives:
        return handle(as<MessageArrives>());
      case Kind::kSignalArrives:
        return handle(as<SignalArrives>());
      case Kind::kSignalsArrive:
        return handle(as<SignalsArrive>());
      case Kind::kPartArrives:
        return handle(as<PartArrives>());
      case Kind::kSumArrives:
        return handle(as<SumArrives>());
      case Kind::kResume:
        return handle(as<Resume>());
      case Kind::kFlap:
        return handle(as<Flap>());
      case Kind::kChange:
        return handle(as<Change>());
      case Kind::kBackground:
        return handle(as<Background>());
      case Kind::kComputed:
        return handle(as<Computed>());
    }
  }

 private:
  Kind kind_ = Kind::kTimer;
  std::uint8_t timer_kind_ = 0;
  std::uint32_t fields_[2] = {};
};
static_assert(sizeof(FlowEvent) == 12 && std::is_trivially_copyable_v<FlowEvent>);

}  // namespace weft::sim
