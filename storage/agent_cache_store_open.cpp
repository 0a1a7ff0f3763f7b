// agent_cache_store: what is on disk when the directory is opened.

#include "storage/agent_cache_store_impl.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

result<void> agent_cache_store::impl::open() {
    for (const char* each : {"", "/agents", "/blocks"})
        if (auto ok = files.make_directory(options.directory + each); !ok) return ok;
    auto lock = files.lock(full_path("lock"));
    if (!lock) {
        if (lock.error().code != errc::locked) return lock.error();
        return failure{errc::locked,
                       options.directory + ": another process uses this cache directory"};
    }
    directory = std::move(*lock);
    bool all_understood = true;
    if (auto ok = read_manifests(all_understood); !ok) return ok;
    // A manifest of a later format may need files that this program cannot know of.
    return blocks.scan(!all_understood);
}

result<void> agent_cache_store::impl::read_manifests(bool& all_understood) {
    const auto entries = files.list(full_path("agents"));
    if (!entries) return entries.error();
    for (const directory_entry& entry : *entries) {
        const std::string relative = "agents/" + entry.name;
        if (entry.is_directory) continue;
        if (entry.name.ends_with(".tmp")) {
            if (auto ok = files.unlink(full_path(relative)); !ok) return ok;
        } else if (entry.name.ends_with(".json")) {
            if (auto ok = read_manifest(relative, all_understood); !ok) return ok;
        }
    }
    return {};
}

result<void> agent_cache_store::impl::read_manifest(const std::string& relative,
                                                    bool& all_understood) {
    const auto bytes = read_whole(files, full_path(relative), manifest_file_bytes_max);
    if (!bytes && bytes.error().code != errc::corrupt) return bytes.error();
    auto found = bytes ? decode_manifest(*bytes) : result<manifest>(bytes.error());
    if (found) {
        index_manifest(relative, std::move(*found), bytes->size());
        return {};
    }
    if (found.error().code == errc::incompatible) {
        ++probe.manifests_incompatible;
        absent[relative] = shortfall::incompatible;
        foreign[relative] = {};
        all_understood = false;
        return {};
    }
    // Nothing in it can be trusted, so nothing is lost with it.
    ++probe.manifests_corrupt;
    absent[relative] = shortfall::corrupt;
    return files.unlink(full_path(relative));
}

void agent_cache_store::impl::index_manifest(const std::string& relative, manifest found,
                                             std::uint64_t bytes) {
    std::vector<block_hash> listed;
    for (const manifest_block& block : found.blocks) listed.push_back(block.name);
    auto id = agent_id::parse(found.agent);
    ASSERT(id);  // decode_manifest has checked it
    // What belongs to another model, tenant or block size stays as it is, with its blocks, until
    // its agent is saved anew.
    const bool ours =
        found.fingerprint == options.fingerprint && path_of(*id) == relative &&
        listed == block_names(options.fingerprint, options.tenant_salt, found.tokens, block_tokens);
    blocks.retain(listed);
    if (!ours) {
        ++probe.manifests_incompatible;
        absent[relative] = shortfall::incompatible;
        foreign[relative] = std::move(listed);
        return;
    }
    agent_state state{*id,
                      std::move(found.tokens),
                      std::move(found.text),
                      std::move(found.token_ends),
                      std::vector<block_ptr>(listed.size()),
                      found.created,
                      found.last_used,
                      std::move(found.notes)};
    record agent;
    agent.last_used = state.last_used;
    agent.state = std::make_shared<const agent_state>(std::move(state));
    agent.names = listed;
    agent.saved = std::move(listed);
    agent.manifest_bytes = bytes;
    agents.emplace(*id, std::move(agent));
}

}  // namespace semantic::storage
