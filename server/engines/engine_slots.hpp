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
    /// The slot whose model requests mean that name none: the first one, where it has a model or
    /// gets one; else the first that has.
    engine_slot& usual();
    const engine_slot& usual() const;
    std::size_t usual_index() const;
    /// The slot where the model is, or is being loaded.
    std::optional<std::size_t> find(std::size_t model) const;
    /// The models that are loaded or being loaded, but for those of one slot.
    std::vector<std::size_t> models_beside(std::optional<std::size_t> slot = {}) const;

    /// Returns: the engine of that model, where it is ready; else the usual one; as
    /// engine_slot::lease().
    engine_lease lease(std::optional<std::size_t> model = {});
    /// As engine_slot::look() of the usual one.
    engine_lease look() { return usual().look(); }
    /// Engines to look at, the usual one first.
    std::vector<engine_lease> look_at_all();
    slot_state state() const { return usual().state(); }
    engine::load_progress progress() const { return usual().progress(); }
    /// Whether any engine is ready.
    bool any_ready() const;

  private:
    std::vector<std::unique_ptr<engine_slot>> slots_;
};

}  // namespace semantic::server
