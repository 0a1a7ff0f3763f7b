// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_switches.hpp"

namespace semantic::server {

model_switches::model_switches(engine_slots& slots, const switch_options& options) : slots_(slots) {
    for (std::size_t i = 0; i < slots.size(); ++i)
        switches_.push_back(std::make_unique<model_switch>(slots.at(i), options));
}

protocol::result<std::uint64_t> model_switches::ask(std::size_t slot,
                                                    std::optional<std::size_t> model,
                                                    std::chrono::milliseconds drain) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (i == slot || is_settled(slots_.at(i).state().phase)) continue;
        protocol::failure busy =
            fail(protocol::errc::conflict, "another model is being loaded already");
        busy.retry_after = std::chrono::seconds(5);
        return busy;
    }
    return switches_.at(slot)->ask(model, drain);
}

bool model_switches::close(std::chrono::steady_clock::time_point until) {
    bool any = false;
    // In this order, since each one must be closed.
    for (const auto& each : switches_) any = has_engine(each->close(until)) || any;
    return any;
}

bool model_switches::join_those_with_engine() {
    bool all = true;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const slot_phase phase = slots_.at(i).state().phase;
        const bool is_over =
            phase == slot_phase::empty || phase == slot_phase::failed || phase == slot_phase::idle;
        if (has_engine(phase) || is_over)
            switches_[i]->join();
        else
            all = false;
    }
    return all;
}

void model_switches::join() {
    for (const auto& each : switches_) each->join();
}

std::uint64_t model_switches::exchanges_done() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& each : switches_) sum += each->exchanges_done();
    return sum;
}

std::uint64_t model_switches::exchanges_failed() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& each : switches_) sum += each->exchanges_failed();
    return sum;
}

}  // namespace semantic::server
