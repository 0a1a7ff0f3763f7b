// SPDX-License-Identifier: Apache-2.0
#pragma once
// The switches of all slots. Only one slot changes its model at a time, so that memory plans hold.
// Owner: app. Thread: any; the callbacks run on a switch's thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "server/engines/engine_slots.hpp"
#include "server/models/model_switch.hpp"

namespace semantic::server {

class model_switches {
  public:
    model_switches(engine_slots& slots, const switch_options& options);

    /// As model_switch::ask() of that slot. Errors: conflict also while another slot changes.
    protocol::result<std::uint64_t> ask(std::size_t slot, std::optional<std::size_t> model,
                                        std::chrono::milliseconds drain);
    /// As model_switch::close(). Returns: whether a slot has an engine that must be saved.
    bool close(std::chrono::steady_clock::time_point until);
    /// As model_switch::join(), for the slots that have an engine or none to wait for. Returns:
    /// false where another slot is in a step (a load) that must not be waited for.
    bool join_those_with_engine();
    /// As model_switch::join() of all.
    void join();

    std::uint64_t exchanges_done() const noexcept;
    std::uint64_t exchanges_failed() const noexcept;

  private:
    engine_slots& slots_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<model_switch>> switches_;
};

}  // namespace semantic::server
