// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/token_scores.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace semantic::protocol::openai {

namespace json = boost::json;

namespace {

json::object scored(const engine::scored_token& token) {
    // The vendor's number for a token of probability 0: JSON has no infinity.
    constexpr float impossible = -9999.0f;
    json::array bytes;
    for (char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
    return {{"token", token.text},
            {"logprob", std::max(token.log_probability, impossible)},
            {"bytes", std::move(bytes)}};
}

}  // namespace

void append_scores(json::array& to, std::span<const engine::token_scores> scores) {
    for (const engine::token_scores& one : scores) {
        json::object entry = scored(one.chosen);
        json::array top;
        for (const engine::scored_token& token : one.top) top.push_back(scored(token));
        entry["top_logprobs"] = std::move(top);
        to.push_back(std::move(entry));
    }
}

}  // namespace semantic::protocol::openai
