// SPDX-License-Identifier: Apache-2.0
// What holds of every stream of response events, whatever a model says.

#include "protocol/responses/response_stream.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;
using engine::stop_reason;

engine::admitted admission() {
    engine::admitted event{*storage::agent_id::parse("msg_a"), {}};
    event.usage.prompt_tokens = 100;
    event.usage.reused_tokens = 70;
    event.usage.created_tokens = 30;
    return event;
}

reply_options options() {
    reply_options made;
    made.response_id = "resp_1";
    made.model = "m";
    made.text_tools = {"patch"};
    return made;
}

/// Events as a client splits them: a name and data whose type is that name.
std::vector<json::object> events_of(const std::string& bytes) {
    std::vector<json::object> events;
    std::size_t at = 0;
    while (at < bytes.size()) {
        const std::size_t end = bytes.find("\n\n", at);
        EXPECT_NE(end, std::string::npos);
        const std::string event = bytes.substr(at, end - at);
        at = end + 2;
        const std::size_t line = event.find('\n');
        EXPECT_TRUE(event.starts_with("event: ")) << event;
        EXPECT_EQ(event.substr(line + 1, 6), "data: ") << event;
        events.push_back(json::parse(event.substr(line + 7)).as_object());
        EXPECT_EQ(events.back().at("type").as_string(), event.substr(7, line - 7));
    }
    return events;
}

/// A client that follows the grammar of events and puts the output together by itself.
class client {
  public:
    void read(const std::string& bytes) {
        for (const json::object& event : events_of(bytes)) read(event);
    }
    const json::array& items() const { return items_; }
    const json::object& response() const { return response_; }

  private:
    void read(const json::object& event) {
        EXPECT_EQ(event.at("sequence_number").to_number<int>(), next_++);
        EXPECT_TRUE(response_.empty()) << "behind the last event: " << event;
        const std::string type(event.at("type").as_string());
        if (type == "response.completed" || type == "response.incomplete") {
            EXPECT_FALSE(is_open_);
            response_ = event.at("response").as_object();
        } else if (type == "response.output_item.added") {
            EXPECT_FALSE(is_open_);
            is_open_ = true;
            id_ = event.at("item").at("id").as_string();
            said_.clear();
            done_.clear();
        } else if (type == "response.output_item.done") {
            EXPECT_TRUE(is_open_);
            is_open_ = false;
            EXPECT_EQ(event.at("item").at("id").as_string(), id_);
            expect_said(event.at("item").as_object());
            items_.push_back(event.at("item"));
        } else if (type.ends_with(".delta")) {
            EXPECT_EQ(event.at("item_id").as_string(), id_);
            EXPECT_EQ(event.at("output_index").to_number<std::size_t>(), items_.size());
            said_ += event.at("delta").as_string().c_str();
        } else if (type.ends_with(".done") && type != "response.content_part.done") {
            for (const char* key : {"text", "arguments", "input"})
                if (event.contains(key)) done_ = event.at(key).as_string().c_str();
            EXPECT_EQ(done_, said_);
        }
    }
    void expect_said(const json::object& item) const {
        for (const char* key : {"arguments", "input"})
            if (item.contains(key) && item.at("status") == "completed") {
                EXPECT_EQ(item.at(key).as_string(), said_);
            }
        if (item.contains("content")) {
            EXPECT_EQ(item.at("content").at(0).at("text").as_string(), said_);
        }
    }

    int next_ = 0;
    bool is_open_ = false;
    std::string id_, said_, done_;
    json::array items_;
    json::object response_;
};

/// Draws from a fixed seed, so that a failure comes again.
std::function<std::uint64_t()> ids_from(unsigned seed) {
    return [draw = std::mt19937_64(seed)]() mutable { return draw(); };
}

std::string say_something(response_stream& stream, std::mt19937& random) {
    switch (random() % 5) {
        case 0:
            return stream.on_thinking("Hm. ");
        case 1:
            return stream.on_text("\n");
        case 2:
            return stream.on_tool_call(random() % 2 ? "look" : "patch", R"({"input":"a\"b"})");
        case 3: {
            std::string bytes = stream.on_call_begun(random() % 2 ? "look" : "patch");
            bytes += stream.on_call_arguments(R"({"input":)");
            bytes += stream.on_call_arguments(R"("x"})");
            return bytes + stream.on_call_ended(random() % 4 != 0);
        }
        default:
            return stream.on_text("word ");
    }
}

TEST(response_stream, events_nest_and_add_up_to_the_response_whatever_is_said) {
    for (unsigned seed = 0; seed < 2'000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        id_maker ids(ids_from(seed));
        response_stream stream(options(), ids);
        client reader;
        reader.read(stream.on_admitted(admission()));
        for (unsigned left = random() % 8; left > 0; --left)
            reader.read(say_something(stream, random));
        const auto why = random() % 3 == 0 ? stop_reason::max_tokens : stop_reason::end_turn;
        reader.read(stream.on_finished({why, "", 9, true}));
        EXPECT_TRUE(stream.ended());
        ASSERT_FALSE(reader.response().empty());
        EXPECT_EQ(reader.response().at("output").as_array(), reader.items());
        EXPECT_GE(reader.items().size(), 1u);
    }
}

TEST(response_stream, nothing_comes_behind_the_end) {
    id_maker ids(ids_from(1));
    response_stream stream(options(), ids);
    stream.on_admitted(admission());
    EXPECT_NE(stream.ping(), "");
    stream.on_finished({stop_reason::end_turn, "", 1, true});
    EXPECT_EQ(stream.on_text("x"), "");
    EXPECT_EQ(stream.on_thinking("x"), "");
    EXPECT_EQ(stream.on_tool_call("look", "{}"), "");
    EXPECT_EQ(stream.on_call_begun("look"), "");
    EXPECT_EQ(stream.on_call_arguments("{"), "");
    EXPECT_EQ(stream.on_call_ended(true), "");
    EXPECT_EQ(stream.on_finished({stop_reason::end_turn, "", 1, true}), "");
    EXPECT_EQ(stream.on_failed(fail(errc::internal, "late")), "");
    EXPECT_EQ(stream.ping(), "");
}

TEST(response_stream,
     a_failure_before_the_first_event_is_an_error_event_and_later_a_failed_response) {
    id_maker ids(ids_from(1));
    response_stream fresh(options(), ids);
    const auto error = events_of(fresh.on_failed(fail(errc::overloaded, "busy")));
    ASSERT_EQ(error.size(), 1u);
    EXPECT_EQ(error[0].at("type"), "error");
    EXPECT_EQ(error[0].at("message"), "busy");

    response_stream begun(options(), ids);
    begun.on_admitted(admission());
    const auto failed = events_of(begun.on_failed(fail(errc::internal, "broken")));
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].at("type"), "response.failed");
    EXPECT_EQ(failed[0].at("response").at("status"), "failed");
    EXPECT_EQ(failed[0].at("response").at("error").at("message"), "broken");
}

TEST(response_stream, a_text_that_is_cut_before_its_end_is_shown_as_far_as_it_goes) {
    id_maker ids(ids_from(1));
    response_stream stream(options(), ids);
    stream.on_admitted(admission());
    stream.on_call_begun("patch");
    stream.on_call_arguments(R"({"input":"ab)");
    stream.on_finished({stop_reason::max_tokens, "", 9, true});
    const auto& item = stream.response().at("output").at(0);
    EXPECT_EQ(item.at("status"), "incomplete");
    EXPECT_EQ(item.at("input"), "ab");
}

TEST(response_stream, calls_behind_the_limit_are_left_out) {
    id_maker ids(ids_from(1));
    reply_options wanted = options();
    wanted.tool_calls_max = 1;
    response_stream stream(wanted, ids);
    stream.on_admitted(admission());
    EXPECT_NE(stream.on_tool_call("look", "{}"), "");
    EXPECT_EQ(stream.on_tool_call("look", "{}"), "");
    stream.on_finished({stop_reason::end_turn, "", 9, true});
    EXPECT_EQ(stream.response().at("output").as_array().size(), 1u);
}

TEST(response_stream, one_in_the_background_is_queued_then_goes_on_in_the_same_numbers) {
    id_maker ids(ids_from(1));
    reply_options wanted = options();
    wanted.in_background = true;
    response_stream stream(wanted, ids);
    std::string bytes = stream.on_queued();
    EXPECT_EQ(stream.response().at("status"), "queued");
    EXPECT_EQ(stream.response().at("background"), true);
    bytes += stream.on_admitted(admission());
    bytes += stream.on_text("Hi");
    bytes += stream.on_finished({stop_reason::end_turn, "", 1, true});
    const auto events = events_of(bytes);
    ASSERT_GT(events.size(), 4u);
    EXPECT_EQ(events[0].at("type"), "response.created");
    EXPECT_EQ(events[1].at("type"), "response.queued");
    EXPECT_EQ(events[2].at("type"), "response.in_progress");
    for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].at("sequence_number"), i);
    EXPECT_EQ(events.back().at("type"), "response.completed");
}

TEST(response_stream, one_that_fails_while_it_is_queued_is_a_failed_response) {
    id_maker ids(ids_from(1));
    response_stream stream(options(), ids);
    stream.on_queued();
    failure f = fail(errc::prompt_too_long, "too long");
    const auto events = events_of(stream.on_failed(f));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].at("type"), "response.failed");
    EXPECT_EQ(events[0].at("response").at("error").at("code"), "context_length_exceeded");
}

TEST(response_stream, one_that_is_cancelled_has_what_was_said) {
    id_maker ids(ids_from(1));
    response_stream stream(options(), ids);
    stream.on_admitted(admission());
    stream.on_text("Half a");
    const auto events = events_of(stream.on_cancelled());
    EXPECT_EQ(events.back().at("response").at("status"), "cancelled");
    EXPECT_EQ(events.back().at("response").at("output").at(0).at("status"), "incomplete");
    EXPECT_TRUE(stream.ended());
    EXPECT_EQ(stream.on_cancelled(), "");
}

TEST(response_stream, one_that_cannot_be_kept_does_not_say_that_it_is_stored) {
    for (const bool cut : {false, true}) {
        id_maker ids(ids_from(1));
        reply_options wanted = options();
        wanted.repeated = {{"store", true}};
        response_stream stream(wanted, ids);
        stream.on_admitted(admission());
        stream.on_text("Hi");
        const std::string said = stream.on_finished(
            {cut ? stop_reason::max_tokens : stop_reason::end_turn, "", 1, true});
        const auto before = events_of(said);
        const auto events = events_of(stream.not_kept(said));
        ASSERT_EQ(events.size(), before.size());
        EXPECT_EQ(events.back().at("response").at("store"), false);
        EXPECT_EQ(events.back().at("type"), before.back().at("type"));
        EXPECT_EQ(events.back().at("sequence_number"), before.back().at("sequence_number"));
    }
}

TEST(response_stream, a_prompt_that_was_only_read_is_complete_and_says_nothing) {
    id_maker ids(ids_from(1));
    reply_options wanted = options();
    wanted.is_answer = false;
    response_stream stream(wanted, ids);
    stream.on_admitted(admission());
    const auto events = events_of(stream.on_finished({stop_reason::max_tokens, "", 0, true}));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].at("type"), "response.completed");
    EXPECT_TRUE(events[0].at("response").at("output").as_array().empty());
}

}  // namespace
}  // namespace semantic::protocol::responses
