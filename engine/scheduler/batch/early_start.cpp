#include "engine/scheduler/batch/early_start.hpp"

namespace semantic::engine {

early_start::layer early_start::wait(int index, const std::function<bool()>& step_wanted) const {
    auto give_up = [&] { return step_wanted() || wants_to_stop(); };
    if (arrival_->wait(index, give_up) != storage::prefix_arrival::outcome::there)
        return layer::not_there;
    return arrival_->complete() ? layer::last : layer::there;
}

}  // namespace semantic::engine
