// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a slot for an engine is about, and what follows when something ends, breaks or is asked for.
// Pure values; models are numbers, as the registry counts them.
//
//   idle ─asked─► loading ─done─► ready ─asked─► draining ─► saving ─► releasing ─► loading ─► …
//                                                                              └───► empty
//
// After the start, a model that is loaded is verified before it is ready. What breaks in loading or
// verifying brings the former model back; when that breaks too, the slot has failed and says why,
// and can be asked again. What breaks in saving or releasing leaves the model where it is. A slot
// that is asked for no model is empty in the end.

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

namespace semantic::server {

enum class slot_phase {
    idle,
    loading,
    verifying,
    ready,
    draining,
    saving,
    releasing,
    failed,
    empty,
};
const char* to_string(slot_phase phase) noexcept;

struct slot_state {
    slot_phase phase = slot_phase::idle;
    std::optional<std::size_t> model{};   // whose engine is there, or is being loaded
    std::optional<std::size_t> target{};  // draining to releasing: which one comes next, if any
    std::optional<std::size_t> former{};  // loading, verifying: which one comes back if this breaks
    bool is_start = false;                // loading: the server's first; nothing to go back to
    std::string why{};                    // what broke: in failed, and since the last swap
    bool operator==(const slot_state&) const = default;
};

struct slot_asked {  // somebody wants this model, or none
    std::optional<std::size_t> model{};
};
struct slot_done {};  // the phase's work has succeeded
struct slot_broke {   // the phase's work has failed
    std::string why;
};
using slot_event = std::variant<slot_asked, slot_done, slot_broke>;

/// Returns: the state after the event; nothing when the event does not fit the state `now`. A
/// fault's text is kept in `why`.
std::optional<slot_state> next_state(const slot_state& now, const slot_event& event);

/// Whether the slot stays in this phase until somebody asks for a model: idle, ready, failed,
/// empty.
bool is_settled(slot_phase phase) noexcept;
/// Whether an engine is there that may be looked at: ready, draining, saving.
bool has_engine(slot_phase phase) noexcept;

}  // namespace semantic::server
