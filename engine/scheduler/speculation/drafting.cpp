#include "engine/scheduler/speculation/drafting.hpp"

#include <utility>

namespace semantic::engine {

draft_view drafting::look(std::span<const storage::token_id> tokens, int most) {
    draft_.clear();
    const repeat_index::match found = repeats_.find(tokens);
    alike_ = most > 0 ? found.alike : 0;
    if (alike_ == 0) return {};
    draft_ = continue_from(tokens, found, static_cast<std::size_t>(most));
    return {most, trust_.chance(alike_)};
}

void drafting::begin(storage::token_id latest, int count) {
    running_.assign(1, latest);
    running_.insert(running_.end(), draft_.begin(), draft_.begin() + count);
    taken_ = 0;
}

bool drafting::take(storage::token_id drawn) {
    const auto next = static_cast<std::size_t>(taken_) + 1;
    if (next >= running_.size() || running_[next] != drawn) return false;
    ++taken_;
    return true;
}

drafting::outcome drafting::end() {
    const int run = running_.empty() ? 0 : static_cast<int>(running_.size()) - 1;
    if (run > 0)
        trust_.learn(alike_, run, taken_);
    else if (alike_ > 0)
        trust_.forget(alike_);
    alike_ = 0;
    running_.clear();
    return {run, std::exchange(taken_, 0)};
}

}  // namespace semantic::engine
