// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/early_start.hpp"

namespace semantic::engine {

namespace {

/// Ends a wait for the disk when the request is to stop, or when another one wants a step.
class step_guard final : public storage::prefix_arrival::guard {
  public:
    step_guard(const early_start& start, const batch_outputs& outputs)
        : start_(start), outputs_(outputs) {}

    bool should_give_up() const override {
        return outputs_.are_requests_arriving() || start_.wants_to_stop();
    }

  private:
    const early_start& start_;
    const batch_outputs& outputs_;
};

}  // namespace

early_start::layer early_start::wait(int index, const batch_outputs& outputs) const {
    const step_guard guard(*this, outputs);
    if (arrival_->wait(index, guard) != storage::prefix_arrival::outcome::there)
        return layer::not_there;
    return arrival_->complete() ? layer::last : layer::there;
}

}  // namespace semantic::engine
