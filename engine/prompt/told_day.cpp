// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/told_day.hpp"

#include <ctime>
#include <set>

#include "engine/prompt/prompt_notes.hpp"

namespace semantic::engine {

namespace {

// So many earlier dates, the latest first, are tried for a conversation that another agent began.
constexpr std::size_t days_max = 8;

// The conversation up to the first answer.
conversation opening_of(const conversation& chat) {
    conversation opening{chat.system, {}, chat.tools};
    opening.template_values = chat.template_values;
    for (const message& one : chat.messages) {
        if (one.from == role::assistant) break;
        opening.messages.push_back(one);
    }
    return opening;
}

}  // namespace

std::string local_day() {
    std::time_t now = std::time(nullptr);
    std::tm day{};
    localtime_r(&now, &day);
    char text[16];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &day)};
}

render_options rendering_of(const thinking_params& wanted, std::string day) {
    render_options options;
    options.date = std::move(day);
    options.thinking = wanted.enabled;
    options.reasoning_effort = wanted.effort.value_or(options.reasoning_effort);
    return options;
}

// Whether a memory has this conversation at least up to its first answer, rendered with `day`.
bool told_day::continues_on(const std::string& day, const generation_request& request) const {
    const render_options then = rendering_of(request.thinking, day);
    auto opening = template_.render(opening_of(request.chat), then);
    auto whole = template_.render(request.chat, then);
    if (!opening || !whole) return false;
    auto closest = store_.closest(request.tenant, *whole, 1);
    return !closest.empty() &&
           closest[0].common_bytes >= storage::common_prefix_bytes(*opening, *whole);
}

std::string told_day::day_for(const generation_request& request) const {
    if (!template_.prints_day()) return today_();
    if (auto own = memories_.own_memory(request)) {
        std::string noted = note_of(*own, day_note);
        return noted.empty() ? today_() : noted;
    }
    // Without an answer in it the conversation is new.
    if (opening_of(request.chat).messages.size() == request.chat.messages.size()) return today_();
    std::set<std::string, std::greater<>> days;  // the latest first
    for (const storage::agent_summary& other : store_.list(request.tenant))
        if (auto state = store_.find(other.id); state && !state->is_private())
            if (std::string day = note_of(*state, day_note); !day.empty()) days.insert(day);
    std::size_t tried = 0;
    for (const std::string& day : days) {
        if (tried++ == days_max) break;
        if (continues_on(day, request)) return day;
    }
    return today_();
}

}  // namespace semantic::engine
