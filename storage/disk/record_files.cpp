#include "storage/disk/record_files.hpp"

#include <charconv>
#include <optional>

#include "storage/files/checksum.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view magic = "semantic-record 1";
constexpr const char* folder = "records";

std::string_view bytes_of(const tenant_id& tenant) {
    if (tenant.is_default()) return {};
    const auto& salt = tenant.salt.bytes;
    return {reinterpret_cast<const char*>(salt.data()), salt.size()};
}

block_hash sum_of(const kept_record& record) {
    return field_hasher()
        .add(bytes_of(record.tenant))
        .add(std::string_view(record.name))
        .add(std::string_view(record.bytes))
        .finish();
}

/// Takes a word and the blank or line break behind it from the front.
std::optional<std::string_view> take_word(std::string_view& from, char behind) {
    const std::size_t end = from.find(behind);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view word = from.substr(0, end);
    from.remove_prefix(end + 1);
    return word;
}

failure damaged(std::string what) { return {errc::corrupt, std::move(what)}; }

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

result<kept_record> decode_record(std::string_view bytes) {
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
    kept_record record{
        {*tenant}, std::string(rest.substr(0, name_bytes)), std::string(rest.substr(name_bytes))};
    if (sum_of(record).hex() != *sum) return damaged("its checksum is wrong");
    return record;
}

result<void> record_files::open() {
    const auto entries = files_.list(directory_ + "/" + folder);
    if (!entries && entries.error().code == errc::not_found) return {};
    if (!entries) return entries.error();
    std::lock_guard lock(books_->mutex);
    for (const directory_entry& each : *entries) {
        const std::string path = std::string(folder) + "/" + each.name;
        if (each.name.ends_with(".record")) books_->bytes[path] = each.bytes;
        // What cannot be removed counts, and does no harm.
        if (each.name.ends_with(".tmp") && files_.unlink(directory_ + "/" + path))
            quota_.remove(each.bytes);
    }
    return {};
}

/// The first record makes the folder, and so does one after the directory was taken away.
result<void> record_files::replace(const std::string& path, std::string_view bytes) {
    const std::string whole = directory_ + "/" + path;
    auto done = replace_file(files_, whole, bytes);
    if (done || done.error().code != errc::not_found) return done;
    if (auto ok = files_.make_directory(directory_ + "/" + folder); !ok) return ok;
    return replace_file(files_, whole, bytes);
}

result<void> record_files::write(const kept_record& record) {
    const std::string bytes = encode_record(record);
    if (bytes.size() > record_bytes_max)
        return failure{errc::bad_value, "a record may have " + std::to_string(record_bytes_max) +
                                            " bytes, " + record.name + " has " +
                                            std::to_string(bytes.size())};
    auto room = room_(bytes.size());
    if (!room) return room.error();
    const std::string path = record_path(record.tenant, record.name);
    if (auto ok = replace(path, bytes); !ok) return ok;
    std::lock_guard lock(books_->mutex);
    std::uint64_t& held = books_->bytes[path];
    quota_.add(bytes.size());
    quota_.remove(held);
    held = bytes.size();
    return {};
}

result<void> record_files::remove(const tenant_id& tenant, std::string_view name) {
    const std::string path = record_path(tenant, name);
    auto gone = files_.unlink(directory_ + "/" + path);
    if (!gone && gone.error().code != errc::not_found) return gone;
    if (gone)
        if (auto ok = files_.sync_directory(directory_ + "/" + folder); !ok) return ok;
    std::lock_guard lock(books_->mutex);
    const auto held = books_->bytes.find(path);
    if (held == books_->bytes.end()) return {};
    quota_.remove(held->second);
    books_->bytes.erase(held);
    return {};
}

kept_records record_files::read_all() {
    std::vector<std::string> paths;
    {
        std::lock_guard lock(books_->mutex);
        for (const auto& [path, bytes] : books_->bytes) paths.push_back(path);
    }
    kept_records found;
    for (const std::string& path : paths) {
        auto bytes = read_whole(files_, directory_ + "/" + path, record_bytes_max);
        if (!bytes) {
            found.damaged.push_back(bytes.error());
            continue;
        }
        auto record = decode_record(*bytes);
        if (record && record_path(record->tenant, record->name) != path)
            record = damaged("it is under a name that is not its own");
        if (record)
            found.whole.push_back(std::move(*record));
        else
            found.damaged.push_back(
                {record.error().code, directory_ + "/" + path + ": " + record.error().what});
    }
    return found;
}

}  // namespace semantic::storage
