// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace semantic::engine {

namespace {

enum class decision { passes, undecided, stops };

/// Whether `rest`, the text from some position to its end, begins with a stop string (stops; its
/// position in `stops` is written to `index`), is itself the begin of one (undecided), or neither
/// (passes).
decision decide(std::string_view rest, const std::vector<std::string>& stops, std::size_t& index) {
    decision found = decision::passes;
    for (std::size_t i = 0; i < stops.size(); ++i) {
        if (rest.starts_with(stops[i])) {
            index = i;
            return decision::stops;
        }
        if (std::string_view(stops[i]).starts_with(rest)) found = decision::undecided;
    }
    return found;
}

}  // namespace

stop_matcher::stop_matcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
    // Of two that begin at the same position the shorter is complete first, so it is tried first.
    std::stable_sort(stops_.begin(), stops_.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
}

stop_matcher::output stop_matcher::push(std::string_view text) {
    output out;
    if (done_) return out;
    held_.append(text);
    std::size_t index = 0;
    for (std::size_t at = 0; at < held_.size(); ++at) {
        const decision d = decide(std::string_view(held_).substr(at), stops_, index);
        if (d == decision::passes) continue;
        out.text = held_.substr(0, at);
        if (d == decision::stops) {
            out.stop = stops_[index];
            done_ = true;
            held_.clear();
        } else {
            held_.erase(0, at);
        }
        return out;
    }
    out.text = std::exchange(held_, {});
    return out;
}

std::string stop_matcher::finish() {
    done_ = true;
    std::size_t index = 0;
    for (std::size_t at = 0; at < held_.size(); ++at) {
        // The text is held because a stop string may have begun at its start. That was never
        // completed, but a shorter one inside of it may be.
        if (decide(std::string_view(held_).substr(at), stops_, index) == decision::stops) {
            held_.resize(at);
        }
    }
    return std::exchange(held_, {});
}

}  // namespace semantic::engine
