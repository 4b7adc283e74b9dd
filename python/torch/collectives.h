#pragma once

#include <set>

#include "gathers.h"

namespace weft::torch_adapter {

// The collectives of c10d::Backend. Each checks its tensors and says what is to be run; Core::start runs it.
class Collectives : public Gathers {
 public:
  using Gathers::Gathers;

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) override {
    const Tensor& t = only(tensors);
    const Tensor flat = t.contiguous();
    const auto e = moved(t);
    return start({.type = OpType::BROADCAST,
                  .title = title("weft:broadcast"),
                  .inputs = {t},
                  .results = {t},
                  .call = call({.collective = Collective::kBroadcast,
                                .in = flat.data_ptr(),
                                .out = flat.data_ptr(),
                                .count = flat.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {flat}),
                  .after = copy_back(t, flat),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) override {
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) return allreduce_sparse(tensors, o);
    return start(reduce_one(only(tensors), o, OpType::ALLREDUCE, title("weft:all_reduce")));
  }
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors& tensors,
                                                     const c10d::AllreduceCoalescedOptions& o) override {
    const char* const all = title("weft:all_reduce_coalesced");
    check_dense(tensors);
    if (tensors.size() == 1) return start(reduce_one(tensors[0], o, OpType::ALLREDUCE_COALESCED, all));
    std::vector<Task> tasks;
    std::set<const void*> seen;  // a tensor that is listed again is reduced again from what it was before the call
    for (const Tensor& t : tensors) {
      const bool again = !seen.insert(t.data_ptr()).second;
      tasks.push_back(reduce_one(t, o, OpType::ALLREDUCE_COALESCED, all, again));
    }
    return start(joined(std::move(tasks), OpType::ALLREDUCE_COALESCED, all, o.asyncOp));
  }

  // The sum of COO tensors: every rank gets all indices and values, and adds those of equal indices.
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& o) override {
    TORCH_CHECK_VALUE(tensors.size() == 1, "weft: one sparse tensor is expected");
    TORCH_CHECK_VALUE(o.reduceOp.op_ == c10d::ReduceOp::SUM, "weft: sparse tensors have SUM only");
    const Tensor t = tensors[0];
    TORCH_CHECK_VALUE(t.device().is_cpu(), "weft: the tensor is on ", t.device(), ", but backend weft is for the CPU");
    return start(
        {.type = OpType::_ALLREDUCE_SPARSE,
         .title = title("weft:sparse_all_reduce"),
         .inputs = {t},
         .results = {t},
         .call = [t, n = getSize()](Communicator& c) -> Status {
           const Tensor mine = t.coalesce();
           const Tensor values = mine.values().contiguous(), indices = mine.indices().t().contiguous();
           std::int64_t rows = mine._nnz();
           std::vector<std::int64_t> all_rows(n);
           if (auto s = c.all_gather<std::int64_t>({&rows, 1}, all_rows); !s) return s;
           const std::int64_t total = std::accumulate(all_rows.begin(), all_rows.end(), std::int64_t{0});
           const auto gather = [&](const Tensor& part, Tensor& all) -> Status {
             auto sizes = part.sizes().vec();
             sizes[0] = total;
             all = at::empty(sizes, part.options());
             const auto e = moved(part);
             std::size_t elements = e.factor;
             for (std::size_t d = 1; d < sizes.size(); ++d) elements *= sizes[d];
             std::vector<std::size_t> counts;
             for (const auto r : all_rows) counts.push_back(r * elements);
             if (all.numel() == 0) return {};
             return c.run({.collective = Collective::kAllGatherV,
                           .in = part.data_ptr(),
                           .out = all.data_ptr(),
                           .counts = counts,
                           .type = e.type});
           };
           Tensor all_indices, all_values;
           if (auto s = gather(indices, all_indices); !s) return s;
           if (auto s = gather(values, all_values); !s) return s;
           const Tensor sum =
               at::sparse_coo_tensor(all_indices.t().contiguous(), all_values, t.sizes(), t.options()).coalesce();
           Tensor(t).copy_(sum);
           return {};
         },
         .timeout = o.timeout,
         .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors, const c10d::ReduceOptions& o) override {
    const Tensor& t = only(tensors);
    const bool is_root = o.rootRank == getRank();
    const Tensor flat = t.contiguous();
    const auto r = reduction(o.reduceOp, t);
    return start({.type = OpType::REDUCE,
                  .title = title("weft:reduce"),
                  .inputs = {t},
                  .results = {t},
                  .call = call({.collective = Collective::kReduce,
                                .in = flat.data_ptr(),
                                .out = is_root ? flat.data_ptr() : nullptr,
                                .count = flat.numel() * r.elements.factor,
                                .type = r.elements.type,
                                .op = r.op,
                                .scalar = r.scalar,
                                .root = root(o.rootRank)},
                               {flat}),
                  .after = is_root ? copy_back(t, flat) : nullptr,
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ScatterOptions& o) override {
    const Tensor& t = only(outputs);
    const bool is_root = o.rootRank == getRank();
    TORCH_CHECK_VALUE(inputs.size() == (is_root ? 1 : 0), "weft: scatter has inputs on its root only");
    Tensor all;
    if (is_root) {
      check_parts(inputs[0], t, getSize());
      all = joined_flat(inputs[0], t);
    }
    const Tensor out = t.is_contiguous() ? t : at::empty(t.sizes(), t.options());
    const auto e = moved(t);
    return start({.type = OpType::SCATTER,
                  .title = title("weft:scatter"),
                  .inputs = is_root ? inputs[0] : Tensors(),
                  .results = {t},
                  .call = call({.collective = Collective::kScatter,
                                .in = is_root ? all.data_ptr() : nullptr,
                                .out = out.data_ptr(),
                                .count = out.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {all, out}),
                  .after = copy_back(t, out),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& o) override {
    const Tensor& out = only(outputs);
    TORCH_CHECK_VALUE(inputs.size() == 1, "weft: one list of inputs is expected");
    check_one_per_rank(inputs[0], getSize());
    check_dense(inputs[0]);
    const Tensor all = joined_flat(inputs[0], out);
    const auto r = reduction(o.reduceOp, out);
    std::vector<std::size_t> counts;
    bool even = true;
    for (const Tensor& part : inputs[0]) {
      counts.push_back(part.numel() * r.elements.factor);
      even = even && part.numel() == out.numel();
    }
    TORCH_CHECK_VALUE(inputs[0][getRank()].numel() == out.numel(), "weft: the output has another size than its part");
    const Tensor to = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
    return start({.type = OpType::REDUCE_SCATTER,
                  .title = title("weft:reduce_scatter"),
                  .inputs = inputs[0],
                  .results = {out},
                  .call = call({.collective = even ? Collective::kReduceScatter : Collective::kReduceScatterV,
                                .in = all.data_ptr(),
                                .out = to.data_ptr(),
                                .count = to.numel() * r.elements.factor,
                                .type = r.elements.type,
                                .op = r.op,
                                .scalar = r.scalar},
                               {all, to}, even ? std::vector<std::size_t>() : counts),
                  .after = copy_back(out, to),
                  .recorded_inputs = {all},
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(Tensor& output, Tensor& input,
                                                      const c10d::ReduceScatterOptions& o) override {
    return start(scatter_flat(output, input, o));
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::ReduceScatterOptions& o) override {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "weft: an output for every input is expected");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) tasks.push_back(scatter_flat(outputs[i], inputs[i], o));
    return start(joined(std::move(tasks), OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                        title("weft:reduce_scatter_tensor_coalesced"), o.asyncOp));
  }

  c10::intrusive_ptr<c10d::Work> alltoall_base(Tensor& output, Tensor& input, std::vector<std::int64_t>& out_rows,
                                               std::vector<std::int64_t>& in_rows,
                                               const c10d::AllToAllOptions& o) override {
    check_dense(output), check_dense(input);
    TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
    // Rows of axis 0 are parts, which those of a transposed tensor are not in memory: torch's other backends refuse it,
    // too.
    TORCH_CHECK_VALUE(input.is_contiguous() && output.is_contiguous(), "weft: Tensors must be contiguous");
    const Tensor &in = input, &out = output;
    const auto e = moved(input);
    Request r{.in = in.data_ptr(), .out = out.data_ptr(), .type = e.type};
    std::vector<std::size_t> counts, receive;
    if (out_rows.empty() && in_rows.empty()) {
      TORCH_CHECK_VALUE(input.numel() == output.numel() && (input.dim() == 0 || input.size(0) % getSize() == 0),
                        "weft: axis 0 cannot be cut into ", getSize(), " equal parts");
      r.collective = Collective::kAllToAll;
      r.count = in.numel() / getSize() * e.factor;
    } else {
      r.collective = Collective::kAllToAllV;
      counts = elements_of(in_rows, input, e.factor, getSize());
      receive = elements_of(out_rows, output, e.factor, getSize());
    }
    return start({.type = OpType::ALLTOALL_BASE,
                  .title = title("weft:all_to_all"),
                  .inputs = {input},
                  .results = {output},
                  .call = call(r, {in, out}, counts, receive),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }
  c10::intrusive_ptr<c10d::Work> alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) override {
    check_dense(outputs), check_dense(inputs);
    check_one_per_rank(outputs, getSize()), check_one_per_rank(inputs, getSize());
    const Tensor in = joined_flat(inputs, inputs[0]);
    std::int64_t total = 0;
    std::vector<std::size_t> counts, receive;
    const auto e = moved(inputs[0]);
    for (const Tensor& t : inputs) counts.push_back(t.numel() * e.factor);
    for (const Tensor& t : outputs) receive.push_back(t.numel() * e.factor), total += t.numel();
    const Tensor out = at::empty({total}, inputs[0].options());
    return start(
        {.type = OpType::ALLTOALL,
         .title = title("weft:all_to_all"),
         .inputs = inputs,
         .results = outputs,
         .call =
             call({.collective = Collective::kAllToAllV, .in = in.data_ptr(), .out = out.data_ptr(), .type = e.type},
                  {in, out}, counts, receive),
         .after = cut(out, outputs),
         .timeout = o.timeout,
         .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& o) override {
    return start({.type = OpType::BARRIER,
                  .title = title("weft:barrier"),
                  .call = [](Communicator& c) { return c.barrier(); },
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }
  void monitoredBarrier(const c10d::BarrierOptions& o, bool) override {
    const milliseconds timeout = o.timeout == c10d::kUnsetTimeout ? options_->timeout : o.timeout;
    start({.type = OpType::BARRIER,
           .title = title("weft:monitored_barrier"),
           .call = [timeout](Communicator& c) -> Status {
             Status passed = c.monitored_barrier(timeout);
             if (passed || passed.error().code != Code::kTimeout) return passed;
             return tl::make_unexpected(late_at_barrier(passed.error(), c.rank(), timeout));
           },
           .async = false});
  }

 private:
  template <class O>
  Task reduce_one(const Tensor& t, const O& o, OpType type, const char* title, bool copied = false) {
    const Tensor flat = copied ? t.clone(at::MemoryFormat::Contiguous) : t.contiguous();
    const auto r = reduction(o.reduceOp, t);
    return {.type = type,
            .title = title,
            .inputs = {t},
            .results = {t},
            .call = call({.collective = Collective::kAllReduce,
                          .in = flat.data_ptr(),
                          .out = flat.data_ptr(),
                          .count = flat.numel() * r.elements.factor,
                          .type = r.elements.type,
                          .op = r.op,
                          .scalar = r.scalar},
                         {flat}),
            .after = copy_back(t, flat),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
  Task scatter_flat(const Tensor& output, const Tensor& input, const c10d::ReduceScatterOptions& o) {
    check_dense(output), check_dense(input);
    TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
    TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize(), "weft: the input must have ", getSize(),
                      " times the elements of the output");
    const Tensor in = input.contiguous();
    const Tensor out = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
    const auto r = reduction(o.reduceOp, input);
    return {.type = OpType::_REDUCE_SCATTER_BASE,
            .title = title("weft:_reduce_scatter_base"),
            .inputs = {input},
            .results = {output},
            .call = call({.collective = Collective::kReduceScatter,
                          .in = in.data_ptr(),
                          .out = out.data_ptr(),
                          .count = out.numel() * r.elements.factor,
                          .type = r.elements.type,
                          .op = r.op,
                          .scalar = r.scalar},
                         {in, out}),
            .after = copy_back(output, out),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
};

}  // namespace weft::torch_adapter
