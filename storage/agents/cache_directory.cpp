// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/cache_directory.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "storage/disk/directory_format.hpp"
#include "storage/pool/session_note.hpp"

namespace semantic::storage {

namespace {

constexpr std::size_t secret_bytes = 32;

}  // namespace

std::string random_bytes(std::size_t count) {
    std::random_device entropy;
    std::string bytes;
    while (bytes.size() < count) bytes += static_cast<char>(entropy() & 0xff);
    return bytes;
}

// --- opening ---

result<void> cache_directory::open() {
    {
        const agent_index::lock locked(parts_.index);
        for (const store_parts* other : parts_.others(locked))
            if (other->options.fingerprint == parts_.options.fingerprint)
                return failure{errc::locked, parts_.options.directory +
                                                 ": the same model has it open in this process"};
    }
    return home_.is_open ? take_over() : open_first();
}

cache_directory::~cache_directory() {
    const std::unique_lock alone(home_.visits);
    agent_index::left_agents left;  // destroyed after the lock is released
    {
        const agent_index::lock locked(parts_.index);
        std::erase(home_.stores, &parts_);
        if (!home_.stores.empty()) left = parts_.index.leave(locked, parts_.options.fingerprint);
    }
    parts_.blocks.release(left.unneeded);
}

/// Enters this store among those that have the directory open.
void cache_directory::join() {
    const agent_index::lock locked(parts_.index);
    parts_.index.add_label(locked, parts_.options.fingerprint,
                           {parts_.options.model, parts_.options.model_name});
    home_.stores.push_back(&parts_);
}

result<void> cache_directory::open_first() {
    const std::string& directory = parts_.options.directory;
    if (auto ok = parts_.files.make_directory(directory); !ok) return ok;
    auto lock = parts_.files.lock(directory);
    if (!lock) return lock.error();
    home_.lock = std::move(*lock);
    if (auto ok = adopt_directory_format(parts_.files, directory); !ok) return ok;
    if (auto ok = make_directories(); !ok) return ok;
    if (auto ok = parts_.quota.set_budget(parts_.options.disk_budget_bytes,
                                          parts_.options.record_budget_bytes);
        !ok)
        return ok;
    if (auto ok = read_secret(); !ok) return ok;
    if (auto ok = count_others(); !ok) return ok;
    join();
    if (auto ok = read_manifests(); !ok) return ok;
    // Ordering the texts does not wait for the disk, so it runs at the same time.
    const auto index_texts = [this] { parts_.index.add_texts(agent_index::lock(parts_.index)); };
    // A manifest of a later format may need files that this program cannot know of.
    if (auto ok = parts_.blocks.scan(!home_.all_understood, parts_.workers, index_texts); !ok)
        return ok;
    std::set<std::string> in_vain;
    while (parts_.quota.is_over_budget())
        if (!room_.remove_one(in_vain)) break;
    home_.is_open = true;
    return {};
}

result<void> cache_directory::take_over() {
    join();
    std::vector<read_file> files;
    std::vector<std::unique_ptr<manifest_turn>> turns;
    std::vector<std::string> own;
    {
        const agent_index::lock locked(parts_.index);
        for (const auto& [path, each] : parts_.index.foreign(locked).all())
            if (each.agent && each.fingerprint == parts_.options.fingerprint) own.push_back(path);
    }
    for (const std::string& path : own) {
        turns.push_back(std::make_unique<manifest_turn>(parts_.index, path));
        const agent_index::lock locked(parts_.index);
        const auto& known = parts_.index.foreign(locked).all();
        const auto found = known.find(path);
        // Somebody may have removed it until its turn came.
        if (found != known.end()) files.push_back({path, found->second.bytes});
    }
    parts_.workers.run(files.size(), [&](std::size_t i) { read_manifest(files[i]); });
    result<void> done;
    for (read_file& each : files)
        if (done) done = take_over(std::move(each));
    parts_.index.add_texts(agent_index::lock(parts_.index));
    return done;
}

result<void> cache_directory::take_over(read_file file) {
    // Whether reading the manifest failed with this code.
    const auto is = [&](errc code) { return !file.found && file.found.error().code == code; };
    if (!file.found && !is(errc::not_found) && !is(errc::corrupt) && !is(errc::incompatible) &&
        !is(errc::io))
        return file.found.error();
    foreign_manifest known =
        parts_.index.take_foreign(agent_index::lock(parts_.index), file.relative);
    if (is(errc::io)) {  // its blocks stay known
        ++parts_.probe.manifests_corrupt;
        known.is_readable = false;
        const agent_index::lock locked(parts_.index);
        parts_.index.set_absent(locked, file.relative, shortfall::corrupt);
        parts_.index.add_foreign(locked, file.relative, std::move(known));
        return {};
    }
    result<void> done;
    if (is(errc::not_found))  // somebody has taken it away
        parts_.quota.remove(known.bytes);
    else
        done = index_manifest(std::move(file));
    parts_.blocks.release(known.names);
    return done;
}

result<void> cache_directory::make_directories() {
    for (const char* each : {"", "/agents", "/blocks"})
        if (auto ok = parts_.files.make_directory(parts_.options.directory + each); !ok) return ok;
    return {};
}

/// Counts files and folders in the directory that are not the store's own: they take bytes of the
/// budget all the same.
result<void> cache_directory::count_others() {
    const auto entries = parts_.files.list(parts_.options.directory);
    if (!entries) return entries.error();
    for (const directory_entry& entry : *entries) {
        if (entry.is_directory && (entry.name == "agents" || entry.name == "blocks")) continue;
        const auto bytes = entry.is_directory
                               ? bytes_below(parts_.files, parts_.full_path(entry.name))
                               : entry.bytes;
        if (!bytes) return bytes.error();
        parts_.quota.add(*bytes);
    }
    return {};
}

/// Counts more (or fewer) bytes of packed weights in the disk quota, if the directory is open.
void change_packed_bytes(directory_share& share, std::int64_t change) {
    const std::lock_guard lock(share.mutex);
    const auto open = share.open.lock();
    if (open == nullptr) return;
    if (change > 0) open->quota.add(static_cast<std::uint64_t>(change));
    if (change < 0) open->quota.remove(static_cast<std::uint64_t>(-change));
}

result<void> cache_directory::read_secret() {
    const std::string path = parts_.full_path("secret");
    auto found = read_whole(parts_.files, path, secret_bytes);
    if (found && found->size() == secret_bytes) {
        home_.secret = std::move(*found);
        return {};
    }
    if (!found && found.error().code == errc::io) return found.error();
    // The file is missing or has another length. With a new secret every credential identifies a
    // new tenant.
    home_.secret = random_bytes(secret_bytes);
    return replace_file(parts_.files, path, home_.secret);
}

/// Reads all manifests under "agents", several at once, and enters their agents. Temporary files
/// are deleted; what else lies there only counts in the quota.
result<void> cache_directory::read_manifests() {
    const auto entries = parts_.files.list(parts_.full_path("agents"));
    if (!entries) return entries.error();
    std::vector<read_file> found;
    for (const directory_entry& entry : *entries) {
        const std::string relative = "agents/" + entry.name;
        if (!entry.is_directory && entry.name.ends_with(".tmp")) {
            if (auto ok = parts_.files.unlink(parts_.full_path(relative)); !ok) return ok;
        } else if (!entry.is_directory && entry.name.ends_with(".manifest")) {
            parts_.quota.add(entry.bytes);
            found.push_back({relative, entry.bytes});
        } else {
            const auto bytes = entry.is_directory
                                   ? bytes_below(parts_.files, parts_.full_path(relative))
                                   : entry.bytes;
            if (!bytes) return bytes.error();
            parts_.quota.add(*bytes);
        }
    }
    parts_.workers.run(found.size(), [&](std::size_t i) { read_manifest(found[i]); });
    if (auto ok = rename_former(found); !ok) return ok;
    std::size_t block_count = 0;
    for (const read_file& each : found) block_count += each.names.size() + each.kept_names.size();
    parts_.blocks.expect(block_count);
    for (read_file& each : found)
        if (auto ok = index_manifest(std::move(each)); !ok) return ok;
    return {};
}

/// Reads and decodes one manifest into `file`. Uses no index, so several threads may run it at
/// once.
void cache_directory::read_manifest(read_file& file) const {
    understand(file,
               read_whole(parts_.files, parts_.full_path(file.relative), manifest_file_bytes_max));
}

void cache_directory::understand(read_file& file, const result<std::string>& bytes) const {
    file.found = bytes ? decode_manifest(*bytes) : result<decoded_manifest>(bytes.error());
    if (!file.found) return;
    const manifest& agent = file.found->agent;
    const auto name = agent_id::parse(agent.agent);
    if (!name) {
        file.found = failure{errc::corrupt, file.relative + ": agent is not an agent id"};
        return;
    }
    file.id = name->owned_by(agent.tenant);
    for (const manifest_block& block : agent.blocks) file.names.push_back(block.name);
    for (const manifest_state& state : agent.states) file.kept_names.push_back(state.name);
    file.tokens = agent.tokens.size();
    if (is_former_manifest_path(file.relative)) {
        file.former = file.relative;
        file.relative = renamed_manifest_path(file.former, agent.fingerprint);
    }
    file.by = use_of(file);
    if (file.by == use::loaded_model) return;
    // No prompt is compared with an agent of another model, so its text need not stay in RAM.
    manifest& bare = file.found->agent;
    bare.tokens = {};
    bare.token_ends = {};
    bare.text = {};
    bare.messages = {};
}

/// Returns: a state with only those parts of the manifest from which the names of its recurrent
/// states are computed: tokens, salt and positions.
agent_state cache_directory::words_of(const read_file& file) {
    agent_state state{*file.id};
    state.tokens = file.found->agent.tokens;
    state.private_salt = file.private_salt;
    for (const manifest_state& each : file.found->agent.states)
        state.states.push_back({each.tokens, each.is_root});
    return state;
}

cache_directory::use cache_directory::use_of(read_file& file) const {
    manifest& agent = file.found->agent;
    std::string_view salt = parts_.shape.salt_of(*file.id);
    const auto note = agent.notes.extract(private_note);
    if (note) {
        salt = note.mapped();
        if (salt.size() != file.private_salt.bytes.size()) return use::nobody;
        std::ranges::copy(salt, file.private_salt.bytes.begin());
        if (file.private_salt == block_hash{}) return use::nobody;
    }
    if (parts_.shape.manifest_of(*file.id, agent.fingerprint) != file.relative) return use::nobody;
    if (agent.fingerprint != parts_.options.fingerprint) return use::other_model;
    const bool fits = file.names == parts_.shape.names_of(salt, agent.tokens) &&
                      (agent.states.empty() ||
                       file.kept_names == parts_.shape.kept_names_of(words_of(file), file.names));
    return fits ? use::loaded_model : use::nobody;
}

result<void> cache_directory::rename_former(std::vector<read_file>& found) {
    std::map<std::string_view, read_file*> by_path;
    for (read_file& each : found)
        if (each.former.empty()) by_path.emplace(each.relative, &each);
    std::vector<manifest_renaming> renamings;
    std::set<const read_file*> gone;
    for (read_file& each : found) {
        if (each.former.empty()) continue;
        manifest_renaming renaming{each.former, each.relative};
        if (const auto other = by_path.find(each.relative); other != by_path.end()) {
            const auto& there = other->second->found;
            const bool is_older = !there || there->agent.last_used < each.found->agent.last_used;
            renaming.there =
                is_older ? manifest_renaming::former::older : manifest_renaming::former::newer;
            gone.insert(is_older ? other->second : &each);
        }
        renamings.push_back(std::move(renaming));
    }
    if (renamings.empty()) return {};
    if (auto ok = rename_manifests(parts_.files, parts_.options.directory, renamings); !ok)
        return ok;
    std::vector<read_file> left;
    for (read_file& each : found) {
        if (gone.contains(&each))
            parts_.quota.remove(each.bytes);
        else
            left.push_back(std::move(each));
    }
    found = std::move(left);
    return {};
}

/// Enters a manifest that was read: as an agent of this model, as a foreign manifest, or as an
/// unreadable one. Errors: of unreadable ones, see there.
result<void> cache_directory::index_manifest(read_file file) {
    if (!file.found) return index_unreadable(file);
    parts_.blocks.retain(file.names);
    parts_.blocks.retain(file.kept_names);
    if (file.by != use::loaded_model) {
        index_foreign(std::move(file));
        return {};
    }
    if (file.found->torn) {
        ++parts_.probe.manifests_corrupt;
        ++parts_.probe.manifests_torn;
    }
    index_agent(std::move(file));
    return {};
}

result<void> cache_directory::index_unreadable(const read_file& file) {
    const failure& why = file.found.error();
    if (why.code == errc::incompatible || why.code == errc::io) {
        const bool is_readable = why.code == errc::incompatible;
        ++(is_readable ? parts_.probe.manifests_incompatible : parts_.probe.manifests_corrupt);
        home_.all_understood = false;
        const agent_index::lock locked(parts_.index);
        parts_.index.set_absent(locked, file.relative,
                                is_readable ? shortfall::incompatible : shortfall::corrupt);
        foreign_manifest unknown{{}, file.bytes};
        unknown.is_understood = false;
        unknown.is_readable = is_readable;
        parts_.index.add_foreign(locked, file.relative, std::move(unknown));
        return {};
    }
    if (why.code != errc::corrupt) return why;
    // Nothing in a corrupt manifest can be trusted, so deleting it loses nothing.
    ++parts_.probe.manifests_corrupt;
    if (auto ok = parts_.files.unlink(parts_.full_path(file.relative)); !ok) return ok;
    parts_.quota.remove(file.bytes);
    parts_.index.set_absent(agent_index::lock(parts_.index), file.relative, shortfall::corrupt);
    return {};
}

void cache_directory::index_foreign(read_file file) {
    manifest& agent = file.found->agent;
    const auto note = [&](const char* key) {
        const auto found = agent.notes.find(key);
        return found == agent.notes.end() ? std::string() : found->second;
    };
    foreign_manifest kept{concatenated(std::move(file.names), file.kept_names), file.bytes};
    kept.fingerprint = agent.fingerprint;
    kept.tokens = file.tokens;
    kept.created = agent.created;
    kept.last_used = agent.last_used;
    const agent_index::lock locked(parts_.index);
    if (file.by == use::other_model) {
        kept.agent = file.id;
        kept.sessions = note(sessions_note);
        kept.policy = decode_policy(note(policy_note));
        parts_.index.add_label(locked, agent.fingerprint,
                               {note(model_note), note(model_name_note)});
    } else {
        ++parts_.probe.manifests_incompatible;
        parts_.index.set_absent(locked, file.relative, shortfall::incompatible);
    }
    parts_.index.add_foreign(locked, file.relative, std::move(kept));
}

/// Returns: the index entry of an agent whose manifest was read: clean, with no block in the pool.
agent_record cache_directory::record_of(read_file file) {
    manifest& agent = file.found->agent;
    agent_record entry;
    entry.last_used = agent.last_used;
    const auto take_note = [&](const char* key) {
        auto note = agent.notes.extract(key);
        return note ? std::move(note.mapped()) : std::string();
    };
    const memory_policy policy = decode_policy(take_note(policy_note));
    entry.bytes_written = decode_written(take_note(written_note));
    std::vector<kept_state> states;
    for (const manifest_state& each : agent.states) states.push_back({each.tokens, each.is_root});
    entry.state = std::make_shared<const agent_state>(
        agent_state{*file.id, std::move(agent.tokens), std::move(agent.text),
                    std::move(agent.token_ends), std::vector<kv_block_parts>(file.names.size()),
                    agent.created, agent.last_used, std::move(agent.notes),
                    std::move(agent.messages), file.private_salt, std::move(states), policy});
    entry.names = file.names;
    entry.kept_names = file.kept_names;
    entry.saved_blocks = file.names.size();
    entry.saved = concatenated(std::move(file.names), file.kept_names);
    entry.manifest_bytes = file.bytes;
    return entry;
}

void cache_directory::index_agent(read_file file) {
    parts_.index.add_without_text(agent_index::lock(parts_.index), record_of(std::move(file)));
}

// --- agents of another directory ---

result<void> cache_directory::adopt(const agent_id& id, const std::string& manifest,
                                    const file_source& blocks) {
    read_file file{parts_.shape.manifest_of(id), manifest.size()};
    const manifest_turn mine(parts_.index, file.relative);
    if (auto ok = keep(); !ok) return ok;
    const std::string path = file.relative;
    understand(file, manifest);
    if (!file.found) return file.found.error();
    if (file.by != use::loaded_model || file.id != id || file.relative != path)
        return failure{errc::incompatible, path + ": it is no memory of this agent and model"};
    const auto is_dirty = [&](const agent_index::lock& locked) {
        const agent_record* here = parts_.index.find(locked, id);
        return here != nullptr && here->dirty;
    };
    const failure unsaved{errc::bad_value,
                          "there is an agent " + id.str() + " already, which is not saved yet"};
    if (is_dirty(agent_index::lock(parts_.index))) return unsaved;
    const std::vector<block_hash> names = file.names;
    const std::vector<block_hash> all_names = concatenated(names, file.kept_names);
    // Also called where the adoption fails: files that were fetched are on disk all the same.
    const auto publish_stored = [&](const agent_state& state) {
        std::set<std::size_t> there;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (parts_.blocks.is_good(names[i], kv_part::full)) there.insert(i);
        parts_.tell_stored(state, names, there);
    };
    parts_.blocks.retain(all_names);
    if (auto ok = take_in(file, manifest, blocks); !ok) {
        publish_stored(*record_of(std::move(file)).state);
        parts_.blocks.release(all_names);
        return ok;
    }
    state_ptr former, taken;  // destroyed after the lock is released
    std::vector<block_hash> dropped;
    {
        const agent_index::lock locked(parts_.index);
        agent_record* here = parts_.index.find(locked, id);
        if (here != nullptr) parts_.quota.remove(std::exchange(here->manifest_bytes, file.bytes));
        if (is_dirty(locked)) {
            // A turn came meanwhile and counts more than what was fetched. The manifest on disk
            // still names these blocks, so they stay until the agent's next save.
            here->appendable.reset();
            here->attempted.insert(here->attempted.end(), all_names.begin(), all_names.end());
            publish_stored(*record_of(std::move(file)).state);
            return unsaved;
        }
        if (here != nullptr) {
            agent_record replaced = parts_.index.take(locked, id);
            former = std::move(replaced.state);
            dropped = std::move(replaced.saved);
            dropped.insert(dropped.end(), replaced.attempted.begin(), replaced.attempted.end());
        }
        taken = parts_.index.add(locked, record_of(std::move(file))).state;
    }
    publish_stored(*taken);
    parts_.blocks.release(dropped);
    return {};
}

result<void> cache_directory::take_in(const read_file& file, const std::string& manifest,
                                      const file_source& blocks) {
    std::vector<std::pair<block_hash, kv_part>> missing;
    for (const block_hash& name : file.names)
        for (const kv_part part : kv_parts)
            if (!parts_.blocks.is_good(name, part)) missing.emplace_back(name, part);
    for (const block_hash& name : file.kept_names)
        if (!parts_.blocks.is_good(name, kv_part::state))
            missing.emplace_back(name, kv_part::state);
    std::mutex mutex;  // guards `why`
    std::optional<failure> why;
    fetchers_.run(missing.size(), [&](std::size_t i) {
        if (std::lock_guard lock(mutex); why) return;
        const auto taken = take_in(missing[i].first, missing[i].second, blocks);
        if (taken) return;
        std::lock_guard lock(mutex);
        why = taken.error();
    });
    if (why) return *why;
    auto room = room_.free_disk(manifest.size());
    if (!room) return room.error();
    if (auto ok = replace_file(parts_.files, parts_.full_path(file.relative), manifest); !ok)
        return ok;
    parts_.quota.add(manifest.size());
    return {};
}

/// Blocks. Fetches one file and writes it. One that does not exist is an error only for the full
/// layers of a block.
result<void> cache_directory::take_in(const block_hash& name, kv_part part,
                                      const file_source& blocks) {
    const auto bytes = blocks(block_path(name, part));
    // A manifest does not say which sliding halves were written. Without one, or without a
    // recurrent state, prompts only cannot continue at the positions that need it.
    if (!bytes && bytes.error().code == errc::not_found && part != kv_part::full) return {};
    if (!bytes) return bytes.error();
    auto room = room_.free_disk(bytes->size());
    if (!room) return room.error();
    const auto written = parts_.blocks.take_in(name, part, *bytes);
    if (!written) return written.error();
    room->spend(*written);
    return {};
}

// --- files that are taken away ---

result<void> cache_directory::check(const agent_id& id, const std::string& manifest) {
    if (auto ok = keep(); !ok) return ok;
    std::vector<block_hash> names;
    bool has_manifest = false;
    {
        const agent_index::lock locked(parts_.index);
        const agent_record* agent = parts_.index.find(locked, id);
        if (agent == nullptr) return {};
        names = concatenated(agent->names, agent->kept_names);
        has_manifest = agent->manifest_bytes > 0;
    }
    const auto is_gone = [this](const std::string& name) {
        const auto there = parts_.files.exists(parts_.full_path(name));
        return there && !*there;
    };
    bool gone = is_gone("agents") || is_gone("blocks");
    gone = gone || (has_manifest && is_gone(manifest)) || parts_.blocks.forget_missing(names) > 0;
    if (!gone) return {};
    if (auto ok = make_directories(); !ok) return ok;
    reconcile();
    return {};
}

result<void> cache_directory::keep() {
    std::lock_guard one_at_a_time(home_.keep_mutex);
    if (home_.lock->is_in_place()) return {};
    const std::string& directory = parts_.options.directory;
    if (auto ok = parts_.files.make_directory(directory); !ok) return ok;
    auto lock = parts_.files.lock(directory);
    if (!lock) return lock.error();
    const std::string path = parts_.full_path("secret");
    const auto found = read_whole(parts_.files, path, home_.secret.size());
    if (found ? *found != home_.secret : found.error().code != errc::not_found)
        return failure{errc::io, directory +
                                     ": another cache directory stands in the place of the one "
                                     "that this process has opened"};
    if (auto ok = adopt_directory_format(parts_.files, directory); !ok) return ok;
    if (auto ok = make_directories(); !ok) return ok;
    if (!found)
        if (auto ok = replace_file(parts_.files, path, home_.secret); !ok) return ok;
    home_.lock = std::move(*lock);
    reconcile();
    return {};
}

void cache_directory::reconcile() {
    parts_.blocks.forget_missing();
    std::set<std::string> gone;
    std::set<std::string> expected;
    {
        const agent_index::lock locked(parts_.index);
        for (const agent_index* each : parts_.index.members(locked))
            for (std::string& path : each->manifests(locked)) expected.insert(std::move(path));
    }
    for (const std::string& each : expected)
        if (const auto there = parts_.files.exists(parts_.full_path(each)); there && !*there)
            gone.insert(each);
    std::vector<foreign_manifest> left;
    {
        const agent_index::lock locked(parts_.index);
        for (agent_index* each : parts_.index.members(locked))
            left.push_back(each->reconcile(locked, gone));
    }
    for (const foreign_manifest& each : left) {
        parts_.quota.remove(each.bytes);
        parts_.blocks.release(each.names);
    }
}

bool cache_directory::repair(const failure& fault, repairs& left) {
    if (left.is_over_bound) return false;
    if (fault.code == errc::out_of_space) {
        // The first time the save is simply repeated: bytes that another write had reserved may be
        // free again. After that the file system itself is full, or out of inodes, which no budget
        // counts.
        if (std::exchange(left.is_first, false)) return true;
        return left.unmet && left.removals-- > 0 && room_.relieve(*left.unmet);
    }
    if (fault.code != errc::not_found || left.renewals-- <= 0) return false;
    if (!make_directories()) return false;
    reconcile();
    return true;
}

}  // namespace semantic::storage
