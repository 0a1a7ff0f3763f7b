// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sessions of all tenants, and what their agents remember, in RAM. What a session was at some
// moment leaves as a record (next_to_write) and comes back from it (load).
// Both are bounded for each tenant, in number and in bytes, and in bytes for all together.
// Owner: app. Thread: any; everything is done under one lock, and nothing waits there.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/coordination/kept_reply.hpp"
#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/record.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"
#include "server/coordination/agent_answer.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

inline constexpr std::size_t sessions_max = 1'000;  // of a tenant
/// When there are more memories than these, those of agents in no session are dropped.
inline constexpr std::size_t memories_max = 20'000;
inline constexpr std::size_t kept_replies_max = 32;  // of a session
/// Bounds on the bytes of stored replies. The oldest are dropped; a session's latest stays, however
/// long it is.
inline constexpr std::size_t session_replies_bytes_max = std::size_t{1} << 20;
inline constexpr std::size_t tenant_replies_bytes_max = std::size_t{8} << 20;

/// Bounds on the RAM of sessions, including their agents' memories and their stored replies. Their
/// records on disk take about as much.
struct session_bounds {
    std::size_t tenant_bytes = std::size_t{64} << 20;
    std::size_t all_bytes = std::size_t{256} << 20;
};

class session_registry {
    struct live;
    struct tenant_state;
    template <class T>
    struct flat_result {
        using type = protocol::result<T>;
    };
    template <class T>
    struct flat_result<protocol::result<T>> {
        using type = protocol::result<T>;
    };

  public:
    using session = protocol::coordination::session;
    using memory = protocol::coordination::memory;
    using kept_reply = protocol::coordination::kept_reply;
    using known_reply = std::shared_ptr<const kept_reply>;

    explicit session_registry(session_bounds bounds = {}) : bounds_(bounds) {}

    /// A request that came with an Idempotency-Key.
    struct keyed_request {
        std::string key;
        std::string digest;  // a hash of path and body
    };

    /// A session while the registry is locked, for the work of run_locked().
    class locked_session {
      public:
        /// The session's present state.
        session& now() const;
        /// The id of the agent's memory in the engine.
        const storage::agent_id& agent_id(int agent) const;
        /// The registry's memory of the agent; created if there is none yet.
        memory& memory_of(int agent) const;
        /// The counter of tokens that were computed ahead of the agent's next turn. Stays valid
        /// when the session is removed.
        std::shared_ptr<std::atomic<int>> read_ahead(int agent) const;
        /// Notes a request that works on an agent of the session.
        void add_run(engine_run run) const;
        /// The noted requests that have not ended.
        std::vector<engine_run> runs() const;
        /// Checks that the session may grow by `bytes`. Errors: conflict, overloaded.
        protocol::result<void> check_space(std::size_t bytes) const;
        /// The stored reply to this request; null when the request is new. Errors: conflict,
        /// when the key came with another request.
        protocol::result<known_reply> find_reply(const keyed_request& wanted) const;
        /// Stores a reply. It is written together with the changes under the same lock.
        void keep_reply(kept_reply made) const;

      private:
        friend class session_registry;
        locked_session(session_registry& registry, tenant_state& tenant, live& session)
            : registry_(registry), tenant_(tenant), live_(session) {}
        session_registry& registry_;
        tenant_state& tenant_;
        live& live_;
    };

    /// The right to take turns or decisions of a session, or to remove it. One client has it, as
    /// long as this object lives.
    class running {
      public:
        running(running&& other) noexcept
            : registry_(std::exchange(other.registry_, nullptr)), key_(std::move(other.key_)) {}
        running& operator=(running&&) = delete;
        ~running() {
            if (registry_ != nullptr) registry_->end(key_);
        }

      private:
        friend class session_registry;
        using key = std::pair<storage::tenant_id, std::string>;
        running(session_registry& registry, key session_key)
            : registry_(&registry), key_(std::move(session_key)) {}
        session_registry* registry_;
        key key_;
    };

    /// Adds a new session. `older`: indexes of its agents that have KV in the engine but no entry
    /// in this registry. Errors: conflict, when the tenant has sessions_max or its bytes are used
    /// up, or the id is taken; overloaded, when the bytes of all tenants are used up.
    protocol::result<void> add(const storage::tenant_id& tenant, session made,
                               const std::vector<int>& older);
    /// Whether this registry knows of something that the agent remembers.
    bool remembers(const storage::agent_id& agent) const;
    /// The ids of the tenant's sessions.
    std::vector<std::string> ids(const storage::tenant_id& tenant) const;
    /// How many sessions the tenant has.
    std::size_t count(const storage::tenant_id& tenant) const;
    /// What the tenant's sessions and its agents' memories take in RAM, in bytes.
    std::size_t bytes(const storage::tenant_id& tenant) const;

    /// Runs `work(locked_session)`, which may change the session. Returns: its value or result.
    /// Errors: not_found; conflict, while the session is removed; those of `work`.
    template <class Work>
    auto run_locked(const storage::tenant_id& tenant, const std::string& id, Work work) ->
        typename flat_result<std::invoke_result_t<Work&, const locked_session&>>::type {
        std::lock_guard lock(mutex_);
        const found_session at = find(tenant, id);
        if (at.one == nullptr) return no_session(id);
        if (at.one->is_leaving) return is_leaving(id);
        const recount afterwards{*this, at};
        return work(locked_session(*this, *at.owner, *at.one));
    }
    /// Runs `work(session)`, which reads the session. Returns: its value or result. Errors:
    /// not_found; those of `work`.
    template <class Work>
    auto look(const storage::tenant_id& tenant, const std::string& id, Work work) const ->
        typename flat_result<std::invoke_result_t<Work&, const session&>>::type {
        std::lock_guard lock(mutex_);
        const live* found = find_live(tenant, id);
        if (found == nullptr) return no_session(id);
        return work(found->now);
    }
    /// Copies lines of the session, from number `from` on, up to about part_bytes_max; none where
    /// it has no more. Errors: not_found.
    protocol::result<std::vector<protocol::coordination::line>> lines(
        const storage::tenant_id& tenant, const std::string& id, std::size_t from) const;
    /// The body of GET /v1/coordination/sessions/{id}. It is made once for each change. Errors:
    /// not_found.
    protocol::result<std::shared_ptr<const std::string>> status(const storage::tenant_id& tenant,
                                                                const std::string& id) const;

    /// Takes the right to take turns. Errors: not_found; conflict, when another client has it.
    protocol::result<running> begin(const storage::tenant_id& tenant, const std::string& id);
    /// As begin(), for a request that may be a retry: where its reply is stored, gives that and no
    /// turn. Both are decided under one lock. Errors: also conflict, when the key came with another
    /// request.
    struct begun {
        std::optional<running> turn{};
        known_reply reply{};
    };
    protocol::result<begun> begin_once(const storage::tenant_id& tenant, const std::string& id,
                                       const std::optional<keyed_request>& wanted);

    /// Begins the removal: from now on the session takes no change and is not written, until
    /// `taken` ends. Returns: the agents whose memories the caller erases before remove().
    /// Requires: no request works on its agents.
    std::vector<storage::agent_id> leave(const running& taken);
    /// Removes the session and the memories of agents that do not outlive it. Returns: what was
    /// removed; let go of it where that may take long.
    std::shared_ptr<const void> remove(running taken);
    /// Forgets what these agents remember. Returns: the ids of the sessions that they are in, which
    /// must be written again.
    std::vector<std::string> forget(const storage::tenant_id& tenant,
                                    const std::vector<storage::agent_id>& agents);

    /// Forgets all agents' memories, because another model was loaded.
    void forget_all();

    /// What is on disk of a session. Who writes or removes its records holds the mutex meanwhile,
    /// so that no older state replaces a later one.
    struct kept_parts {
        std::mutex mutex;
        std::set<std::string> stored{};         // parts; guarded by mutex
        std::atomic<std::uint64_t> written{0};  // the last change that the latest head includes
    };
    struct keeping_state {
        std::shared_ptr<kept_parts> parts{};  // null where there is no session
        std::uint64_t changes = 0;            // of the session up to now
    };
    /// What is on disk of a session and how many changes it has had; null parts where there is no
    /// session.
    keeping_state keeping(const storage::tenant_id& tenant, const std::string& id) const;
    /// What is to be written next of a session: a part that is not `stored` yet, of about
    /// part_bytes_max at most; or its head, once all parts are.
    struct part_to_write {
        std::string name;
        std::vector<protocol::coordination::line> lines{};
        std::vector<protocol::coordination::exchange> exchanges{};  // or these
    };
    struct head_to_write {
        protocol::coordination::kept_head head;
        std::uint64_t changes = 0;
    };
    struct next_write {
        std::optional<part_to_write> part{};
        std::optional<head_to_write> head{};
    };
    static constexpr std::size_t part_bytes_max = std::size_t{1} << 20;
    /// Copies what is to be written next. `stored`: the names of the parts on disk. Errors:
    /// not_found; conflict, while the session is removed.
    protocol::result<next_write> next_to_write(const storage::tenant_id& tenant,
                                               const std::string& id,
                                               const std::set<std::string>& stored);
    /// Adds a session from its record on disk. `part` reads its parts. Where several sessions bring
    /// a memory of one agent, the longest is taken. Errors: as kept_session_of(); conflict, when
    /// the id is taken or the bounds are reached; overloaded.
    protocol::result<void> load(const storage::tenant_id& tenant, std::string_view head,
                                const protocol::coordination::part_reader& part = {});

    static protocol::failure no_session(const std::string& id);

  private:
    /// What one agent remembers, and what it takes.
    struct known_memory {
        memory content{};
        std::size_t counted = 0;  // how many of its exchanges are in `bytes`
        std::size_t bytes = 0;
        std::size_t sessions = 0;  // that the agent is in
    };
    struct reply_entry {
        known_reply reply;
        std::size_t bytes = 0;
        std::uint64_t number = 0;  // by age among all replies of the registry
    };
    /// A session in RAM.
    struct live {
        explicit live(session made)
            : now(std::move(made)),
              ahead(std::make_shared<std::vector<std::atomic<int>>>(now.agents.size())) {}
        session now;
        std::vector<storage::agent_id> agents{};               // as agent_id() has them
        std::shared_ptr<std::vector<std::atomic<int>>> ahead;  // by agent
        // Somebody has the right `running`; `is_leaving`: the session is being removed.
        bool is_running = false;
        bool is_leaving = false;
        // Rises with each change. That it was made counts as one, so that it is written.
        std::uint64_t changes = 1;
        std::size_t bytes = 0;  // as counted last
        std::size_t reply_bytes = 0;
        std::vector<engine_run> runs{};
        std::deque<reply_entry> replies{};                              // the latest last
        std::vector<protocol::coordination::stored_part> line_parts{};  // of the first lines
        std::shared_ptr<kept_parts> keeping = std::make_shared<kept_parts>();
        mutable std::shared_ptr<const std::string> status{};  // null: status() makes it
    };
    struct tenant_state {
        std::map<std::string, live> sessions{};
        std::map<storage::agent_id, known_memory> memories{};
        std::size_t bytes = 0;
        std::size_t reply_bytes = 0;
    };
    struct found_session {
        tenant_state* owner = nullptr;
        live* one = nullptr;
    };
    /// Calls count_changes() at its end, also when the work throws.
    struct recount {
        session_registry& all;
        found_session at;
        ~recount() { all.count_changes(at); }
    };
    using key = std::pair<storage::tenant_id, std::string>;

    found_session find(const storage::tenant_id& tenant, const std::string& id);
    const live* find_live(const storage::tenant_id& tenant, const std::string& id) const;
    /// Gives the right to take turns back.
    void end(const key& session_key);
    /// Notes a change: counts the bytes again, and drops the stored status.
    void count_changes(const found_session& at) noexcept;
    /// Brings the bytes of a memory up to date.
    void count_memory(tenant_state& owner, known_memory& one) noexcept;
    /// Adds `more` and subtracts `less` from the bytes of the tenant and of all.
    void add_bytes(tenant_state& owner, std::size_t more, std::size_t less) noexcept;
    /// Drops the oldest stored reply of a session. Requires: there is one.
    void drop_oldest_reply(tenant_state& owner, live& one);
    /// Drops stored replies until the bounds hold, but never the one that `latest` got last.
    void drop_replies(tenant_state& owner, live& latest);
    /// Fills in the session's agent ids, and notes that their memories are in one more session.
    void name_agents(const storage::tenant_id& tenant, tenant_state& owner, live& one);
    /// Checks that the tenant's sessions may grow by `bytes`; first drops unused memories where
    /// that helps. `slack`: bytes by which the bounds may be exceeded. Errors: conflict,
    /// overloaded.
    protocol::result<void> check_space(tenant_state& owner, std::size_t bytes,
                                       std::size_t slack = 0);
    /// Drops the memories of the tenant's agents that are in no session. The engine still has their
    /// KV when they come back.
    void drop_unused_memories(tenant_state& owner);
    static protocol::failure is_leaving(const std::string& id);
    static protocol::result<known_reply> find_reply(const live& session,
                                                    const keyed_request& wanted);

    const session_bounds bounds_;
    mutable std::mutex mutex_;
    std::map<storage::tenant_id, tenant_state> tenants_;  // guarded by mutex_, as is all below
    std::size_t bytes_ = 0;                               // of all tenants
    std::size_t memories_ = 0;                            // of all tenants
    std::uint64_t replies_ = 0;                           // that were ever kept
};

}  // namespace semantic::server
