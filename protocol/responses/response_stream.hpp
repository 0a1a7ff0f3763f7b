// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reply to /v1/responses: the engine's events as SSE events, or collected into one response.
// How they are fed: protocol/reply.hpp. Source: the vendor's streaming reference as its SDKs parse
// it (protocol/README.md): every event is named, numbered, and says which item it is of.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/reply.hpp"
#include "protocol/responses/cache_diagnostics.hpp"
#include "protocol/responses/tool_names.hpp"
#include "protocol/shown_space.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::responses {

/// Returns: `usage` as the vendor counts: tokens from memory are part of the input.
boost::json::object usage_object(const engine::prompt_usage& usage, int output_tokens,
                                 int thinking_tokens);

struct reply_options {
    std::string response_id;  // resp_…
    std::string model;        // echoed
    std::int64_t created_unix = 0;
    boost::json::object repeated;      // response_request::repeated
    std::set<std::string> text_tools;  // response_request::text_tools
    std::vector<std::string> left_out;
    bool seals_reasoning = false;
    /// Calls after this many are left out of the reply, as the request asked.
    std::optional<std::size_t> tool_calls_max;
    bool in_background = false;
    /// False: the prompt was read, and that is all that was wanted.
    bool is_answer = true;
    boost::json::value conversation{};  // {"id"}, or null
    /// What is said is a summary, which comes sealed in one item of type compaction.
    bool compacts = false;
    tool_names names{};                          // response_request::names
    bool searches_tools = false;                 // response_request::searches_tools
    std::optional<cache_comparison> compared{};  // response_request::compared
};

class response_stream final : public reply_stream {
  public:
    /// `ids` names items and calls; it must outlive the stream.
    response_stream(reply_options options, id_maker& ids);

    /// The answer is made from this summary of the conversation, so an item of type compaction
    /// comes first. Requires: on_admitted() is called later.
    void put_summary(std::string summary) { replacing_summary_ = std::move(summary); }

    /// The events of a background response before it is submitted: response.created and
    /// response.queued.
    std::string on_queued();
    /// response.created and response.in_progress; after on_queued(), the latter alone.
    std::string on_admitted(const engine::admitted& event) override;
    void on_scores(std::span<const engine::token_scores> scores) override;
    std::string on_text(std::string_view text) override;
    /// A reasoning item, in its own words: there is no summary.
    std::string on_thinking(std::string_view text) override;
    std::string on_tool_call(std::string_view name, std::string_view arguments_json) override;
    std::string on_call_begun(std::string_view name) override;
    std::string on_call_arguments(std::string_view json) override;
    /// One that was none stays as an item that is incomplete.
    std::string on_call_ended(bool is_whole) override;
    /// response.completed, or response.incomplete where a limit ended the answer.
    std::string on_finished(const engine::finished& event) override;
    /// response.failed, or `error` when nothing has been sent yet.
    std::string on_failed(const failure& f) override;
    /// Ends a background response that was cancelled. Its status is "cancelled"; the vendor has no
    /// event of that name, so the event is response.incomplete.
    std::string on_cancelled();
    /// Corrects the end of a response that could not be kept: it says store = false. `bytes`: what
    /// on_finished() returned. Returns: the bytes to send instead.
    std::string not_kept(std::string bytes);
    /// A comment: every event has a number, which a client may check.
    std::string ping() const override;
    bool ended() const noexcept override { return state_ == state::ended; }

    /// The response in its present state. Requires: on_admitted() or on_queued().
    const boost::json::object& response() const noexcept { return response_; }

  private:
    enum class state { fresh, open, ended };
    enum class kind { message, reasoning, call, text_call, search_call };
    struct item {
        kind type;
        std::string id;
        std::string text;  // of a call: its arguments, or the input of a tool that takes a text
        std::string name{}, call_id{};
        boost::json::array scores{};
    };

    /// Returns: an event with the next sequence number.
    std::string send(std::string_view type, boost::json::object fields);
    /// Returns: events of these types with the response in its present state, which is encoded once
    /// for all of them.
    std::string send_response(std::initializer_list<std::string_view> types);
    void begin(std::string_view status);
    std::string end(std::string_view type);
    /// Returns: an event about the open item, or about the one part of its content.
    std::string of_item(std::string_view type, boost::json::object fields);
    std::string of_part(std::string_view type, boost::json::object fields);
    boost::json::object object_of(const item& one, std::string_view status) const;
    /// Adds a call's `name`, and `namespace` where its tool is in one.
    void add_names(const item& call, boost::json::object& object) const;
    boost::json::object part_of(const item& one) const;
    bool is_open(kind type) const { return open_ && open_->type == type; }
    bool has_open_call() const {
        return is_open(kind::call) || is_open(kind::text_call) || is_open(kind::search_call);
    }
    std::string open(item fresh);
    /// Returns: the events of an item with a summary.
    std::string add_compaction(std::string_view summary, bool replaces_all);
    /// Ends the open item, if there is one.
    std::string close(std::string_view status);
    /// Returns: the events at the end of a call's arguments; empty for other items.
    std::string end_arguments();

    reply_options options_;
    id_maker* ids_;
    state state_ = state::fresh;
    bool is_queued_ = false;  // on_queued() has sent its events
    std::int64_t sequence_ = 0;
    std::string_view last_type_;  // of the last event
    std::size_t last_bytes_ = 0;  // which has so many
    engine::prompt_usage usage_;
    std::string agent_;             // the agent whose memory it uses
    boost::json::object response_;  // in its present state
    boost::json::array output_;     // items that have ended
    std::optional<item> open_;      // the item that is being written, if any
    boost::json::array scores_;     // not yet shown
    shown_space space_;
    std::string summary_;            // of a conversation that is compacted
    std::string replacing_summary_;  // see put_summary()
    bool is_behind_call_ = false;    // nothing was said since the last call
    std::size_t calls_ = 0;          // whole ones
    int thinking_tokens_ = 0;
};

/// A response in one piece: what the stream's last event has of it.
class response_collector final : public reply_collector {
  public:
    response_collector(reply_options options, id_maker& ids) : stream_(std::move(options), ids) {}

    void on_admitted(const engine::admitted& event) override { stream_.on_admitted(event); }
    void on_scores(std::span<const engine::token_scores> scores) override {
        stream_.on_scores(scores);
    }
    void on_text(std::string_view text) override { stream_.on_text(text); }
    void on_thinking(std::string_view text) override { stream_.on_thinking(text); }
    void on_tool_call(std::string_view name, std::string_view arguments_json) override {
        stream_.on_tool_call(name, arguments_json);
    }
    void on_cut_call(std::string_view name, std::string_view arguments) override {
        stream_.on_call_begun(name);
        stream_.on_call_arguments(arguments);
        stream_.on_call_ended(false);
    }
    result<std::string> on_finished(const engine::finished& event) override;
    /// The answer is made from this summary of the conversation, so an item of type compaction
    /// comes first.
    void put_summary(std::string summary) { stream_.put_summary(std::move(summary)); }
    /// Corrects the body of a response that could not be kept: it says store = false. Returns: the
    /// body to send instead.
    std::string not_kept(std::string body);

    /// The response in its present state. Requires: on_admitted().
    const boost::json::object& response() const noexcept { return stream_.response(); }

  private:
    response_stream stream_;
};

}  // namespace semantic::protocol::responses
