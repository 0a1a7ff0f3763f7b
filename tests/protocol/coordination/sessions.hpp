// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sessions for tests, short to write.

#include <string>
#include <utility>
#include <vector>

#include "protocol/coordination/floor.hpp"
#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/session.hpp"

namespace semantic::protocol::coordination {

/// Agents a, b, c, ... of the names Ann, Bob, Cid, ..., with these roles.
inline session session_with(const std::vector<std::string>& roles,
                            topology form = topology::turn_by_turn,
                            debate_format format = debate_format::free_form) {
    static const char* const names[]{"Ann", "Bob", "Cid", "Dan", "Eve", "Fay"};
    session s{"coord_1"};
    s.form = form;
    s.format = format;
    for (std::size_t i = 0; i < roles.size(); ++i)
        s.agents.push_back({std::string(1, static_cast<char>('a' + i)), names[i], roles[i]});
    return s;
}

/// Takes a turn by `plan` with this answer.
inline void take_turn(session& s, const turn_plan& plan, const std::string& text) {
    apply(s, said{plan.agent, plan.to, plan.reads, "m" + std::to_string(s.lines.size()), text});
}

/// Takes the next `turns` turns. Returns: who spoke, one letter each ("abc").
inline std::string speakers(session& s, int turns) {
    std::string letters;
    for (int i = 0; i < turns; ++i) {
        auto plan = next_turn(s, {});
        if (!plan) break;
        letters += s.agents[static_cast<std::size_t>(plan->agent)].id;
        take_turn(s, *plan, "x" + std::to_string(s.turn));
    }
    return letters;
}

}  // namespace semantic::protocol::coordination
