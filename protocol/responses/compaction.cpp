// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/compaction.hpp"

#include <boost/json.hpp>

#include <utility>

#include "protocol/reply_parts.hpp"
#include "protocol/responses/response_stream.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

constexpr std::string_view replacing_prefix = "semantic-all-";

}  // namespace

std::string seal_summary(std::string_view summary, bool replaces_all) {
    return std::string(replaces_all ? replacing_prefix : "") + carrying_signature_of(summary);
}

std::optional<sealed_summary> open_summary(std::string_view sealed) {
    const bool replaces_all = sealed.starts_with(replacing_prefix);
    if (replaces_all) sealed.remove_prefix(replacing_prefix.size());
    auto text = carried_by(sealed);
    if (!text) return std::nullopt;
    return sealed_summary{*std::move(text), replaces_all};
}

bool is_users_message(const json::value& item) {
    const json::object* object = item.if_object();
    if (object == nullptr) return false;
    const json::value* type = object->if_contains("type");
    const json::value* role = object->if_contains("role");
    const bool is_message = type == nullptr || *type == "message";
    return is_message && role != nullptr && *role == "user";
}

void compaction_collector::on_admitted(const engine::admitted& event) {
    usage_ = event.usage;
    agent_ = event.agent.str();
}

result<std::string> compaction_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    if (is_white_space(summary_)) return fail(errc::bad_value, "the model gave no summary of this");
    json::array output;
    for (json::value& each : items_)
        if (is_users_message(each)) output.push_back(std::move(each));
    output.push_back({{"id", ids_->make("cmp_")},
                      {"type", "compaction"},
                      {"encrypted_content", seal_summary(summary_, false)}});
    return to_text(json::object{{"id", id_},
                                {"object", "response.compaction"},
                                {"created_at", created_unix_},
                                {"output", std::move(output)},
                                {"usage", usage_object(usage_, event.output_tokens, 0)},
                                {"semantic", memory_object(agent_, usage_, event)}});
}

}  // namespace semantic::protocol::responses
