// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/record_files.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "storage/files/checksum.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view magic = "semantic-record 1";
constexpr const char* folder = "records";
// Of a file: its first line and the record's name are in these.
constexpr std::size_t record_name_bytes_max = 16 * 1024;
constexpr std::uint64_t record_head_bytes = record_name_bytes_max + 256;

std::string_view bytes_of(const tenant_id& tenant) {
    if (tenant.is_default()) return {};
    const auto& salt = tenant.salt.bytes;
    return {reinterpret_cast<const char*>(salt.data()), salt.size()};
}

/// The checksum in the head of a record's file.
block_hash sum_of(const kept_record& record) {
    return field_hasher()
        .add(bytes_of(record.tenant))
        .add(std::string_view(record.name))
        .add(std::string_view(record.bytes))
        .finish();
}

/// Takes the text up to `delimiter`, and the delimiter, off the front of `from`. Returns: the text;
/// nothing where there is no delimiter.
std::optional<std::string_view> take_word(std::string_view& from, char delimiter) {
    const std::size_t end = from.find(delimiter);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view word = from.substr(0, end);
    from.remove_prefix(end + 1);
    return word;
}

failure damaged(std::string message) { return {errc::corrupt, std::move(message)}; }

}  // namespace

std::string record_path(const tenant_id& tenant, std::string_view name) {
    return std::string(folder) + "/" +
           field_hasher().add(bytes_of(tenant)).add(name).finish().hex() + ".record";
}

std::string encode_record(const kept_record& record) {
    std::string out(magic);
    out += " " + sum_of(record).hex() + " " + record.tenant.salt.hex() + " " +
           std::to_string(record.name.size()) + "\n";
    return out + record.name + record.bytes;
}

namespace {

/// A record's first line and name.
struct record_head {
    std::string_view sum;
    tenant_id tenant;
    std::string_view name;
    std::string_view rest;  // the bytes after the name
};

/// Decodes the first line and the name. `bytes`: a file's, or its beginning if that has the whole
/// name. Errors: corrupt.
result<record_head> decode_head(std::string_view bytes) {
    std::string_view rest = bytes;
    if (!rest.starts_with(magic) || rest.size() == magic.size() || rest[magic.size()] != ' ')
        return damaged("it is no record of this version");
    rest.remove_prefix(magic.size() + 1);
    const auto sum = take_word(rest, ' ');
    const auto salt = take_word(rest, ' ');
    const auto size = take_word(rest, '\n');
    if (!sum || !salt || !size) return damaged("its first line is cut off");
    const auto tenant = block_hash::from_hex(*salt);
    std::size_t name_bytes = 0;
    const auto [end, fault] =
        std::from_chars(size->data(), size->data() + size->size(), name_bytes);
    const bool is_number = fault == std::errc{} && end == size->data() + size->size();
    if (!tenant || !is_number || name_bytes > rest.size())
        return damaged("its first line is not as it was written");
    return record_head{*sum, {*tenant}, rest.substr(0, name_bytes), rest.substr(name_bytes)};
}

bool begins_with_any(std::string_view name, std::span<const std::string_view> heads) {
    return heads.empty() || std::ranges::any_of(heads, [&](std::string_view each) {
               return name.starts_with(each);
           });
}

/// Returns: the bytes that one tenant's records may take at most: half of what the records of all
/// other tenants leave of the budget.
std::uint64_t share_of_tenant(std::uint64_t budget, std::uint64_t others) {
    return budget > others ? (budget - others) / 2 : 0;
}

/// Returns: the beginning of a file, long enough to contain the record's name. Errors: those of
/// reading.
result<std::string> read_head(file_system& files, const std::string& path) {
    auto file = files.open(path);
    if (!file) return file.error();
    const auto size = (*file)->size();
    if (!size) return size.error();
    std::string head(static_cast<std::size_t>(std::min(*size, record_head_bytes)), '\0');
    if (auto ok = (*file)->read_at(0, std::as_writable_bytes(std::span(head))); !ok)
        return ok.error();
    return head;
}

}  // namespace

result<kept_record> decode_record(std::string_view bytes) {
    const auto head = decode_head(bytes);
    if (!head) return head.error();
    kept_record record{head->tenant, std::string(head->name), std::string(head->rest)};
    if (sum_of(record).hex() != head->sum) return damaged("its checksum is wrong");
    return record;
}

result<void> record_files::open() {
    const auto entries = files_.list(directory_ + "/" + folder);
    if (!entries && entries.error().code == errc::not_found) return {};
    if (!entries) return entries.error();
    std::lock_guard lock(books_->mutex);
    for (const directory_entry& each : *entries) {
        const std::string path = std::string(folder) + "/" + each.name;
        if (each.is_directory) continue;
        if (each.name.ends_with(".record")) {
            quota_.note_record(each.bytes);
            record_books::entry& entry = books_->entries[path];
            entry.bytes = each.bytes;
            books_->all_bytes += each.bytes;
            const auto bytes = read_head(files_, directory_ + "/" + path);
            const auto head = bytes ? decode_head(*bytes) : result<record_head>(bytes.error());
            entry.is_legible = head.has_value();
            if (head) entry.tenant = head->tenant;
            if (head) books_->tenant_bytes[head->tenant] += each.bytes;
        }
        // A temporary file that cannot be removed stays counted, and does no harm.
        if (each.name.ends_with(".tmp") && files_.unlink(directory_ + "/" + path))
            quota_.remove(each.bytes);
    }
    return {};
}

/// Writes a file as a whole. Creates the folder where it does not exist: for the first record, and
/// after the directory was removed from outside.
result<void> record_files::replace(const std::string& path, std::string_view bytes) {
    const std::string whole = directory_ + "/" + path;
    auto done = replace_file(files_, whole, bytes);
    if (done || done.error().code != errc::not_found) return done;
    if (auto ok = files_.make_directory(directory_ + "/" + folder); !ok) return ok;
    return replace_file(files_, whole, bytes);
}

/// Counts the bytes by which a record grows, before it is written, against the tenant's share.
/// Returns: those bytes. Errors: out_of_space, with a sentence for clients.
result<std::uint64_t> record_files::book(const tenant_id& tenant, const std::string& path,
                                         std::uint64_t bytes) {
    std::lock_guard lock(books_->mutex);
    const auto there = books_->entries.find(path);
    const std::uint64_t former = there == books_->entries.end() ? 0 : there->second.bytes;
    const std::uint64_t more = bytes > former ? bytes - former : 0;
    if (more == 0) return more;
    const std::uint64_t budget = quota_.record_budget_bytes();
    const auto found = books_->tenant_bytes.find(tenant);
    const std::uint64_t held = found == books_->tenant_bytes.end() ? 0 : found->second;
    const std::uint64_t allowed = share_of_tenant(budget, books_->all_bytes - held);
    if (held + more > allowed)
        return failure{errc::out_of_space, "sessions, runs, responses and conversations take " +
                                               std::to_string(held) + " bytes of at most " +
                                               std::to_string(allowed) +
                                               " on the disk: no room for " + std::to_string(more) +
                                               " more. Deleting some makes room"};
    books_->tenant_bytes[tenant] += more;
    books_->all_bytes += more;
    return more;
}

/// Takes `bytes` off the tenant's count. Requires: the books' mutex is held.
/// They were counted for this tenant.
void record_files::take_off(const tenant_id& tenant, std::uint64_t bytes) {
    const auto held = books_->tenant_bytes.find(tenant);
    held->second -= bytes;
    if (held->second == 0) books_->tenant_bytes.erase(held);
    books_->all_bytes -= bytes;
}

result<void> record_files::write(const kept_record& record) {
    const std::string bytes = encode_record(record);
    if (bytes.size() > record_bytes_max)
        return failure{errc::bad_value, "a record may have " + std::to_string(record_bytes_max) +
                                            " bytes, " + record.name + " has " +
                                            std::to_string(bytes.size())};
    if (record.name.size() > record_name_bytes_max)
        return failure{errc::bad_value, "a record's name may have " +
                                            std::to_string(record_name_bytes_max) + " bytes"};
    const std::string path = record_path(record.tenant, record.name);
    const auto booked = book(record.tenant, path, bytes.size());
    if (!booked) return booked.error();
    const auto written = [&]() -> result<void> {
        auto room = room_(record.tenant, bytes.size());
        if (!room) return room.error();
        return replace(path, bytes);
    }();
    std::lock_guard lock(books_->mutex);
    if (!written && (written.error().code == errc::out_of_space || !is_in_place(path, bytes))) {
        if (*booked > 0) take_off(record.tenant, *booked);
        return written;
    }
    // Also where only the sync of the folder failed: the new file is in place, so it counts.
    record_books::entry& entry = books_->entries[path];
    quota_.add_record(bytes.size());
    quota_.remove_record(entry.bytes);
    if (!entry.is_legible) {
        // The former file had no owner: all bytes of the new one count for the tenant.
        books_->tenant_bytes[record.tenant] += std::min<std::uint64_t>(entry.bytes, bytes.size());
    }
    // book() counts growth alone. A record that became shorter is taken off once its file is there.
    if (entry.bytes > bytes.size()) {
        const std::uint64_t less = entry.bytes - bytes.size();
        if (entry.is_legible)
            take_off(record.tenant, less);
        else
            books_->all_bytes -= less;
    }
    entry = {record.tenant, bytes.size()};
    return written;
}

/// Whether the file has exactly these bytes now.
bool record_files::is_in_place(const std::string& path, std::string_view bytes) const {
    const auto there = read_whole(files_, directory_ + "/" + path, record_bytes_max);
    return there && *there == bytes;
}

result<void> record_files::remove(const tenant_id& tenant, std::string_view name) {
    const std::string path = record_path(tenant, name);
    auto gone = files_.unlink(directory_ + "/" + path);
    if (!gone && gone.error().code != errc::not_found) return gone;
    if (gone)
        if (auto ok = files_.sync_directory(directory_ + "/" + folder); !ok) return ok;
    std::lock_guard lock(books_->mutex);
    const auto held = books_->entries.find(path);
    if (held == books_->entries.end()) return {};
    quota_.remove_record(held->second.bytes);
    if (held->second.is_legible)
        take_off(tenant, held->second.bytes);
    else
        books_->all_bytes -= held->second.bytes;
    books_->entries.erase(held);
    return {};
}

/// Reads one file. Errors: those of reading; corrupt, also where it lies under another record's
/// path.
result<kept_record> record_files::read_file(const std::string& path) {
    auto bytes = read_whole(files_, directory_ + "/" + path, record_bytes_max);
    if (!bytes) return bytes.error();
    auto record = decode_record(*bytes);
    if (record && record_path(record->tenant, record->name) != path)
        record = damaged("it is under a name that is not its own");
    if (!record)
        return failure{record.error().code, directory_ + "/" + path + ": " + record.error().what};
    return record;
}

/// Reads the tenant and name of one file. Errors: those of reading; corrupt.
result<record_name> record_files::read_name(const std::string& path) {
    const auto bytes = read_head(files_, directory_ + "/" + path);
    if (!bytes) return bytes.error();
    const auto head = decode_head(*bytes);
    if (!head)
        return failure{head.error().code, directory_ + "/" + path + ": " + head.error().what};
    record_name found{head->tenant, std::string(head->name)};
    if (record_path(found.tenant, found.name) != path)
        return damaged(directory_ + "/" + path + ": it is under a name that is not its own");
    return found;
}

record_names record_files::names(std::span<const std::string_view> heads) {
    std::map<std::string, record_books::entry> entries;
    std::map<tenant_id, std::uint64_t> shares;  // what is left of each tenant's
    std::uint64_t left_of_all = 0;
    {
        std::lock_guard lock(books_->mutex);
        entries = books_->entries;
        const std::uint64_t budget = quota_.record_budget_bytes();
        // A tenant may have come to more than its share is now, as others came; all of it is read
        // as long as all together are within the budget.
        const bool is_within = books_->all_bytes <= budget;
        left_of_all = std::max(budget, is_within ? books_->all_bytes : 0);
        for (const auto& [tenant, bytes] : books_->tenant_bytes)
            shares[tenant] = is_within ? bytes : share_of_tenant(budget, 0);
    }
    record_names found;
    for (const auto& [path, entry] : entries) {
        if (entry.is_legible) {
            std::uint64_t& left = shares[entry.tenant];
            if (entry.bytes > std::min(left, left_of_all)) {
                found.damaged.push_back(
                    {errc::out_of_space,
                     directory_ + "/" + path + ": its tenant's records are more than its share"});
                continue;
            }
            left -= entry.bytes;
            left_of_all -= entry.bytes;
        }
        auto name = read_name(path);
        if (!name)
            found.damaged.push_back(name.error());
        else if (begins_with_any(name->name, heads))
            found.whole.push_back({name->tenant, std::move(name->name), entry.bytes});
    }
    return found;
}

kept_records record_files::read_all(std::span<const std::string_view> heads) {
    record_names there = names(heads);
    kept_records found;
    found.damaged = std::move(there.damaged);
    for (const record_name& each : there.whole) {
        auto record = read(each.tenant, each.name);
        if (record)
            found.whole.push_back(std::move(*record));
        else
            found.damaged.push_back(record.error());
    }
    return found;
}

result<kept_record> record_files::read(const tenant_id& tenant, std::string_view name) {
    return read_file(record_path(tenant, name));
}

}  // namespace semantic::storage
