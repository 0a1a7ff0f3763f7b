#pragma once
// The sessions of all tenants, and what their agents remember, in RAM. What a session was at some
// moment leaves as a record (record_of) and comes back from it (load).
// Owner: app. Thread: any; everything is done under one lock, and nothing waits there.

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/record.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"
#include "server/coordination/agent_answer.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

inline constexpr std::size_t sessions_max = 1'000;   // of a tenant
inline constexpr std::size_t memories_max = 20'000;  // beyond it, of agents in no session: none
inline constexpr std::size_t kept_replies_max = 32;  // of a session

class session_registry {
    struct live;
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

    /// One session as long as the lock is held.
    class room {
      public:
        session& now() const;
        /// Whose memory in the engine this agent has.
        storage::agent_id agent_id(int agent) const;
        /// What is known of it; made where there is nothing yet.
        memory& memory_of(int agent) const;
        /// Tokens that were computed ahead of the agent's next turn. Outlives the session.
        std::shared_ptr<std::atomic<int>> read_ahead(int agent) const;
        /// A request that works on an agent of the session.
        void add_run(engine_run what) const;
        /// Those that have not ended.
        std::vector<engine_run> runs() const;

      private:
        friend class session_registry;
        room(session_registry& of, const storage::tenant_id& tenant, live& what)
            : of_(of), tenant_(tenant), live_(what) {}
        session_registry& of_;
        const storage::tenant_id& tenant_;
        live& live_;
    };

    /// A turn, a round or a decision of a session is taken as long as this lives.
    class running {
      public:
        running(running&& other) noexcept
            : of_(std::exchange(other.of_, nullptr)), key_(std::move(other.key_)) {}
        running& operator=(running&&) = delete;
        ~running() {
            if (of_ != nullptr) of_->end(key_);
        }

      private:
        friend class session_registry;
        using key = std::pair<storage::tenant_id, std::string>;
        running(session_registry& of, key which) : of_(&of), key_(std::move(which)) {}
        session_registry* of_;
        key key_;
    };

    /// `older`: of its agents those for which the engine has a memory of which nothing is known
    /// here. Errors: conflict, when the tenant has sessions_max.
    protocol::result<void> add(const storage::tenant_id& tenant, session made,
                               const std::vector<int>& older);
    /// Whether something is known of this agent's memory.
    bool remembers(const storage::agent_id& agent) const;
    std::vector<std::string> ids(const storage::tenant_id& tenant) const;
    std::size_t count(const storage::tenant_id& tenant) const;

    /// What `work(room)` returns, a value or a result. Errors: not_found, and those of `work`.
    template <class Work>
    auto with(const storage::tenant_id& tenant, const std::string& id, Work work) ->
        typename flat_result<std::invoke_result_t<Work&, const room&>>::type {
        std::lock_guard lock(mutex_);
        live* found = find(tenant, id);
        if (found == nullptr) return no_session(id);
        return work(room(*this, tenant, *found));
    }

    /// Errors: not_found; conflict, when one is being taken.
    protocol::result<running> begin(const storage::tenant_id& tenant, const std::string& id);

    /// Returns: the agents whose memories are to be forgotten with it. Requires: none of its runs
    /// works any more.
    std::vector<storage::agent_id> remove(running taken);
    /// What is known of these agents is forgotten. Returns: the sessions that they are in.
    std::vector<std::string> forget(const storage::tenant_id& tenant,
                                    const std::vector<storage::agent_id>& agents);

    /// What is known of any memory is forgotten: another model has others.
    void forget_all();

    /// A session as it is now: the head of its record, the parts that this needs, by name, and of
    /// these the bytes of such as were not `stored`. Nothing where there is no session.
    struct record {
        std::string head;
        std::set<std::string> parts{};
        std::vector<std::pair<std::string, std::string>> fresh{};
    };
    std::optional<record> record_of(const storage::tenant_id& tenant, const std::string& id,
                                    const std::set<std::string>& stored);
    /// Whoever writes the session's record, or removes it, holds the mutex as long: no record takes
    /// the place of a later one. Null where there is no session.
    struct kept_parts {
        std::mutex mutex;
        std::set<std::string> stored{};  // parts; guarded by mutex
    };
    std::shared_ptr<kept_parts> keeping(const storage::tenant_id& tenant,
                                        const std::string& id) const;
    /// A session of a former time. Of an agent's memories, which several may bring, the longest
    /// counts. Errors: as kept_session_of(); conflict, when it is there.
    protocol::result<void> load(const storage::tenant_id& tenant, std::string_view head,
                                const protocol::coordination::part_reader& part = {});

    /// What was replied to a request with this key; nothing when there was none. `what`: a
    /// hash of path and body. Errors: not_found; conflict, when it was another request.
    protocol::result<std::optional<std::string>> reply_to(const storage::tenant_id& tenant,
                                                          const std::string& id,
                                                          const std::string& key,
                                                          const std::string& what);
    void keep_reply(const storage::tenant_id& tenant, const std::string& id, std::string key,
                    std::string what, std::string reply);

    static protocol::failure no_session(const std::string& id);

  private:
    using kept_reply = protocol::coordination::kept_reply;
    struct live {
        explicit live(session made)
            : now(std::move(made)),
              ahead(std::make_shared<std::vector<std::atomic<int>>>(now.agents.size())) {}
        session now;
        std::shared_ptr<std::vector<std::atomic<int>>> ahead;  // by agent
        bool is_running = false;
        std::vector<engine_run> runs{};
        std::deque<kept_reply> replies{};       // the latest last
        std::vector<std::string> line_parts{};  // those that hold the first lines
        std::shared_ptr<kept_parts> keeping = std::make_shared<kept_parts>();
    };
    using key = std::pair<storage::tenant_id, std::string>;

    live* find(const storage::tenant_id& tenant, const std::string& id);
    void end(const key& which);
    static storage::agent_id agent_id(const storage::tenant_id& tenant, const session& of,
                                      int agent);
    /// Agents of no session give way when there are too many memories.
    void make_room();
    std::size_t count_locked(const storage::tenant_id& tenant) const;
    const live* find(const storage::tenant_id& tenant, const std::string& id) const;

    mutable std::mutex mutex_;
    std::map<key, live> sessions_;                  // guarded by mutex_
    std::map<storage::agent_id, memory> memories_;  // guarded by mutex_
};

}  // namespace semantic::server
