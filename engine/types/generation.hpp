// SPDX-License-Identifier: Apache-2.0
#pragma once
// The narrow waist between the wire and the engine: what is asked for, and what comes back token by
// token. Plain values.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/types/conversation.hpp"
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

/// How a token is drawn; a model's own preference comes from its generation_config.json.
struct sampling_rules {
    float temperature = 1.0f;         // 0 is greedy
    float top_p = 1.0f;               // (0, 1]
    float min_p = 0.0f;               // [0, 1]; share of the likeliest token's probability; 0: all
    int top_k = 0;                    // 0: all
    float repetition_penalty = 1.0f;  // > 0; of tokens in the prompt or the answer
    float presence_penalty = 0.0f;    // of tokens in the answer
    float frequency_penalty = 0.0f;   // of tokens in the answer, each time they are there
    std::vector<token_bias> biases;
};

/// What a request says about sampling; what it leaves out is as the model prefers.
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

    sampling_rules or_else(const sampling_rules& preferred) const;
};

/// What the answer must look like, whatever the model would rather say.
struct output_form {
    enum class kind {
        free,          // anything
        json,          // one JSON value, and nothing else
        choice,        // one of several texts
        pattern,       // a text that a regular expression matches as a whole
        grammar,       // a text of a grammar in GBNF
        calls,         // tool calls, and nothing else
        strict_calls,  // anything; but what begins a tool call is one, with arguments as declared
    };
    kind what = kind::free;
    std::string schema_json{};           // json: what the value satisfies; empty: any object
    std::vector<std::string> choices{};  // choice: the texts
    std::string rules{};                 // pattern: the expression; grammar: its rules
    bool is_strict = true;               // or what of the schema cannot be held to is left out
    std::vector<std::string> tools{};    // calls: names of those that may be called; empty: all
    bool calls_too = false;              // of a text's form: or tool calls instead
    bool several_calls = true;           // calls: more than one, where the model's family can

    /// Whether the answer's text as a whole has a form.
    bool is_of_text() const noexcept {
        return what != kind::free && what != kind::calls && what != kind::strict_calls;
    }
};

/// What a request says about reasoning; what it leaves out is as the model's template prefers.
/// Families without a switch ignore it.
struct thinking_params {
    std::optional<bool> enabled;
    std::optional<std::string> effort;  // "low", "medium", "high"
    std::optional<int> budget_tokens;   // the reasoning ends after this many tokens of the answer
};

/// Conditions that end an answer, apart from its stop strings and its limits.
struct ending_params {
    int min_tokens = 0;                   // no token ends the answer before it has so many
    bool ignores_end = false;             // the model does not end its turn
    std::vector<token_id> stop_tokens{};  // end the answer too, and are no part of it
};

struct generation_request {
    /// Who asks. Only this tenant's memories are looked at and extended.
    storage::tenant_id tenant{};
    /// Whose memory this extends; its tenant is the request's. Absent: the engine finds the longest
    /// stored prefix or makes a new `msg_…` agent.
    std::optional<storage::agent_id> agent;
    /// `agent` is a session, in whose name clients also ask for titles, summaries and probes. Such
    /// a request, which does not continue the session's conversation and is shorter or has other
    /// tools, is a branch: resolved as if it had no agent, it reuses what it shares and replaces
    /// nothing.
    bool agent_may_branch = false;
    /// Whose memory a new `agent` starts from, when that shares most of what it was asked.
    std::optional<storage::agent_id> parent{};
    /// Name of the first choice's answer: when that is complete, engine::find_message() knows where
    /// it ends. As an agent's id, or else it is not remembered. Absent: nobody will ask.
    std::optional<std::string> message_id{};
    /// The answer named by message_id can be gone on from: what that takes is remembered with it.
    bool keeps_thread = false;
    /// Name of the answer that `chat` follows: its messages are only those after that answer, its
    /// tools the thread's (engine::find_thread), its system text is empty.
    std::optional<std::string> continues{};
    conversation chat;
    /// The prompt as raw text, in place of `chat`: no template is rendered. Not empty.
    std::optional<std::string> text{};
    /// `text`, or `chat` (messages only), has only what is new after the agent's last complete
    /// answer; the agent's memory comes before it. Requires: `agent`.
    bool append = false;
    int max_tokens = 256;  // >= 0; 0 fills the cache and answers nothing
    /// The prompt is read and remembered, and no answer begins: the memory ends after the text of
    /// the last message, a user's, and grows from there when that message is longer next time, when
    /// it is answered, or when others are appended. No end has a name. max_tokens counts for
    /// nothing. Where a prompt cannot end there (raw text, a thread's, a last message that is no
    /// user's text, a template that leaves its end out) this is max_tokens 0.
    bool only_reads = false;
    std::vector<std::string> stop_sequences;
    /// Gives way to the form: an answer that is whole, and cannot go on, ends.
    ending_params ending{};
    output_form form{};
    sampling_params sampling;
    thinking_params thinking;
    /// Each token comes with its log probability and those of so many likeliest ones. Absent: with
    /// none.
    std::optional<int> top_scores;
    int choices = 1;  // answers to the one prompt, which is read once; >= 1
    /// Holds from when the work can begin: the time that the request waits in the queue, also for a
    /// head that another request reads, is added to it when the request gets its slot.
    std::optional<std::chrono::steady_clock::time_point> deadline;
    /// For the memory of the agent that the request extends. Kept for 0 seconds and not pinned: the
    /// memory is dropped when the answer has ended, and is not written to disk for it.
    memory_policy memory{};
    /// What may be spent on the request before the model runs: charged by the stage that works on
    /// it now. Absent: the engine makes one with the default limits.
    std::shared_ptr<storage::work_budget> budget{};
};

/// An answer that a thread can go on from.
struct thread_turn {
    /// The effort of a request that says nothing of it.
    static constexpr const char* effort_unless_said = "medium";
    tool_lists tools;           // as they are after that answer
    std::string effort;         // of reasoning, where its prompt begins with that; or empty
    bool is_continued = false;  // two answers or more follow it: one may not have arrived
};

/// Why the prompt was not reused as far as the agent's memory reached. `none`: it was, or there was
/// nothing yet.
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
    diverge,  // they part earlier: reuse up to the last safe token boundary at or before the
              // parting
    miss,     // nothing usable
};
const char* to_string(match_kind match) noexcept;

/// Where a prompt parts from what its agent remembers: both texts from a little before on, cut to
/// whole characters.
struct text_difference {
    std::size_t at = 0;      // byte in both texts
    std::size_t begins = 0;  // byte where the two excerpts begin
    std::string remembered{};
    std::string sent{};
};
text_difference difference_at(std::string_view remembered, std::string_view sent, std::size_t at);

/// Where each prompt token came from; the three add up to prompt_tokens.
struct prompt_usage {
    int prompt_tokens = 0;
    int reused_tokens = 0;      // KV taken as it was: in the pool or read back from disk
    int created_tokens = 0;     // computed now and kept
    int recomputed_tokens = 0;  // computed now although their KV exists or must be run anyway: the
                                // last token of the prompt
    int restored_tokens = 0;    // part of reused_tokens that was read from disk for this request
    match_kind match = match_kind::miss;
    miss_reason why = miss_reason::none;
    std::string detail;  // for the log: file and fault, or the first differing position
    /// For who owns the agent, and nobody else: never in the log.
    std::optional<text_difference> difference{};
    std::vector<std::string> not_held{};  // of schemas that are not strict, by place and keyword
    /// Shapes that the model's template lacks, so that they were rendered in another one, by name.
    std::vector<std::string> template_fit{};
};

enum class stop_reason { end_turn, max_tokens, stop_sequence, context_full, cancelled, deadline };
const char* to_string(stop_reason why) noexcept;

/// Sent at most once, first, to a request that cannot begin at once: all slots are taken, others
/// wait before it, or another one reads the head of its prompt. Tenants take turns, so that later
/// requests of other tenants may begin before it.
struct queued {
    int ahead = 0;                    // requests that are before this one now
    std::chrono::seconds estimate{};  // until it begins; 0 while nothing is known
};
/// Sent once, after the prefix look-up and before any prefill: the cache numbers are final.
struct admitted {
    storage::agent_id agent;
    prompt_usage usage;
    std::chrono::steady_clock::time_point at{};  // when the request got its place, before its read
    /// The beginning of the answer that the prompt already has, also reasoning that it opens.
    std::string begun{};
};
/// A token and how likely it was, before the request's sampling rules had a say.
struct scored_token {
    token_id token = 0;
    float log_probability = 0.0f;  // natural; of softmax(logits)
    std::string bytes;             // as the answer has them; perhaps a part of a character
    std::string text;              // the same in UTF-8: what is no character is U+FFFD
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
    std::optional<token_scores> scores{};  // as asked for; not with the token that ends a turn
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
    late,        // the save took longer than the answer waits for it, and goes on
    failed,      // the disk did not take it: the memory is in RAM only, and tried again
    over_bound,  // a bound on the bytes that may be written is reached: likewise
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
    std::string stop_sequence;  // which one, when why is stop_sequence; empty: a stop token
    int output_tokens = 0;      // sampled, stop tokens included, of all choices together
    bool saved = false;         // the agent's memory is on disk
    unsaved_reason unsaved = unsaved_reason::none;
    std::optional<written_bytes> written{};  // absent: no save of this answer has ended
};
enum class failure_kind {
    bad_request,
    too_large,
    overloaded,
    internal,
    shutting_down,
    thread_lost,  // the answer that the request continues is not known, or not any more
};
/// By how much a prompt is too long: numbers that errors name, so that a client knows how much to
/// leave out.
struct prompt_excess {
    std::int64_t tokens = 0;      // of the prompt
    int context_tokens = 0;       // that a prompt and its answer may have together
    bool is_lower_bound = false;  // the prompt was not tokenised: it has at least so many
};
/// What of a request is at fault.
enum class request_part { unsaid, prompt, form, tools, biases, stop_tokens };
struct failed {  // sent once, last, instead of `finished`
    failure_kind kind = failure_kind::internal;
    std::string what;
    std::optional<std::chrono::seconds> retry_after{};  // overloaded: when there may be a place
    request_part at_fault = request_part::unsaid;
    std::optional<prompt_excess> excess{};  // too_large
    std::string elsewhere{};  // overloaded: the URL of the server that is at work on the agent
};
using generation_event =
    std::variant<queued, admitted, token_text, choice_finished, finished, failed>;

/// Receives one request's events in order. Called on an engine thread, one call at a time for all
/// sinks of an engine: must not block and must not throw.
class generation_sink {
  public:
    virtual ~generation_sink() = default;
    virtual void on_event(generation_event event) noexcept = 0;
    /// What a step yields is handed over together: this call follows when every request has its
    /// events of it, so that who passes them on to other threads need not wake one for each.
    virtual void on_group_end() noexcept {}
};

using request_id = std::uint64_t;

}  // namespace semantic::engine
