// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shown state of a server at one moment, and the messages that carry it: all of it at first,
// then what has changed. Pure.

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/types/probe.hpp"
#include "storage/types/probe.hpp"

namespace semantic::protocol::live {

using shown_agents = std::map<std::string, std::string>;  // objects, by whatever names one

/// Each a whole JSON value as text, so that what has not changed is found by comparing.
struct shown_state {
    std::shared_ptr<const shown_agents> agents = std::make_shared<shown_agents>();  // not null
    std::string sessions = "[]";
    std::string runs = "[]";
    std::string nodes = "[]";  // nodes_text() of nodes.hpp
    std::string model = "null";
    std::string gauges = "null";
};

/// What happened between two states.
struct happened {
    boost::json::array events{};
    boost::json::value step{};
    std::uint64_t missed = 0;  // events that nobody fetched in time
};

/// Returns: {"type":"snapshot","seq",…the whole state,"recent":[events]}.
std::string snapshot_message(const shown_state& now, const boost::json::array& recent,
                             std::uint64_t seq);
/// Returns: {"type":"delta","seq",…the members that differ between two states, and `news`}; empty
/// where nothing changed.
std::string delta_message(const shown_state& before, const shown_state& now, const happened& news,
                          std::uint64_t seq);

/// The pool's gauges, which only the engine knows.
struct pool_gauges {
    std::uint64_t bytes = 0;
    std::uint64_t held_bytes = 0;
    std::uint64_t agents_hot = 0;
    std::uint64_t agents_warm = 0;
    std::uint64_t agents_dirty = 0;
    std::uint64_t state_bytes = 0;  // part of held_bytes: recurrent states
};
/// Returns: the gauges of the whole server, the same for all viewers: counters since the model was
/// loaded, and current values.
std::string gauges_text(const engine::engine_probe& work, const storage::store_probe& store,
                        const pool_gauges& pool);

}  // namespace semantic::protocol::live
