// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface between the server and the engine: a request as plain values, and the events that
// come back token by token.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/types/conversation.hpp"
#include "engine/types/draft_usage.hpp"
#include "engine/types/memory_policy.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::engine {

using storage::token_id;

/// Added to a token's logit before anything is drawn.
struct token_bias {
    token_id token = 0;
    float bias = 0.0f;
};

/// How a token is drawn. A model's defaults come from its generation_config.json.
struct sampling_rules {
    float temperature = 1.0f;         // 0 is greedy
    float top_p = 1.0f;               // (0, 1]
    float min_p = 0.0f;               // [0, 1]; share of the likeliest token's probability; 0: all
    int top_k = 0;                    // 0: all
    float repetition_penalty = 1.0f;  // > 0; for tokens of the prompt and the answer
    float presence_penalty = 0.0f;    // for tokens of the answer
    float frequency_penalty = 0.0f;   // for tokens of the answer, once for each occurrence
    std::vector<token_bias> biases;
};

/// What a request says about sampling; absent values are the model's defaults.
struct sampling_params {
    std::optional<float> temperature;
    std::optional<float> top_p;
    std::optional<float> min_p;
    std::optional<int> top_k;
    std::optional<float> repetition_penalty;
    std::optional<float> presence_penalty;
    std::optional<float> frequency_penalty;
    std::vector<token_bias> biases;     // instead of the model's
    std::optional<std::uint64_t> seed;  // same seed, same prompt: same text, whatever else runs

    /// These values, completed with the model's.
    sampling_rules or_else(const sampling_rules& preferred) const;
};

/// The form of the answer: constrains which tokens may be drawn.
struct output_form {
    enum class kind {
        free,          // anything
        json,          // one JSON value, and nothing else
        choice,        // one of several texts
        pattern,       // a text that a regular expression matches as a whole
        grammar,       // a text of a grammar in GBNF
        calls,         // tool calls, and nothing else
        strict_calls,  // anything; but a tool call that begins has to be one, with declared
                       // arguments
    };
    kind what = kind::free;
    std::string schema_json{};           // json: what the value satisfies; empty: any object
    std::vector<std::string> choices{};  // choice: the texts
    std::string rules{};                 // pattern: the expression; grammar: its rules
    bool is_strict = true;               // false: unsupported parts of the schema are left out
    std::vector<std::string> tools{};    // calls: names of those that may be called; empty: all
    bool calls_too = false;              // json to grammar: or tool calls instead of the text
    bool several_calls = true;           // calls: more than one, if the model's template can
    /// Whether the form constrains the answer's text as a whole.
    bool is_of_text() const noexcept {
        return what != kind::free && what != kind::calls && what != kind::strict_calls;
    }
};

/// What a request says about reasoning; absent values are the template's defaults. Templates
/// without a switch for reasoning ignore it.
struct thinking_params {
    std::optional<bool> enabled;
    std::optional<std::string> effort;  // "low", "medium", "high"
    std::optional<int> budget_tokens;   // the reasoning ends after this many tokens of the answer
};

/// Conditions that end an answer, apart from its stop strings and its limits.
struct ending_params {
    int min_tokens = 0;                   // the answer has at least so many tokens
    bool ignores_end = false;             // the model's own stop tokens are never drawn
    std::vector<token_id> stop_tokens{};  // further tokens that end the answer, not part of it
};

struct generation_request {
    /// The tenant of the client. Only this tenant's memories are searched and extended.
    storage::tenant_id tenant{};
    /// The agent whose memory this extends. Absent: the engine continues the anonymous conversation
    /// that the prompt continues, or makes a new `msg_…` agent.
    std::optional<storage::agent_id> agent;
    /// `agent` is a session, in whose name clients also ask for titles, summaries and probes. A
    /// request that does not continue the session's conversation, and is shorter or has other
    /// tools, is a branch: it is resolved as if it named no agent, so that it leaves the session's
    /// memory as it is.
    bool agent_may_branch = false;
    /// The agent from whose memory a new `agent` starts, as far as the prompts agree.
    std::optional<storage::agent_id> parent{};
    /// A name for the first choice's answer, by which engine::find_message() finds its end later.
    /// Must be valid as an agent's id, otherwise it is not kept. Absent: nobody will ask.
    std::optional<std::string> message_id{};
    /// The answer named by message_id can be continued by a later request's `continues`: what that
    /// needs is kept with the memory.
    bool keeps_thread = false;
    /// Name of the answer that `chat` follows: its messages are only those after that answer, its
    /// tools the thread's (engine::find_thread), its system text is empty.
    std::optional<std::string> continues{};
    conversation chat;
    /// The prompt as raw text, in place of `chat`; no template is used. Not empty.
    std::optional<std::string> text{};
    /// `text`, or `chat` (messages only), has only what is new: the prompt is the agent's memory up
    /// to its last complete answer, and then this. Requires: `agent`.
    bool append = false;
    int max_tokens = 256;  // >= 0; 0: the prompt is read and kept, without an answer
    /// The prompt is read and kept, and no answer begins: the memory ends within the last message,
    /// a user's. A later request may make that message longer, answer it, or append others.
    /// max_tokens and message_id are ignored. If a prompt cannot end there (raw text, a thread's, a
    /// last message that is not a user's text, a template that leaves its end out) this is as
    /// max_tokens 0.
    bool only_reads = false;
    std::vector<std::string> stop_sequences;
    /// The form has precedence: an answer that its form does not let continue ends.
    ending_params ending{};
    output_form form{};
    sampling_params sampling;
    thinking_params thinking;
    /// Each token comes with its log probability, and those of so many likeliest tokens. Absent:
    /// tokens come without.
    std::optional<int> top_scores;
    int choices = 1;  // answers to the one prompt, which is read once; >= 1
    /// When the answer has to end. Time in the queue does not count: it is added to this when the
    /// request gets its batch slot.
    std::optional<std::chrono::steady_clock::time_point> deadline;
    /// How long the memory of the extended agent is kept. 0 seconds and not pinned: it is dropped
    /// when the answer has ended, and not written to disk.
    memory_policy memory{};
    /// Limits the work on the request before the model runs: each stage charges it. Absent: the
    /// engine makes one with the default limits.
    std::shared_ptr<storage::work_budget> budget{};
};

/// An answer that a thread (generation_request::continues) can continue.
struct thread_turn {
    /// The effort of reasoning of a request that does not set it.
    static constexpr const char* effort_unless_said = "medium";
    tool_lists tools;    // as they are after that answer
    std::string effort;  // of reasoning, if the template prints it at the start; else empty
    // Two or more answers follow it. (One may follow that its client has not received.)
    bool is_continued = false;
};

/// Why not all of the agent's memory could be reused. `none`: it could, or the agent is new.
enum class miss_reason {
    none,
    model_changed,
    system_changed,
    tools_changed,
    messages_changed,
    evicted,
    corrupt,
    incompatible,
    too_short
};
const char* to_string(miss_reason why) noexcept;

/// How a prompt relates to the memory that it continues furthest.
enum class match_kind {
    exact,    // the prompt ends at a token boundary of the stored text: reuse all before its last
              // token, run that one again
    extend,   // the stored text is a proper prefix of the prompt: reuse everything
    diverge,  // the texts differ earlier: reuse up to the last safe token boundary before that
    miss,     // nothing usable
};
const char* to_string(match_kind match) noexcept;

/// Where a prompt diverges from its agent's memory: excerpts of both texts around that byte, cut to
/// whole characters.
struct text_difference {
    std::size_t at = 0;      // byte in both texts
    std::size_t begins = 0;  // byte where the two excerpts begin
    std::string remembered{};
    std::string sent{};
};
/// The excerpts for two texts that differ at byte `at`.
text_difference difference_at(std::string_view remembered, std::string_view sent, std::size_t at);

/// Where each prompt token came from; the three add up to prompt_tokens.
struct prompt_usage {
    int prompt_tokens = 0;
    int reused_tokens = 0;   // KV taken as it was: in the pool or read back from disk
    int created_tokens = 0;  // computed now and kept
    /// Computed again although they were known: tokens whose KV was lost, and the last token.
    int recomputed_tokens = 0;
    int restored_tokens = 0;  // part of reused_tokens that was read from disk for this request
    match_kind match = match_kind::miss;
    miss_reason why = miss_reason::none;
    std::string detail;  // for the log: file and fault, or the first differing position
    /// For the agent's owner only: must not be logged.
    std::optional<text_difference> difference{};
    /// Parts of non-strict schemas that were ignored, by path and keyword.
    std::vector<std::string> not_held{};
    /// Shapes of messages that the model's template lacks and that were rendered in another shape.
    std::vector<std::string> template_fit{};
};

enum class stop_reason { end_turn, max_tokens, stop_sequence, context_full, cancelled, deadline };
const char* to_string(stop_reason why) noexcept;

/// Sent at most once, first, to a request that cannot begin at once: all batch slots are taken, or
/// another request reads the head of its prompt. Tenants take turns, so later requests of other
/// tenants may begin before it.
struct queued {
    int ahead = 0;                    // requests that are before this one now
    std::chrono::seconds estimate{};  // until it begins; 0 while nothing is known
};
/// Sent once, when the request begins: after the prefix look-up and before any prefill. The numbers
/// of reused tokens are final.
struct admitted {
    storage::agent_id agent;
    prompt_usage usage;
    /// When the request got its batch slot.
    std::chrono::steady_clock::time_point at{};
    /// The beginning of the answer that the prompt already has, such as a tag that opens reasoning.
    std::string begun{};
};
/// A token and its log probability under the model, before the request's sampling rules.
struct scored_token {
    token_id token = 0;
    float log_probability = 0.0f;  // natural; of softmax(logits)
    std::string bytes;             // as the answer has them; may be part of a character
    std::string text;              // the same as UTF-8: invalid bytes are U+FFFD
};
struct token_scores {
    scored_token chosen;
    std::vector<scored_token> top;  // likeliest first; `chosen` need not be among them
};
/// One sampled token's worth of text: whole UTF-8 characters, stop strings and stop tokens removed.
/// May be empty while a character or a possible stop string is incomplete.
struct token_text {
    std::string text;
    token_id token = 0;
    int choice = 0;
    std::optional<token_scores> scores{};  // if asked for; absent for a token that ends the turn
};
/// One of several choices is complete. Not sent when there is only one.
struct choice_finished {
    int choice = 0;
    stop_reason why = stop_reason::end_turn;
    std::string stop_sequence;
    int output_tokens = 0;
};
/// Why a memory is not on disk when its answer ends.
enum class unsaved_reason {
    none,        // it is on disk, or there is nothing to save
    late,        // the save takes longer than the answer waits for it; it goes on
    failed,      // the save failed: the memory is in RAM only, and is saved again later
    over_bound,  // a limit on the bytes that may be written is reached: as failed
    dropped,     // the request's memory_policy did not keep it
};
/// "late", "failed", "over_bound", "dropped"; "" for none.
const char* to_string(unsaved_reason reason) noexcept;

/// Bytes of files that were written for an agent's memory: KV, recurrent states and manifests. A
/// save that ends after its answer counts for the agent's next turn.
struct written_bytes {
    std::uint64_t turn = 0;
    std::uint64_t total = 0;  // since the agent was made
};

/// Sent once, last; nothing follows.
struct finished {
    stop_reason why = stop_reason::end_turn;  // of the first choice, or what ended all of them
    std::string stop_sequence;  // the one that was met, if why is stop_sequence; empty: a token
    int output_tokens = 0;      // sampled, stop tokens included, of all choices together
    bool saved = false;         // the agent's memory is on disk
    unsaved_reason unsaved = unsaved_reason::none;
    std::optional<written_bytes> written{};  // absent: no save of this answer has ended
    draft_usage drafts{};                    // of all choices together
};
enum class failure_kind {
    bad_request,
    too_large,
    overloaded,
    internal,
    shutting_down,
    thread_lost,  // the answer that the request continues is not known, or not any more
};
/// The sizes of a prompt that is too long: by them a client knows how much to leave out.
struct prompt_excess {
    std::int64_t tokens = 0;      // of the prompt
    int context_tokens = 0;       // limit of a prompt and its answer together
    bool is_lower_bound = false;  // the prompt was not tokenised: `tokens` is a lower bound
};
/// The part of a request that is at fault.
enum class request_part { unsaid, prompt, form, tools, biases, stop_tokens };
struct failed {  // sent once, last, instead of `finished`
    failure_kind kind = failure_kind::internal;
    std::string what;
    std::optional<std::chrono::seconds> retry_after{};  // overloaded: when a retry may succeed
    request_part at_fault = request_part::unsaid;
    std::optional<prompt_excess> excess{};  // too_large
    std::string elsewhere{};  // overloaded: URL of the server that works on the agent, if known
};
using generation_event =
    std::variant<queued, admitted, token_text, choice_finished, finished, failed>;

/// Receives one request's events in order. Called on an engine thread, one call at a time for all
/// sinks of an engine: must not block and must not throw.
class generation_sink {
  public:
    virtual ~generation_sink() = default;
    virtual void on_event(generation_event event) noexcept = 0;
    /// Called after all requests have got their events of one step, so that a sink that passes
    /// events to another thread can wake it once for the whole step.
    virtual void on_group_end() noexcept {}
};

using request_id = std::uint64_t;

}  // namespace semantic::engine
