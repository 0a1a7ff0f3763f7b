// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is known of every model of the registry, loaded or not: from its files while it is not, from
// its engine once it was.
// Owner: app. Thread: any.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "server/config/config.hpp"
#include "server/engines/engine_slots.hpp"
#include "server/models/memory_plan.hpp"
#include "server/models/registry.hpp"

namespace semantic::server {

struct model_facts {
    std::string fault;        // why its files cannot be read: nothing else is known then
    engine::model_info info;  // as far as files say: no kernels, weights, pool and fingerprint
};

class known_models {
  public:
    known_models(registry models, config settings);

    const registry& list() const noexcept { return models_; }
    /// The server's options, overridden by the model's own.
    config settings_of(std::size_t model) const;
    /// What is known of the model. `pool_bytes`: the size of the pool that it would have where its
    /// options do not say; 0: not known. Blocks where the model's files were not read yet.
    model_facts facts(std::size_t model, std::uint64_t pool_bytes);
    /// Why the model certainly cannot be loaded now, together with the models `others`; empty: it
    /// may. `pool`: bytes of the pool that they share. Blocks.
    std::string fault(std::size_t model, const std::vector<std::size_t>& others = {},
                      std::uint64_t pool = 0) const;
    /// These models as plan_for() takes them; those without files are left out.
    std::vector<planned_model> planned(const std::vector<std::size_t>& models) const;
    /// Notes that the model was loaded, and what its engine says of it.
    void was_loaded(std::size_t model, const engine::model_info& info);
    /// Notes why the model could not be loaded.
    void has_failed(std::size_t model, std::string why);
    /// Why the model could not be loaded the last time; empty: it could, or nobody tried.
    std::string failure(std::size_t model) const;

  private:
    registry models_;
    config settings_;
    mutable std::mutex mutex_;
    std::map<std::size_t, model_facts> facts_;     // guarded by mutex_
    std::map<std::size_t, std::string> failures_;  // guarded by mutex_
};

/// Why the model certainly cannot be loaded in that slot while the other slots keep theirs; empty:
/// it may. Blocks.
std::string fault_of_model(const known_models& models, engine_slots& engines, std::size_t model,
                           std::size_t slot);

/// Reads what a model's files say, with the options in effect for it. Never throws: a fault is in
/// the result. Blocks.
model_facts read_facts(const registered_model& model, const config& settings,
                       std::uint64_t pool_bytes);

}  // namespace semantic::server
