// SPDX-License-Identifier: Apache-2.0
// Parsers of what clients of late 2026 send, with what is done to a conversation before it is a
// prompt: edits, definitions of late tools, their rendering. And bodies that come compressed.

#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <zlib.h>
#include <zstd.h>

#include "engine/text/placed_tools.hpp"
#include "engine/text/template/chat_template.hpp"
#include "protocol/agents/agents.hpp"
#include "protocol/anthropic/context_edits.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/anthropic/safeguards.hpp"
#include "protocol/mcp/message.hpp"
#include "protocol/mcp/tools.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/responses/request.hpp"
#include "server/http/connection/body_decoder.hpp"
#include "tests/cost/parsers.hpp"

namespace semantic::cost {

namespace {

using engine::chat_template;
namespace wire = semantic::protocol;

/// As a request's: a failure where there are too many late tools for one.
bool tell_late_tools(engine::conversation& chat, const chat_template& family) {
    storage::work_budget budget;
    try {
        return write_placed_tools(chat, family, budget).has_value();
    } catch (const storage::work_limit_exceeded&) {
        return false;
    }
}

/// The prompt's bytes in place of its tokens: a tokenizer has a line of its own.
wire::result<int> length_of(const engine::conversation& chat, const chat_template& family) {
    engine::conversation told = chat;
    if (!tell_late_tools(told, family)) return wire::fail(wire::errc::bad_value, "late tools");
    const auto text = family.render_marked(told);
    if (!text) return wire::fail(wire::errc::bad_value, text.error().what);
    return static_cast<int>(text->bytes().size());
}

class length_counter final : public wire::anthropic::prompt_counter {
  public:
    explicit length_counter(const chat_template& family) : family_(family) {}
    wire::result<int> count_tokens(const engine::conversation& chat) const override {
        return length_of(chat, family_);
    }

  private:
    const chat_template& family_;
};

void add_prompts(std::vector<parser>& all, const std::string& name,
                 std::shared_ptr<const chat_template> family) {
    all.push_back({"late messages, " + name, &late_messages(), [family](std::string_view body) {
                       auto parsed = wire::anthropic::parse_messages(body);
                       return parsed && length_of(parsed->chat, *family).has_value();
                   }});
    all.push_back({"late responses, " + name, &late_responses(), [family](std::string_view body) {
                       auto parsed = wire::responses::parse_response(body);
                       return parsed && length_of(parsed->chat, *family).has_value();
                   }});
    all.push_back({"edits, " + name, &late_messages(), [family](std::string_view body) {
                       auto parsed = wire::anthropic::parse_messages(body);
                       if (!parsed) return false;
                       const length_counter counter(*family);
                       return wire::anthropic::apply_context_edits(parsed->edits, parsed->chat,
                                                                   counter)
                           .has_value();
                   }});
}

bool compare(std::string_view body) {
    wire::responses::kept_sources kept;
    kept.response_of = [](const std::string&) {
        static const auto earlier = wire::responses::parse_response(
            R"({"model":"m","input":"x","tools":[{"type":"function","name":"f0"}]})");
        return std::optional(earlier->repeated);
    };
    return wire::responses::parse_response(body, {}, kept).has_value();
}

/// All of a call's arguments, to the tool that it names.
bool plan(std::string_view body) {
    auto asked = wire::mcp::parse_message(body, {}, wire::json_limits{});
    const auto* call = std::get_if<wire::mcp::message>(&asked);
    if (call == nullptr || wire::mcp::answer_alone(*call, "1")) return false;
    const auto* name = call->params.if_contains("name");
    const auto* arguments = call->params.if_contains("arguments");
    if (name == nullptr || !name->is_string()) return false;
    if (arguments == nullptr || !arguments->is_object()) return false;
    return wire::mcp::plan_call({name->get_string().data(), name->get_string().size()},
                                arguments->get_object())
        .has_value();
}

/// The question to a judge about calls whose arguments are the text, and what is read of the text
/// as its answer.
bool judge(std::string_view text) {
    namespace judging = wire::anthropic;
    const std::vector<judging::judged_call> calls(
        2 * judging::judged_calls_max, judging::judged_call{"c", "f", std::string(text)});
    engine::generation_request wanted;
    judging::ask_for_verdicts({std::string(text.substr(0, 4096))}, calls, wanted);
    return !judging::verdicts_of(calls, text).empty();
}

// What a text of any length is packed of: the largest body that is taken, where there is room.
constexpr std::size_t unpacked_bytes_max = std::size_t{32} << 20;
constexpr std::size_t times_unpacked = unpacked_bytes_max / input_bytes_max;

/// The text again and again: as much as a packed body of its size can come to.
std::string repeated(std::string_view text) {
    std::string all;
    all.reserve(text.size() * times_unpacked);
    for (std::size_t i = 0; i < times_unpacked; ++i) all += text;
    return all;
}

/// Every third one is damaged, at a place that follows from its length.
std::string damaged(std::string packed, std::size_t number) {
    if (number % 3 == 0 && !packed.empty()) packed[number * 7 % packed.size()] ^= 0x55;
    return packed;
}

std::string gzip_of(std::string_view text) {
    const std::string all = repeated(text);
    z_stream state{};
    constexpr int gzip_bits = 15 + 16;
    if (deflateInit2(&state, 1, Z_DEFLATED, gzip_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::bad_alloc();
    std::string packed(deflateBound(&state, all.size()), '\0');
    state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(all.data()));
    state.avail_in = static_cast<uInt>(all.size());
    state.next_out = reinterpret_cast<Bytef*>(packed.data());
    state.avail_out = static_cast<uInt>(packed.size());
    deflate(&state, Z_FINISH);
    packed.resize(state.total_out);
    deflateEnd(&state);
    return damaged(std::move(packed), text.size());
}

std::string zstd_of(std::string_view text) {
    const std::string all = repeated(text);
    std::string packed(ZSTD_compressBound(all.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), all.data(), all.size(), 1));
    return damaged(std::move(packed), text.size());
}

/// As the reader of a request does it, in pieces of its size.
bool unpack(server::body_coding coding, std::string_view packed) {
    constexpr std::size_t piece = 256 * 1024;
    std::string unpacked;
    server::body_decoder decoder(coding, packed);
    for (;;) {
        const auto has_more = decoder.decode(unpacked, piece);
        if (!has_more || unpacked.size() > unpacked_bytes_max) return false;
        if (!*has_more) return true;
    }
}

}  // namespace

void add_late_parsers(std::vector<parser>& all) {
    add_prompts(all, "chatml",
                std::make_shared<const chat_template>(*chat_template::make("chatml")));
    auto own = chat_template::load(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny", "jinja");
    if (!own) throw std::runtime_error("the model's template: " + own.error().what);
    add_prompts(all, "jinja", std::make_shared<const chat_template>(std::move(*own)));
    all.push_back({"late chats", &late_chats(), [](std::string_view body) {
                       return wire::openai::parse_chat(body).has_value();
                   }});
    all.push_back({"late count tokens", &late_messages(), [](std::string_view body) {
                       return wire::anthropic::parse_count_tokens(body).has_value();
                   }});
    all.push_back({"compared responses", &late_responses(), compare});
    all.push_back({"verdicts", &verdicts(), judge});
    all.push_back({"mcp calls", &mcp_calls(), plan});
    all.push_back({"policy", &memory_orders(), [](std::string_view body) {
                       return wire::agents::parse_change(body).has_value();
                   }});
    all.push_back({"fork", &memory_orders(), [](std::string_view body) {
                       return wire::agents::parse_fork(body).has_value();
                   }});
    all.push_back(
        {"body, gzip", &contents(),
         [](std::string_view packed) { return unpack(server::body_coding::gzip, packed); },
         gzip_of});
    all.push_back(
        {"body, zstd", &contents(),
         [](std::string_view packed) { return unpack(server::body_coding::zstd, packed); },
         zstd_of});
}

}  // namespace semantic::cost
