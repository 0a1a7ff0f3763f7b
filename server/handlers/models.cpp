#include "server/handlers/models.hpp"

#include "protocol/models.hpp"

namespace semantic::server {

namespace {

std::vector<protocol::model_card> cards(const services& with) {
    const engine::model_info& info = with.engines.get()->info();
    return {{info.id, info.id, info.created_unix, info.context_tokens_max}};
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
