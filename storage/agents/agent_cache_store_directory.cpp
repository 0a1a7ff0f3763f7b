// agent_cache_store: a directory whose files somebody takes away while the store is open.

#include <algorithm>

#include "storage/agents/agent_cache_store_impl.hpp"

namespace semantic::storage {

/// Blocks. Errors: io.
result<void> agent_cache_store::impl::make_directories() {
    for (const char* each : {"", "/agents", "/blocks"})
        if (auto ok = files.make_directory(options.directory + each); !ok) return ok;
    return {};
}

/// Blocks. Makes the directory anew where it is gone, and takes it before another process does.
/// Errors: locked; io, also where another cache directory has its name.
result<void> agent_cache_store::impl::keep_directory() {
    std::lock_guard one_at_a_time(directory_mutex);
    if (directory->is_in_place()) return {};
    if (auto ok = make_directories(); !ok) return ok;
    auto lock = files.lock(options.directory);
    if (!lock) return lock.error();
    const auto found = read_whole(files, full_path("secret"), secret.size());
    if (found ? *found != secret : found.error().code != errc::not_found)
        return failure{errc::io, options.directory +
                                     ": another cache directory stands in the place of the one "
                                     "that this process has opened"};
    if (!found)
        if (auto ok = replace_file(files, full_path("secret"), secret); !ok) return ok;
    directory = std::move(*lock);
    take_stock();
    return {};
}

/// Whether it is not on disk as it should be, and can be written again. Requires: the mutex is
/// held.
bool agent_cache_store::impl::is_lost(const record& agent, bool lacks_manifest) const {
    bool lost = lacks_manifest;
    for (std::size_t i = 0; i < agent.names.size(); ++i)
        for (const kv_part part : kv_parts) {
            if (blocks.is_known(agent.names[i], part)) continue;
            const bool is_hot = agent.state->blocks[i].at(part) != nullptr;
            if (!is_hot && part == kv_part::full) return false;
            lost = lost || is_hot;
        }
    return lost;
}

/// Blocks. Looks for every file, forgets those that are gone, and makes the agents dirty that can
/// be written again. Saves that are under way begin anew.
void agent_cache_store::impl::take_stock() {
    blocks.forget_missing();
    std::vector<std::string> manifests;
    {
        std::lock_guard lock(mutex);
        for (const auto& [id, agent] : agents)
            if (agent.manifest_bytes > 0) manifests.push_back(path_of(id));
        for (const auto& [relative, manifest_of] : foreign) manifests.push_back(relative);
    }
    std::set<std::string> gone;
    for (const std::string& each : manifests)
        if (const auto there = files.exists(full_path(each)); there && !*there) gone.insert(each);

    std::vector<block_hash> dropped;
    {
        std::lock_guard lock(mutex);
        ++stock_taken;
        std::size_t again = 0;
        for (auto& [id, agent] : agents) {
            const std::string relative = path_of(id);
            // Its next manifest is a whole one, wherever the last is.
            agent.appendable.reset();
            // One that is being saved or removed keeps its own books.
            if (gone.contains(relative) && !busy.contains(relative)) {
                quota.remove(std::exchange(agent.manifest_bytes, 0));
                agent.attempted =
                    concatenated(std::move(agent.attempted), std::exchange(agent.saved, {}));
            }
            if (agent.dirty || !is_lost(agent, gone.contains(relative))) continue;
            agent.dirty = true;
            agent.save_failed = false;
            ++agent.version;
            ++again;
        }
        for (const std::string& relative : gone) {
            if (busy.contains(relative) || !foreign.contains(relative)) continue;
            foreign_manifest taken = take_foreign(relative);
            quota.remove(taken.bytes);
            dropped = concatenated(std::move(dropped), taken.names);
        }
        to_save_again = to_save_again.value_or(0) + again;
    }
    blocks.release(dropped);
}

/// Blocks. Whether the files are there that the index says an agent has; where they are not, it is
/// dirty from now on. Errors: those of keep_directory.
result<void> agent_cache_store::impl::look_for_files(const agent_id& id,
                                                     const std::string& relative) {
    if (auto ok = keep_directory(); !ok) return ok;
    std::vector<block_hash> names;
    bool has_manifest = false;
    {
        std::lock_guard lock(mutex);
        const auto found = agents.find(id);
        if (found == agents.end()) return {};
        names = found->second.names;
        has_manifest = found->second.manifest_bytes > 0;
    }
    const auto manifest_there = files.exists(full_path(relative));
    const bool manifest_gone = has_manifest && manifest_there && !*manifest_there;
    if (blocks.forget_missing(names) > 0 || manifest_gone) take_stock();
    return {};
}

/// Blocks. Returns: whether a save that failed so may go well when it is repeated.
bool agent_cache_store::impl::can_mend(const failure& fault, repairs& left) {
    if (fault.code == errc::out_of_space) {
        // What somebody else had may be free again; else the file system is out of what no budget
        // counts, such as inodes.
        if (std::exchange(left.is_first, false)) return true;
        return left.removals-- > 0 && remove_one(left.in_vain);
    }
    if (fault.code != errc::not_found || left.renewals-- <= 0) return false;
    if (!make_directories()) return false;
    take_stock();
    return true;
}

std::string agent_cache_store::take_warning() {
    std::lock_guard lock(impl_->mutex);
    const auto agents = std::exchange(impl_->to_save_again, std::nullopt);
    if (!agents) return {};
    return impl_->options.directory + ": files of agents were gone; " + std::to_string(*agents) +
           " agents are to be saved again";
}

}  // namespace semantic::storage
