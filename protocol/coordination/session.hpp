// SPDX-License-Identifier: Apache-2.0
#pragma once
// A conversation of several agents under rules: who is in it, what was said to whom, whose turn it
// is. A value: nothing here asks a model, reads a clock or makes up an id.
// Owner: the one who runs the session. Thread: one at a time.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/coordination/decision.hpp"

namespace semantic::protocol::coordination {

/// turn_by_turn: agents speak in order, unless the client names the speaker. round_robin: always in
/// order. broadcast: all speakers of a round answer what was there before the round. whisper: each
/// speaker in turn says something to the next one in private, who answers in private. interrupt:
/// the agent speaks that wants to most.
enum class topology { turn_by_turn, round_robin, broadcast, whisper, interrupt };
inline constexpr std::array topology_names{"turn_by_turn", "round_robin", "broadcast", "whisper",
                                           "interrupt"};
enum class debate_format { free_form, structured, socratic, devils_advocate, parliamentary };
inline constexpr std::array format_names{"free_form", "structured", "socratic", "devils_advocate",
                                         "parliamentary"};
/// permanent: if the session has a prefix, the agent's memory outlives the session.
enum class lifecycle { ephemeral, permanent };
inline constexpr std::array lifecycle_names{"ephemeral", "permanent"};

template <class Enum>
constexpr int index_of(Enum value) {
    return static_cast<int>(value);
}

/// How a role takes part in the conversation. A role with any other name is a participant.
enum class part { participant, moderator, critic, observer };
part part_of(std::string_view role) noexcept;

/// A session with so many lines takes no more turns, whispers or votes.
inline constexpr std::size_t lines_max = 100'000;

/// Agents are identified by their index in session::agents; this index means none of them.
inline constexpr int nobody = -1;

struct agent {
    std::string id;
    std::string name;
    std::string role = "participant";
    std::string system_prompt{};
    lifecycle life = lifecycle::ephemeral;
    std::size_t lines_read = 0;  // of session::lines: these its memory has, as far as it may
    bool has_entered = false;    // its memory has something of this session
    int last_turn = nobody;      // when it spoke last
    std::size_t messages = 0;    // of the transcript: how many it may see
};

/// Something that was said, or announced. Never changed once it is there.
struct line {
    std::string id;
    int sender = nobody;        // who said it
    std::string sender_name{};  // of a sender that is none of the agents; empty: an instruction
    std::string text{};         // as the transcript shows it
    int turn = 0;
    int to = nobody;                // whispered to this one
    std::vector<int> visible_to{};  // in ascending order; empty: all
    bool is_hidden = false;         // read by who may see it, and no part of any transcript
    bool is_sampled = false;        // its sender has it in its memory as its own answer
};

/// Bytes that an object takes in addition to its texts, in RAM or in a record, whichever is more.
inline constexpr std::size_t line_own_bytes = 256;
inline constexpr std::size_t agent_own_bytes = 512;

struct session {
    std::string id;
    topology form = topology::turn_by_turn;
    debate_format format = debate_format::free_form;
    decision_mode decides = decision_mode::none;
    std::vector<agent> agents{};
    std::vector<line> lines{};
    std::vector<question> questions{};
    std::string prefix{};         // of permanent agents' memories; empty: none outlives the session
    int max_turns = 0;            // 0: no end
    int turn = 0;                 // turns that were taken
    int round = 0;                // rounds that are complete
    int place = 0;                // turns of the present round that were taken
    std::size_t round_start = 0;  // lines that were there when the round began
    int whispers_begun = 0;       // by turns of the topology whisper
    int owes_answer = nobody;     // was whispered to, in that topology
    int owed_to = nobody;         // by this one
    std::size_t line_bytes = 0;   // of all lines, as add_line() counts them

    bool is_active() const noexcept { return max_turns == 0 || turn < max_turns; }
    bool is_full() const noexcept { return lines.size() >= lines_max; }
    /// Returns: the index of the agent; `nobody` when there is none.
    int find(std::string_view agent_id) const noexcept;
};

/// Whether the agent may read the line; `nobody`: whether anybody may.
bool may_see(const line& spoken, int agent) noexcept;
/// Appends a line and updates the counts: bytes, and messages of each agent that may see it.
void add_line(session& s, line spoken);
/// Returns: a copy of the session without its lines.
session without_lines(const session& s);
/// Returns: the bytes that the session takes. Does not iterate over its lines.
std::size_t bytes_of(const session& s) noexcept;
std::size_t bytes_of(const line& spoken) noexcept;
/// Returns: the lines that `viewer` may see (`nobody`: what anybody may), in order.
std::vector<const line*> transcript(const session& s, int viewer = nobody);
/// Returns: the agents that speak and vote, which are all but observers, in order.
std::vector<int> speakers_of(const session& s);
/// Returns: the agent that decides alone in modes where one does: the first moderator, else the
/// first speaker.
int coordinator_of(const session& s);

/// Event: an agent's answer in a turn.
struct said {
    int agent = nobody;
    int to = nobody;        // the answer is a whisper to this one
    std::size_t reads = 0;  // lines that it had read before
    std::string line_id{};
    std::string text{};  // as the transcript shows it; empty: the turn passes, and nothing was said
    bool is_remembered = true;  // the agent's memory has what it read, and its answer
};
/// Event: an agent has read lines, which its memory has now, without saying anything.
struct heard {
    int agent = nobody;
    std::size_t reads = 0;
};
/// Event: a line that a client writes in the name of one agent, for another one only.
struct whispered {
    int from = nobody;
    int to = nobody;
    std::string line_id{};
    std::string text{};
};
/// Event: a line of no agent, which all may read.
struct told {
    std::string line_id{};
    std::string text{};
};
/// Event: a vote. Requires: the question is open, and the voter an agent that may vote.
struct voted {
    std::size_t question = 0;
    vote ballot;
    std::string line_id{};  // of the line by which the voter remembers it
};

// Each changes the session to its state after the event.
void apply(session& s, const said& event);
void apply(session& s, const heard& event);
void apply(session& s, const whispered& event);
void apply(session& s, const told& event);
void apply(session& s, const voted& event);

}  // namespace semantic::protocol::coordination
