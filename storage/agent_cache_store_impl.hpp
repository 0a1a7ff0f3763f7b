#pragma once
// The insides of agent_cache_store, for the sources that implement it and for nobody else.

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/agent_cache_store.hpp"
#include "storage/block_file.hpp"
#include "storage/block_files.hpp"
#include "storage/manifest.hpp"

namespace semantic::storage {

using block_ptr = std::shared_ptr<const kv_block>;
using state_ptr = std::shared_ptr<const agent_state>;

struct agent_cache_store::impl {
    /// What the index knows of one agent.
    struct record {
        state_ptr state;                // the newest
        std::vector<block_hash> names;  // of the newest state's blocks
        std::uint64_t version = 0;      // rises whenever the agent becomes dirty
        bool dirty = false;
        std::chrono::system_clock::time_point last_used{};
        std::vector<block_hash> saved;  // retained for the manifest on disk
        std::vector<block_hash>
            attempted;  // retained for manifests whose write failed, perhaps too late to be undone
        std::uint64_t manifest_bytes = 0;
    };
    /// A full block that some agent has in the pool, and what it must be of to be taken for
    /// another's.
    struct known_block {
        std::weak_ptr<const kv_block> block;
        block_hash parent;
        std::vector<token_id> tokens;
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
          blocks(files, options.directory, probe) {}

    // --- opening ---
    result<void> open();
    result<void> read_manifests(bool& all_understood);
    result<void> read_manifest(const std::string& relative, bool& all_understood);
    void index_manifest(const std::string& relative, manifest found, std::uint64_t bytes);

    // --- blocks ---
    std::vector<block_hash> names_of(const agent_state& state) const;
    block_place place(const agent_state& state, const std::vector<block_hash>& names,
                      std::size_t index) const;
    block_ptr find_known(const block_place& at);
    block_ptr adopt(const block_place& at, block_ptr block);
    block_ptr find_hot(const agent_state& state, std::size_t index, const block_place& at);
    void count_damage(const block_place& at, errc code);
    void publish(const agent_id& id, const std::vector<block_hash>& names,
                 const std::vector<block_ptr>& restored);
    state_ptr let_go(record& agent);

    // --- saving ---
    result<save_report> write_out(const std::string& relative, const agent_state& state,
                                  const std::vector<block_hash>& names,
                                  std::uint64_t& manifest_bytes);
    std::vector<block_hash> take_foreign(const std::string& relative);

    std::string full_path(const std::string& relative) const {
        return options.directory + "/" + relative;
    }
    std::string path_of(const agent_id& id) const {
        return manifest_path(options.tenant_salt, id.str());
    }

    const store_options options;
    file_system& files;
    block_pool& pool;
    const int block_tokens;
    store_probe probe;
    block_files blocks;
    std::unique_ptr<directory_lock> directory;

    std::mutex mutex;  // guards everything below; never held during I/O
    std::condition_variable idle;
    std::unordered_map<agent_id, record> agents;
    std::unordered_map<block_hash, known_block> known;
    std::set<agent_id> busy;  // being saved or erased
    std::map<std::string, std::vector<block_hash>>
        foreign;  // manifests that are not ours to read: what they retain
    std::map<std::string, shortfall> absent;  // by manifest path
    std::size_t purge_known_at = 1024;
};

/// While it lives, nobody else saves or erases the agent.
class agent_cache_store::impl::turn {
  public:
    turn(impl& store, const agent_id& id) : store_(store), id_(id) {
        std::unique_lock lock(store_.mutex);
        store_.idle.wait(lock, [&] { return !store_.busy.contains(id_); });
        store_.busy.insert(id_);
    }
    ~turn() {
        std::lock_guard lock(store_.mutex);
        store_.busy.erase(id_);
        store_.idle.notify_all();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

  private:
    impl& store_;
    const agent_id id_;
};

}  // namespace semantic::storage
