// SPDX-License-Identifier: Apache-2.0
#include "tests/protocol/wire_golden.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace semantic::protocol::wire_golden {

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void expect_golden(const fs::path& path, const std::string& actual) {
    if (std::getenv("SEMANTIC_UPDATE_GOLDEN")) {
        std::ofstream(path, std::ios::binary) << actual;
        return;
    }
    EXPECT_EQ(actual, read(path)) << path;
}

template <class Enum>
Enum named(const json::value& name, Enum last) {
    for (int i = 0; i <= static_cast<int>(last); ++i)
        if (name.as_string() == engine::to_string(static_cast<Enum>(i)))
            return static_cast<Enum>(i);
    ADD_FAILURE() << name;
    return last;
}

engine::admitted admitted_of(const json::value& fields) {
    auto number = [&](const char* name) { return fields.at(name).to_number<int>(); };
    std::string agent(fields.at("agent").as_string());
    engine::admitted event{*storage::agent_id::parse(agent), {}};
    event.usage.reused_tokens = number("reused");
    event.usage.created_tokens = number("created");
    event.usage.recomputed_tokens = number("recomputed");
    event.usage.restored_tokens = number("restored");
    event.usage.prompt_tokens = number("reused") + number("created") + number("recomputed");
    event.usage.why = named(fields.at("why"), engine::miss_reason::too_short);
    // As the engine would have it, but for an exact match, which no file has.
    event.usage.match = event.usage.reused_tokens == 0 ? engine::match_kind::miss
                        : event.usage.why == engine::miss_reason::none
                            ? engine::match_kind::extend
                            : engine::match_kind::diverge;
    return event;
}

engine::finished finished_of(const json::value& fields) {
    engine::finished event;
    event.why = named(fields.at("why"), engine::stop_reason::deadline);
    if (event.why == engine::stop_reason::stop_sequence)
        event.stop_sequence = fields.at("stop_sequence").as_string().c_str();
    event.output_tokens = fields.at("output_tokens").to_number<int>();
    const json::object& all = fields.as_object();
    if (all.contains("saved")) event.saved = all.at("saved").as_bool();
    if (all.contains("unsaved"))
        event.unsaved = named(all.at("unsaved"), engine::unsaved_reason::dropped);
    if (all.contains("written"))
        event.written =
            engine::written_bytes{fields.at("written").at("turn").to_number<std::uint64_t>(),
                                  fields.at("written").at("total").to_number<std::uint64_t>()};
    return event;
}

/// [{"token": "a", "logprob": -0.5, "top": [{"token": "a", "logprob": -0.5}]}]
std::vector<engine::token_scores> scores_of(const json::value& list) {
    auto token_of = [](const json::value& fields) {
        std::string text(fields.at("token").as_string());
        return engine::scored_token{0, fields.at("logprob").to_number<float>(), text, text};
    };
    std::vector<engine::token_scores> scores;
    for (const json::value& one : list.as_array()) {
        scores.push_back({token_of(one), {}});
        for (const json::value& likely : one.at("top").as_array())
            scores.back().top.push_back(token_of(likely));
    }
    return scores;
}

struct replies {
    std::string sse;
    std::string body;
};

/// {"name": "f", "pieces": ["{\"a\":", "1}"], "is_whole": true}: a call while it is written. A
/// collector gets whole ones, and the one that a limit cut ("is_cut": true).
void play_call(const json::value& fields, reply_stream& stream, reply_collector& collector,
               std::string& sse) {
    const auto name = fields.at("name").as_string();
    const bool is_whole = fields.at("is_whole").as_bool();
    std::string arguments;
    sse += stream.on_call_begun(name);
    for (const json::value& piece : fields.at("pieces").as_array()) {
        sse += stream.on_call_arguments(piece.as_string());
        arguments += piece.as_string();
    }
    sse += stream.on_call_ended(is_whole);
    if (is_whole) collector.on_tool_call(name, arguments);
    if (fields.as_object().contains("is_cut")) collector.on_cut_call(name, arguments);
}

replies play(const json::array& events, dialect d, repliers players) {
    reply_stream& stream = *players.stream;
    reply_collector& collector = *players.collector;
    replies out;
    auto fail = [&](const failure& f) { out.body = error_body(d, f, "req_golden"); };
    for (const json::value& event : events) {
        const auto& field = *event.as_object().begin();
        const json::value& value = field.value();
        if (field.key() == "admitted") {
            out.sse += stream.on_admitted(admitted_of(value));
            collector.on_admitted(admitted_of(value));
        } else if (field.key() == "text") {
            out.sse += stream.on_text(value.as_string());
            collector.on_text(value.as_string());
        } else if (field.key() == "thinking") {
            out.sse += stream.on_thinking(value.as_string());
            collector.on_thinking(value.as_string());
        } else if (field.key() == "tool_call") {
            auto name = value.at("name").as_string();
            auto arguments = value.at("arguments").as_string();
            out.sse += stream.on_tool_call(name, arguments);
            collector.on_tool_call(name, arguments);
        } else if (field.key() == "call") {
            play_call(value, stream, collector, out.sse);
        } else if (field.key() == "choice") {
            stream.on_choice(value.to_number<int>());
            collector.on_choice(value.to_number<int>());
        } else if (field.key() == "scores") {
            stream.on_scores(scores_of(value));
            collector.on_scores(scores_of(value));
        } else if (field.key() == "choice_finished") {
            engine::finished end = finished_of(value);
            engine::choice_finished part{value.at("choice").to_number<int>(), end.why,
                                         end.stop_sequence, end.output_tokens};
            out.sse += stream.on_choice_finished(part);
            collector.on_choice_finished(part);
        } else if (field.key() == "ping") {
            out.sse += stream.ping();
        } else if (field.key() == "failed") {
            failure f =
                from_engine({engine::failure_kind::internal, std::string(value.as_string())});
            out.sse += stream.on_failed(f);
            fail(f);
        } else {
            out.sse += stream.on_finished(finished_of(value));
            auto body = collector.on_finished(finished_of(value));
            if (body)
                out.body = *body;
            else
                fail(body.error());
        }
    }
    return out;
}

void run_case(const fs::path& request_file, dialect d, const parser& parse) {
    std::string name = request_file.filename().string();
    name.resize(name.size() - std::string(".request.json").size());
    SCOPED_TRACE(name);
    const fs::path folder = request_file.parent_path();
    auto players = parse(read(request_file));
    fs::path events_file = folder / (name + ".events.json");
    fs::path body_file = folder / (name + ".expected.json");
    if (!fs::exists(events_file)) {
        ASSERT_FALSE(players);
        expect_golden(body_file, error_body(d, players.error(), "req_golden"));
        return;
    }
    ASSERT_TRUE(players) << players.error().message;
    json::array events = json::parse(read(events_file)).as_array();
    replies out = play(events, d, std::move(*players));
    expect_golden(folder / (name + ".expected.sse"), out.sse);
    expect_golden(body_file, out.body);
}

}  // namespace

std::function<std::uint64_t()> counting() {
    return [draws = std::uint64_t{0}]() mutable { return ++draws; };
}

int run_all(const std::string& folder_name, dialect d, const parser& parse) {
    int cases = 0;
    const fs::path folder = fs::path(SEMANTIC_SOURCE_DIR) / "tests/golden/wire" / folder_name;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (!entry.path().string().ends_with(".request.json")) continue;
        ++cases;
        run_case(entry.path(), d, parse);
    }
    return cases;
}

}  // namespace semantic::protocol::wire_golden
