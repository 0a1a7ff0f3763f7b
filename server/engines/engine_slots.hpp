// SPDX-License-Identifier: Apache-2.0
#pragma once
// The places of all engines that may be loaded at once, one for each model of --max-loaded.
// Owner: app. Thread: any.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "server/engines/engine_slot.hpp"

namespace semantic::server {

class engine_slots {
  public:
    /// The first one waits for the server's first model, the others are empty. Requires: count > 0.
    explicit engine_slots(std::size_t count = 1);

    std::size_t size() const noexcept { return slots_.size(); }
    engine_slot& at(std::size_t slot) { return *slots_.at(slot); }
    const engine_slot& at(std::size_t slot) const { return *slots_.at(slot); }
    /// The slot for requests that name no model: the first slot that has a model or gets one; slot
    /// 0 where none has.
    engine_slot& usual();
    const engine_slot& usual() const;
    std::size_t usual_index() const;
    /// The slot that has the model, or is loading it or will; nothing where there is none.
    std::optional<std::size_t> find(std::size_t model) const;
    /// The models that are loaded or being loaded in slots other than `slot`.
    std::vector<std::size_t> models_beside(std::optional<std::size_t> slot = {}) const;

    /// Leases an engine for a request: that of `model` where it is ready, else the usual one. Empty
    /// as engine_slot::lease().
    engine_lease lease(std::optional<std::size_t> model = {});
    /// As engine_slot::look() of the usual one.
    engine_lease look() { return usual().look(); }
    /// All engines that can be looked at, the usual one first.
    std::vector<engine_lease> look_at_all();
    slot_state state() const { return usual().state(); }
    engine::load_progress progress() const { return usual().progress(); }
    /// Whether any engine is ready.
    bool any_ready() const;

  private:
    std::vector<std::unique_ptr<engine_slot>> slots_;
};

}  // namespace semantic::server
