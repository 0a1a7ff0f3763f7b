#pragma once
// The insides of agent_cache_store, for the sources that implement it and for nobody else.

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/agents/block_index.hpp"
#include "storage/disk/block_file.hpp"
#include "storage/disk/block_files.hpp"
#include "storage/disk/disk_quota.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/files/parallel.hpp"

namespace semantic::storage {

using state_ptr = std::shared_ptr<const agent_state>;

/// From the operating system's generator.
std::string random_bytes(std::size_t count);

inline std::vector<block_hash> concatenated(std::vector<block_hash> first,
                                            const std::vector<block_hash>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

struct agent_cache_store::impl {
    /// A full block as a manifest has it: its name, and a sum of its text and where its tokens end.
    struct block_mark {
        block_hash name;
        block_hash text;
        bool operator==(const block_mark&) const = default;
    };
    /// A manifest on disk that the next version may be appended to.
    struct journal {
        block_hash seal;  // of its last record
        std::vector<block_mark> marks;
        std::vector<message_end> messages;
        std::uint64_t bytes_at_first = 0;  // of the file when it was last written as a whole
    };
    /// What the index knows of one agent.
    struct record {
        state_ptr state;                // the newest
        std::vector<block_hash> names;  // of the newest state's blocks
        std::uint64_t version = 0;      // rises whenever the agent becomes dirty
        bool dirty = false;
        bool save_failed = false;  // the last save, of a state that is still dirty
        std::chrono::system_clock::time_point last_used{};
        std::vector<block_hash> saved;  // retained for the manifest on disk
        // Retained for manifests whose write failed, perhaps too late to be undone, and for states
        // that no manifest speaks of yet.
        std::vector<block_hash> attempted;
        std::set<block_hash> pinned;  // the latter
        std::uint64_t manifest_bytes = 0;
        std::optional<journal> appendable;  // unknown after an opening or a failed save
    };
    /// A manifest that is not ours to use, or no longer in use.
    struct foreign_manifest {
        std::vector<block_hash> names;  // what it retains
        std::uint64_t bytes = 0;
    };
    /// Everything about one block of a state but its bytes.
    struct block_place {
        block_hash name;
        block_identity identity;
        bool full = false;
    };

    class turn;

    impl(store_options given, block_pool& frames)
        : options(std::move(given)),
          files(options.files != nullptr ? *options.files : posix_file_system()),
          pool(frames),
          block_tokens(frames.layout().block_tokens()),
          quota(files, options.directory, probe),
          blocks(files, options.directory, frames.layout(), quota, probe) {}

    // --- opening ---
    result<void> open();
    result<void> count_others();
    result<void> read_secret();
    /// A manifest as it was read, before the index knows of it.
    struct read_file {
        std::string relative;
        std::uint64_t bytes = 0;
        result<decoded_manifest> found = failure{errc::not_found, {}};
        std::vector<block_hash> names;  // that it lists
        std::optional<agent_id> id;     // whose it is
        block_hash private_salt{};      // as in agent_state
        bool ours = false;
    };
    result<void> read_manifests(bool& all_understood);
    void read_manifest(read_file& file) const;
    result<void> index_manifest(read_file file, bool& all_understood);

    // --- a directory that is taken away ---
    result<void> make_directories();
    result<void> keep_directory();
    result<void> look_for_files(const agent_id& id, const std::string& relative);
    void take_stock();
    bool is_lost(const record& agent, bool lacks_manifest) const;
    /// What may still be done for a save that fails.
    struct repairs {
        bool is_first = true;
        int removals = 16;  // of agents, one after the other
        int renewals = 2;   // of directories
        std::set<std::string> in_vain;
    };
    bool can_mend(const failure& fault, repairs& left);

    // --- blocks ---
    std::vector<block_hash> names_of(const agent_state& state) const;
    block_place place(const agent_state& state, const std::vector<block_hash>& names,
                      std::size_t index) const;
    std::size_t window_start(std::size_t tokens) const;
    std::vector<std::pair<std::size_t, kv_part>> needed_for(int tokens) const;
    state_ptr gone_on_from(const agent_state& state, std::size_t tokens);
    bool any_hot(const agent_state& state) const;
    bool all_hot(const agent_state& state) const;
    block_ptr adopt(const block_place& at, block_ptr block);
    block_ptr find_hot(const agent_state& state, std::size_t index, kv_part part,
                       const block_place& at);
    bool has(const record& agent, std::size_t index, const block_place& at) const;
    struct missing_part {
        std::size_t index;
        kv_part part;
    };
    /// Takes the frames of all that is missing, in its order, while they are being filled.
    using frames_taken =
        std::function<void(const std::vector<block_ptr>&, std::shared_ptr<prefix_arrival>)>;
    result<block_file_reader> open_missing(const agent_state& state,
                                           const std::vector<block_hash>& names,
                                           const missing_part& part, bool keep_open);
    std::vector<result<block_read>> read_missing(const agent_state& state,
                                                 const std::vector<block_hash>& names,
                                                 const std::vector<missing_part>& missing,
                                                 std::optional<std::size_t> first,
                                                 const frames_taken& begun);
    void count_damage(const block_place& at, kv_part part, errc code);
    result<std::optional<std::size_t>> bring(
        const agent_state& state, const std::vector<block_hash>& names,
        const std::vector<std::pair<std::size_t, kv_part>>& needed, restored_prefix& restored,
        std::vector<bool>& was_read, const prefix_begun& begun = {});
    int tokens_read(const restored_prefix& restored, const std::vector<bool>& was_read) const;
    void publish(const agent_state& from, const std::vector<block_hash>& names,
                 const std::vector<kv_block_parts>& restored);
    void pin_passed(record& agent, const std::vector<block_hash>& names, std::size_t tokens);
    void take_over_unsaved(const block_place& at, kv_block_parts& block);
    state_ptr mend(record& agent, const agent_state& from, const std::vector<block_hash>& names);
    state_ptr let_go(record& agent);
    state_ptr let_go_of_passed(record& agent, bool saved_only);
    bool make_room(std::size_t frames, const agent_id* keep);
    bool make_room_for(const agent_id& id, std::size_t frames);

    // --- saving ---
    /// The bytes of a save's manifest, and what is known of the file once they are in it.
    struct manifest_plan {
        std::string bytes;
        bool append = false;
        std::uint64_t file_bytes = 0;  // of the whole file afterwards
        journal next;
    };
    std::vector<block_mark> marks_of(const agent_state& state,
                                     const std::vector<block_hash>& names) const;
    result<manifest_plan> plan_manifest(const agent_state& state,
                                        const std::vector<block_hash>& names,
                                        const std::optional<journal>& before,
                                        std::uint64_t file_bytes) const;
    state_ptr without_tail(const state_ptr& state, std::vector<block_hash>& names) const;
    std::uint64_t bytes_to_write(const agent_state& state,
                                 const std::vector<block_hash>& names) const;
    result<save_report> write_out(const std::string& relative, const agent_state& state,
                                  const std::vector<block_hash>& names, const manifest_plan& plan);
    result<save_report> save_once(const agent_id& id, save_extent extent);
    foreign_manifest take_foreign(const std::string& relative);

    // --- removing ---
    result<disk_quota::promise> make_disk_room(std::uint64_t bytes);
    bool remove_one(std::set<std::string>& in_vain);
    bool remove_foreign(const std::string& relative);
    bool remove_agent(const agent_id& id);
    result<void> unlink_manifest(const std::string& relative);
    record take_out(const agent_id& id);
    std::vector<block_hash> take_files(record& agent);
    state_ptr forget_unsaved(const agent_id& id);

    // --- looking up ---
    agent_summary summary_of(const agent_id& id, const record& agent) const;
    void index_messages(const agent_id& id, const agent_state* former, const agent_state* now);

    std::string full_path(const std::string& relative) const {
        return options.directory + "/" + relative;
    }
    /// Valid as long as `id`.
    std::string_view salt_of(const agent_id& id) const {
        if (id.tenant().is_default()) return options.tenant_salt;
        const auto& bytes = id.tenant().salt.bytes;
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    /// What the names of a state's blocks are salted with. Valid as long as `state`.
    std::string_view salt_of(const agent_state& state) const {
        if (!state.is_private()) return salt_of(state.id);
        const auto& bytes = state.private_salt.bytes;
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    std::string path_of(const agent_id& id) const { return manifest_path(salt_of(id), id.str()); }

    // Notes of the store's own in a manifest: which weights made the KV, and the state's
    // private_salt, absent where that is zero.
    static constexpr const char* model_note = "model";
    static constexpr const char* private_note = "private";
    static constexpr std::size_t own_notes = 2;
    /// So many removed agents are remembered as such.
    static constexpr std::size_t absent_max = 65536;

    const store_options options;
    file_system& files;
    block_pool& pool;
    const int block_tokens;
    store_probe probe;
    disk_quota quota;
    block_files blocks;
    file_workers workers;
    std::mutex directory_mutex;  // held while a directory that is gone is made anew
    std::unique_ptr<directory_lock> directory;
    std::string secret;  // of the directory; from open() on it stays as it is

    std::mutex mutex;  // guards everything below; never held during I/O
    std::condition_variable idle;
    std::unordered_map<agent_id, record> agents;
    prefix_index by_text;                                              // of every record's state
    std::map<std::pair<tenant_id, std::string>, agent_id> by_message;  // likewise
    block_index known;
    std::set<std::string> busy;  // manifest paths of agents that are being saved or removed
    std::unordered_map<agent_id, int> held;           // by how many pins
    std::map<std::string, foreign_manifest> foreign;  // by manifest path
    std::map<std::string, shortfall> absent;          // by manifest path
    std::uint64_t stock_taken = 0;                    // how often files were found to be gone
    // Agents that were made dirty by that since take_warning(); none: that has not happened.
    std::optional<std::size_t> to_save_again;
};

/// While it lives, nobody else saves or removes the agent with this manifest.
class agent_cache_store::impl::turn {
  public:
    /// Waits for its turn.
    turn(impl& store, std::string relative) : store_(store), relative_(std::move(relative)) {
        std::unique_lock lock(store_.mutex);
        store_.idle.wait(lock, [&] { return !store_.busy.contains(relative_); });
        store_.busy.insert(relative_);
    }
    /// Requires: the caller has put `relative` into store.busy.
    turn(impl& store, std::string relative, std::adopt_lock_t)
        : store_(store), relative_(std::move(relative)) {}
    ~turn() {
        std::lock_guard lock(store_.mutex);
        store_.busy.erase(relative_);
        store_.idle.notify_all();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

  private:
    impl& store_;
    const std::string relative_;
};

}  // namespace semantic::storage
