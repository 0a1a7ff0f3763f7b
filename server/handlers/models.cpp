#include "server/handlers/models.hpp"

#include <utility>

#include "protocol/answer_request.hpp"
#include "protocol/models.hpp"

namespace semantic::server {

namespace {

std::vector<protocol::model_card> cards(const services& with) {
    const engine::model_info& info = with.engines.get()->info();
    protocol::model_card card{info.id, info.id, info.created_unix, info.context_tokens_max};
    card.max_tokens = protocol::request_limits().max_tokens_max;
    card.thinks = info.answers.thinking != engine::thinking_format::none;
    card.has_effort = info.chat_template == "harmony";
    card.kv_bits = info.kv_bits;
    card.kv_recipe = info.kv_recipe;
    card.kv_recipe_reason = info.kv_recipe_reason;
    card.call_format = name_of(info.answers.calls);
    card.thinking_format = name_of(info.answers.thinking);
    card.chat_template = info.chat_template;
    card.chat_template_reason = info.chat_template_reason;
    card.chat_abilities = info.chat_abilities;
    return {std::move(card)};
}

response reply_with(const request& to, protocol::result<std::string> body) {
    return body ? json_response(std::move(*body)) : error_response(to, body.error());
}

}  // namespace

response get_models(const services& with, const request& incoming) {
    protocol::models_query query{incoming.query("limit"), incoming.query("after_id"),
                                 incoming.query("before_id")};
    return reply_with(incoming, protocol::models_body(cards(with), query));
}

response get_model(const services& with, const request& incoming) {
    return reply_with(incoming, protocol::model_body(cards(with), incoming.parameter));
}

}  // namespace semantic::server
