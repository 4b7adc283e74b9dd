#pragma once

#include "core.h"
#include "tensors.h"

namespace weft::torch_adapter {

// The collectives of c10d::Backend whose result is every rank's input: all_gather and gather, in all forms.
class Gathers : public Core {
 public:
  using Core::Core;

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& o) override {
    const Tensor& in = only(inputs);
    TORCH_CHECK_VALUE(outputs.size() == 1, "weft: one list of outputs is expected");
    return start(gather_list(outputs[0], in, o, OpType::ALLGATHER, title("weft:all_gather")));
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(Tensor& output, Tensor& input,
                                                 const c10d::AllgatherOptions& o) override {
    return start(gather_flat(output, input, o));
  }
  // One call for every pair of input and list of outputs: outputs[i][rank] is rank's inputs[i].
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& o) override {
    TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(getSize()),
                      "weft: a list of outputs for every rank is expected");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_dense(inputs[i]);
      Tensors parts;
      for (const Tensors& of_rank : outputs) {
        TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "weft: an output for every input is expected");
        parts.push_back(of_rank[i]);
      }
      tasks.push_back(gather_list(parts, inputs[i], o, OpType::ALLGATHER_COALESCED, title("weft:all_gather")));
    }
    return start(joined(std::move(tasks), OpType::ALLGATHER_COALESCED, title("weft:all_gather_coalesced"), o.asyncOp));
  }
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::AllgatherOptions& o) override {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "weft: an output for every input is expected");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) tasks.push_back(gather_flat(outputs[i], inputs[i], o));
    return start(
        joined(std::move(tasks), OpType::_ALLGATHER_BASE, title("weft:all_gather_into_tensor_coalesced"), o.asyncOp));
  }

  c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::GatherOptions& o) override {
    const Tensor& t = only(inputs);
    const bool is_root = o.rootRank == getRank();
    TORCH_CHECK_VALUE(outputs.size() == (is_root ? 1 : 0), "weft: gather has outputs on its root only");
    const Tensor in = t.contiguous();
    const auto e = moved(t);
    Tensors parts = is_root ? outputs[0] : Tensors();
    Tensor all;
    if (is_root) {
      check_parts(parts, t, getSize());
      all = at::empty({getSize() * t.numel()}, t.options());
    }
    return start({.type = OpType::GATHER,
                  .title = title("weft:gather"),
                  .inputs = {t},
                  .results = parts,
                  .call = call({.collective = Collective::kGather,
                                .in = in.data_ptr(),
                                .out = is_root ? all.data_ptr() : nullptr,
                                .count = in.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {in, all}),
                  .after = is_root ? cut(all, parts) : nullptr,
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  // Every rank's input, one after the other, in the root's output; other ranks' outputs are ignored. Overrides a
  // function of torch 2.14; 2.13 has none.
  virtual c10::intrusive_ptr<c10d::Work> gather_single(Tensor& output, Tensor& input, const c10d::GatherOptions& o) {
    check_dense(input);
    const bool is_root = o.rootRank == getRank();
    if (is_root) {
      check_dense(output);
      TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
      TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(), "weft: the root's output must have ", getSize(),
                        " times the elements of the input");
    }
    const Tensor in = input.contiguous();
    const Tensor out = !is_root                 ? Tensor()
                       : output.is_contiguous() ? output
                                                : at::empty(output.sizes(), output.options());
    const auto e = moved(input);
    return start({.type = OpType::GATHER,
                  .title = title("weft:gather"),
                  .inputs = {input},
                  .results = is_root ? Tensors{output} : Tensors(),
                  .call = call({.collective = Collective::kGather,
                                .in = in.data_ptr(),
                                .out = is_root ? out.data_ptr() : nullptr,
                                .count = in.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {in, out}),
                  .after = is_root ? copy_back(output, out) : nullptr,
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

 private:
  Task gather_list(const Tensors& outputs, const Tensor& t, const c10d::AllgatherOptions& o, OpType type,
                   const char* title) {
    check_one_per_rank(outputs, getSize());
    check_dense(outputs);
    const Tensor in = t.contiguous();
    const auto e = moved(t);
    std::vector<std::size_t> counts;
    std::int64_t total = 0;
    bool even = true;
    for (const Tensor& out : outputs) {
      TORCH_CHECK_VALUE(out.scalar_type() == t.scalar_type(), "weft: input and outputs differ in their type");
      counts.push_back(out.numel() * e.factor);
      total += out.numel();
      even = even && out.numel() == t.numel();
    }
    TORCH_CHECK_VALUE(outputs[getRank()].numel() == t.numel(),
                      "weft: this rank's output has another size than its input");
    const Tensor all = at::empty({total}, t.options());
    return {.type = type,
            .title = title,
            .inputs = {t},
            .results = outputs,
            .call = call({.collective = even ? Collective::kAllGather : Collective::kAllGatherV,
                          .in = in.data_ptr(),
                          .out = all.data_ptr(),
                          .count = in.numel() * e.factor,
                          .type = e.type},
                         {in, all}, even ? std::vector<std::size_t>() : counts),
            .after = cut(all, outputs),
            .recorded_results = {all},  // as NCCL's: the analyser counts the elements of the first
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
  Task gather_flat(const Tensor& output, const Tensor& input, const c10d::AllgatherOptions& o) {
    check_dense(output), check_dense(input);
    TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
    TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(), "weft: the output must have ", getSize(),
                      " times the elements of the input");
    const Tensor in = input.contiguous();
    const Tensor out = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
    const auto e = moved(input);
    return {.type = OpType::_ALLGATHER_BASE,
            .title = title("weft:_all_gather_base"),
            .inputs = {input},
            .results = {output},
            .call = call({.collective = Collective::kAllGather,
                          .in = in.data_ptr(),
                          .out = out.data_ptr(),
                          .count = in.numel() * e.factor,
                          .type = e.type},
                         {in, out}),
            .after = copy_back(output, out),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
};

}  // namespace weft::torch_adapter
