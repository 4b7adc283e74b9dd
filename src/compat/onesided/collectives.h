#pragma once

#include <cstdint>
#include <type_traits>

#include "compat/onesided/process.h"
#include "plan/schedule/element.h"

// Collectives of a team as C interfaces have them: 0, or -1 where `team` is null (an invalid handle); a failure ends
// the process. Only what peers' data are written to has to be symmetric: sources that are not, which the standard
// forbids and other libraries take, cost a copy and no harm.
namespace weft::compat::onesided {

int exchange(Process& process, const char* call, api::Team* team, Collective collective, void* to, const void* from,
             std::size_t bytes, Rank root = 0);
int collect(Process& process, const char* call, api::Team* team, void* to, const void* from, std::size_t bytes);
int all_to_all_strided(Process& process, const char* call, api::Team* team, void* to, const void* from,
                       ptrdiff_t to_stride, ptrdiff_t from_stride, std::size_t count, std::size_t element);
// A barrier completes puts; synchronize() does not.
int barrier(Process& process, const char* call, api::Team* team);
int synchronize(Process& process, const char* call, api::Team* team);
// Reductions whose type weft has. `collective`: all_reduce, or reduce_scatter with `count` elements for each rank.
int reduce_known(Process& process, const char* call, api::Team* team, Collective collective, ReduceOp op, void* to,
                 const void* from, std::size_t count, DataType type);
// The others: `combine` is applied in the order of ranks.
int reduce_by(Process& process, const char* call, api::Team* team, api::Team::Combine combine, void* to,
              const void* from, std::size_t count, std::size_t element);

template <class T>
struct Combine {
  template <ReduceOp op>
  static void apply(void* into, const void* with, std::size_t count) {
    T* a = static_cast<T*>(into);
    const T* b = static_cast<const T*>(with);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (op == ReduceOp::kSum) a[i] = a[i] + b[i];
      if constexpr (op == ReduceOp::kProd) a[i] = a[i] * b[i];
      if constexpr (op == ReduceOp::kMin) a[i] = b[i] < a[i] ? b[i] : a[i];
      if constexpr (op == ReduceOp::kMax) a[i] = a[i] < b[i] ? b[i] : a[i];
    }
  }
};

__extension__ typedef float _Complex ComplexFloat;
__extension__ typedef double _Complex ComplexDouble;

template <ReduceOp op, class T>
int reduce(Process& process, const char* call, api::Team* team, T* to, const T* from, std::size_t count) {
  constexpr bool single = std::is_same_v<T, ComplexFloat>, pair = single || std::is_same_v<T, ComplexDouble>;
  if constexpr (pair && op == ReduceOp::kSum) {  // a sum of pairs is a pair of sums
    using Part = std::conditional_t<single, float, double>;
    return reduce_known(process, call, team, Collective::kAllReduce, op, to, from, 2 * count, data_type_of<Part>());
  } else if constexpr (pair || std::is_same_v<T, long double>) {
    return reduce_by(process, call, team, Combine<T>::template apply<op>, to, from, count, sizeof(T));
  } else {
    return reduce_known(process, call, team, Collective::kAllReduce, op, to, from, count, data_type_of<T>());
  }
}

}  // namespace weft::compat::onesided
