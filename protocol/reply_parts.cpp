// SPDX-License-Identifier: Apache-2.0
#include "protocol/reply_parts.hpp"

#include <boost/json.hpp>

#include "protocol/wire/json.hpp"

namespace semantic::protocol {

namespace {

boost::json::object drafts_object(const engine::draft_usage& drafts) {
    boost::json::object object;
    for (std::size_t i = 0; i < engine::draft_origin_count; ++i) {
        const engine::draft_count& count = drafts.by_origin[i];
        if (count.drafted > 0)
            object[engine::draft_origin_names[i]] =
                boost::json::object{{"drafted", count.drafted}, {"taken", count.taken}};
    }
    return object;
}

}  // namespace

boost::json::object memory_object(std::string_view agent, const engine::prompt_usage& usage) {
    boost::json::object object{{"agent", agent},
                               {"prompt_tokens", usage.prompt_tokens},
                               {"reused_tokens", usage.reused_tokens},
                               {"restored_tokens", usage.restored_tokens},
                               {"computed_tokens", usage.created_tokens + usage.recomputed_tokens},
                               {"match", engine::to_string(usage.match)},
                               {"miss_reason", engine::to_string(usage.why)}};
    if (!usage.not_held.empty())
        object["not_held"] = boost::json::array(usage.not_held.begin(), usage.not_held.end());
    if (!usage.template_fit.empty())
        object["template_fit"] =
            boost::json::array(usage.template_fit.begin(), usage.template_fit.end());
    return object;
}

void add_ending(boost::json::object& memory, const engine::finished& event) {
    memory["saved"] = event.saved;
    if (event.unsaved != engine::unsaved_reason::none)
        memory["not_saved"] = engine::to_string(event.unsaved);
    if (event.written)
        memory["bytes_written"] =
            boost::json::object{{"turn", event.written->turn}, {"total", event.written->total}};
    if (event.drafts.sum().drafted > 0) memory["drafts"] = drafts_object(event.drafts);
}

boost::json::object memory_object(std::string_view agent, const engine::prompt_usage& usage,
                                  const engine::finished& event) {
    boost::json::object object = memory_object(agent, usage);
    add_ending(object, event);
    return object;
}

void add_left_out(boost::json::object& memory, const std::vector<std::string>& left_out) {
    if (!left_out.empty())
        memory["left_out"] = boost::json::array(left_out.begin(), left_out.end());
}

std::optional<failure> unfinished(const engine::finished& event) {
    std::string after = " after " + std::to_string(event.output_tokens) +
                        (event.output_tokens == 1 ? " token" : " tokens");
    if (event.why == engine::stop_reason::cancelled)
        return failure{errc::cancelled, "the answer was stopped" + after + "; ask again"};
    if (event.why == engine::stop_reason::deadline)
        return failure{errc::timeout, "the deadline passed" + after};
    return std::nullopt;
}

bool is_white_space(std::string_view text) noexcept {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::optional<std::string> checked_arguments(std::string_view arguments_json) {
    auto parsed = parse_json(arguments_json, json_limits{});
    if (!parsed || !parsed->is_object()) return std::nullopt;
    return to_text(*parsed);
}

}  // namespace semantic::protocol
