// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/directory_objects.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <thread>
#include <utility>

#include "storage/files/checksum.hpp"
#include "storage/objects/random_id.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view magic("SEMOBJCT\1\0\0\0\0\0\0\0", 16);
// Offsets in the header that encode_header() writes.
constexpr std::size_t id_at = 16, id_bytes = 16;
constexpr std::size_t size_at = 32, sum_at = 40, seal_at = 56, header_bytes = 64;

void append_number(std::string& out, std::uint64_t value) {
    for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;)
        value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
}

/// Appends the XXH3-128 of the contents.
void append_sum(std::string& out, std::string_view contents) {
    const auto sum = checksum128(contents).bytes;
    out.append(reinterpret_cast<const char*>(sum.data()), sum.size());
}

/// Returns: the 64 bytes in front of an object's contents: magic, id, size, checksum of the
/// contents, checksum of the header. `id`: 32 hex digits, the object's version.
std::string encode_header(const std::string& id, std::string_view contents) {
    std::string out(magic);
    out += *bytes_of_hex(id);
    append_number(out, contents.size());
    append_sum(out, contents);
    append_number(out, checksum_of(out));
    return out;
}

struct object_header {
    object_info info;
    std::string sum;
};

/// Decodes and checks those 64 bytes. `path`: for the message. Errors: corrupt.
object_result<object_header> decode_header(const std::string& path, std::string_view bytes) {
    const auto damaged = [&](const char* message) {
        return object_failure{object_errc::corrupt, path + ": " + message};
    };
    if (bytes.substr(0, magic.size()) != magic) return damaged("it is no object of this version");
    if (number_at(bytes, seal_at) != checksum_of(bytes.substr(0, seal_at)))
        return damaged("its header contradicts its checksum");
    object_header header;
    header.info.bytes = number_at(bytes, size_at);
    for (char each : bytes.substr(id_at, id_bytes)) append_hex(header.info.version, each);
    header.sum = bytes.substr(sum_at, seal_at - sum_at);
    return header;
}

struct opened_object {
    std::unique_ptr<readable_file> file;
    object_header header;
};

class directory_objects final : public object_store {
  public:
    directory_objects(file_system& files, std::string root,
                      const directory_objects_options& options)
        : files_(files), root_(std::move(root)), options_(options) {}

    object_result<void> open();
    object_result<object_info> get(const std::string& name, std::string& bytes) override;
    object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                         std::span<std::byte> target) override;
    object_result<std::string> put(const std::string& name, std::string_view bytes,
                                   const put_condition& condition) override;
    object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) override;
    object_result<void> remove(const std::string& name) override;
    object_result<object_page> list(const std::string& prefix, const std::string& from,
                                    std::size_t count_max) override;

  private:
    /// A list under way: what it looks for, and the page that it fills.
    struct walk {
        const std::string& prefix;
        const std::string& from;
        const std::size_t count_max;
        object_page page;
        bool is_full = false;
    };

    std::string path_of(const std::string& name) const { return root_ + "/objects/" + name; }
    std::int64_t now() const {
        return options_.now_seconds != 0 ? options_.now_seconds
                                         : static_cast<std::int64_t>(std::time(nullptr));
    }
    object_result<opened_object> open_object(const std::string& name);
    object_result<std::unique_ptr<directory_lock>> lock(const std::string& name);
    object_result<void> check(const std::string& name, const put_condition& condition);
    object_result<std::string> write_temporary(std::string_view header, std::string_view bytes);
    object_result<void> publish(const std::string& temporary, const std::string& name,
                                const put_condition& condition);
    object_result<void> visit(const std::string& folder, walk& through);

    file_system& files_;
    const std::string root_;
    const directory_objects_options options_;
};

object_result<void> directory_objects::open() {
    const auto there = files_.exists(root_);
    if (!there) return of_file(there.error());
    if (!*there) return object_failure{object_errc::not_found, root_ + ": no such directory"};
    for (const char* folder : {"/objects", "/locks", "/tmp"})
        if (auto ok = files_.make_directory(root_ + folder); !ok) return of_file(ok.error());
    const auto entries = files_.list(root_ + "/tmp");
    if (!entries) return of_file(entries.error());
    const std::int64_t oldest = now() - temporary_seconds_max;
    for (const directory_entry& each : *entries) {
        const auto since = number_of_hex(std::string_view(each.name).substr(0, 16));
        // A failure is ignored: the file does no harm, or another machine has removed it.
        if (since && static_cast<std::int64_t>(*since) < oldest)
            (void)files_.unlink(root_ + "/tmp/" + each.name);
    }
    return {};
}

object_result<opened_object> directory_objects::open_object(const std::string& name) {
    if (auto ok = check_object_name(name); !ok) return ok.error();
    const std::string path = path_of(name);
    auto file = files_.open(path);
    if (!file) return of_file(file.error());
    std::string bytes(header_bytes, '\0');
    if (auto ok = (*file)->read_at(0, std::as_writable_bytes(std::span(bytes))); !ok)
        return of_file(ok.error());
    auto header = decode_header(path, bytes);
    if (!header) return header.error();
    const auto size = (*file)->size();
    if (!size) return of_file(size.error());
    if (*size != header_bytes + header->info.bytes || header->info.bytes > object_bytes_max)
        return object_failure{object_errc::corrupt,
                              path + ": the file has " + std::to_string(*size) + " bytes, not " +
                                  std::to_string(header->info.bytes) + " behind its header"};
    return opened_object{std::move(*file), std::move(*header)};
}

object_result<object_info> directory_objects::get(const std::string& name, std::string& bytes) {
    bytes.clear();
    auto object = open_object(name);
    if (!object) return object.error();
    bytes.resize(static_cast<std::size_t>(object->header.info.bytes));
    auto read = object->file->read_at(header_bytes, std::as_writable_bytes(std::span(bytes)));
    std::string sum;
    if (read) append_sum(sum, bytes);
    if (read && sum == object->header.sum) return std::move(object->header.info);
    bytes.clear();
    if (!read) return of_file(read.error());
    return object_failure{object_errc::corrupt,
                          path_of(name) + ": its bytes contradict their checksum"};
}

object_result<object_info> directory_objects::get_range(const std::string& name,
                                                        std::uint64_t offset,
                                                        std::span<std::byte> target) {
    auto object = open_object(name);
    if (!object) return object.error();
    const std::uint64_t bytes = object->header.info.bytes;
    if (target.empty() || offset > bytes || target.size() > bytes - offset)
        return object_failure{object_errc::bad_value, name + " has " + std::to_string(bytes) +
                                                          " bytes, not " +
                                                          std::to_string(target.size()) + " from " +
                                                          std::to_string(offset)};
    if (auto ok = object->file->read_at(header_bytes + offset, target); !ok)
        return of_file(ok.error());
    return std::move(object->header.info);
}

/// Blocks. Takes the lock that writers of `name` share. There are 256 locks, chosen by the hash of
/// the name: enough that writers seldom wait for each other. Errors: unavailable after
/// lock_wait_max; io.
object_result<std::unique_ptr<directory_lock>> directory_objects::lock(const std::string& name) {
    const std::string folder = root_ + "/locks/" + checksum128(name).hex().substr(0, 2);
    if (auto ok = files_.make_directory(folder); !ok) return of_file(ok.error());
    using clock = std::chrono::steady_clock;
    const auto until = clock::now() + options_.lock_wait_max;
    for (std::chrono::milliseconds wait{1};; wait = std::min(2 * wait, decltype(wait){20})) {
        auto taken = files_.lock(folder);
        if (taken) return std::move(*taken);
        if (taken.error().code != errc::locked) return of_file(taken.error());
        if (clock::now() >= until)
            return object_failure{object_errc::unavailable,
                                  path_of(name) + ": another writer holds its lock"};
        std::this_thread::sleep_for(wait);
    }
}

/// Whether a write on this condition may happen now. Errors: precondition_failed where it may not;
/// io; corrupt where the version of a damaged object is needed.
object_result<void> directory_objects::check(const std::string& name,
                                             const put_condition& condition) {
    const auto fails = [&](const char* why) {
        return object_failure{object_errc::precondition_failed, name + why};
    };
    if (condition.when == put_condition::kind::if_absent) {
        const auto there = files_.exists(path_of(name));
        if (!there) return of_file(there.error());
        if (*there) return fails(" is there already");
    }
    if (condition.when == put_condition::kind::if_version) {
        const auto object = open_object(name);
        if (!object && object.error().code == object_errc::not_found) return fails(" is not there");
        if (!object) return object.error();
        if (object->header.info.version != condition.version)
            return fails(" has another version by now");
    }
    return {};
}

/// Blocks. Writes and syncs a temporary file. Returns: its path, whose name begins with the time,
/// so that a later opening can remove old ones. Errors: those of the file system.
object_result<std::string> directory_objects::write_temporary(std::string_view header,
                                                              std::string_view bytes) {
    const std::string path =
        root_ + "/tmp/" + hex_of(static_cast<std::uint64_t>(now())) + random_id();
    const auto write = [&]() -> result<void> {
        auto file = files_.create(path);
        if (!file) return file.error();
        if (auto ok = (*file)->write(std::as_bytes(std::span(header))); !ok) return ok;
        if (auto ok = (*file)->write(std::as_bytes(std::span(bytes))); !ok) return ok;
        return (*file)->sync();
    };
    if (auto ok = write(); !ok) {
        (void)files_.unlink(path);  // best effort: the next opening after a day removes it
        return of_file(ok.error());
    }
    return path;
}

/// Blocks. Gives a temporary file the name of an object, if the condition holds, and syncs the
/// folder. Errors: precondition_failed; those of lock() and of the file system.
object_result<void> directory_objects::publish(const std::string& temporary,
                                               const std::string& name,
                                               const put_condition& condition) {
    const std::string path = path_of(name);
    const std::string folder = path.substr(0, path.rfind('/'));
    if (auto ok = files_.make_directory(folder); !ok) return of_file(ok.error());
    const auto held = lock(name);
    if (!held) return held.error();
    // The client of a network file system may answer from its cache that a name is absent. A hard
    // link is decided by the server, which lets only one succeed. Where there are no links, the
    // lock decides.
    const bool is_new = condition.when == put_condition::kind::if_absent;
    const auto linked = is_new ? files_.link(temporary, path) : failure{errc::io, {}};
    if (!linked && linked.error().code == errc::bad_value)
        return object_failure{object_errc::precondition_failed, name + " is there already"};
    if (!linked) {
        if (auto ok = check(name, condition); !ok) return ok;
        if (auto ok = files_.rename(temporary, path); !ok) return of_file(ok.error());
    }
    if (auto ok = files_.sync_directory(folder); !ok) return of_file(ok.error());
    return {};
}

object_result<std::string> directory_objects::put(const std::string& name, std::string_view bytes,
                                                  const put_condition& condition) {
    if (auto ok = check_object_name(name); !ok) return ok.error();
    if (bytes.size() > object_bytes_max)
        return object_failure{object_errc::bad_value,
                              name + " would have " + std::to_string(bytes.size()) + " bytes"};
    // The condition is decided later, under the lock. This check only avoids writing the bytes of
    // an object that is refused anyway.
    if (auto ok = check(name, condition); !ok) return ok.error();
    const std::string id = random_id();
    const auto temporary = write_temporary(encode_header(id, bytes), bytes);
    if (!temporary) return temporary.error();
    const auto published = publish(*temporary, name, condition);
    (void)files_.unlink(*temporary);  // as in write_temporary; gone when it was renamed
    if (!published) return published.error();
    return id;
}

object_result<std::vector<std::optional<object_info>>> directory_objects::stat(
    std::span<const std::string> names) {
    std::vector<std::optional<object_info>> infos;
    for (const std::string& name : names) {
        auto object = open_object(name);
        if (object)
            infos.emplace_back(std::move(object->header.info));
        else if (object.error().code == object_errc::not_found)
            infos.emplace_back(std::nullopt);
        else
            return object.error();
    }
    return infos;
}

object_result<void> directory_objects::remove(const std::string& name) {
    if (auto ok = check_object_name(name); !ok) return ok;
    const auto held = lock(name);
    if (!held) return held.error();
    const std::string path = path_of(name);
    auto gone = files_.unlink(path);
    if (!gone && gone.error().code == errc::not_found) return {};
    if (!gone) return of_file(gone.error());
    auto synced = files_.sync_directory(path.substr(0, path.rfind('/')));
    if (!synced) return of_file(synced.error());
    return {};
}

/// Adds the objects below `folder` to the page, in the order of their whole names, in which a
/// folder counts with its '/'. `folder`: empty, or the first parts of a name and '/'. A folder that
/// disappears meanwhile is no error. Errors: those of list.
object_result<void> directory_objects::visit(const std::string& folder, walk& through) {
    auto entries = files_.list(path_of(folder));
    if (!entries && entries.error().code == errc::not_found) return {};
    if (!entries) return of_file(entries.error());
    for (directory_entry& each : *entries)
        if (each.is_directory) each.name += '/';
    std::sort(entries->begin(), entries->end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const directory_entry& each : *entries) {
        if (through.is_full) return {};
        const std::string name = folder + each.name;
        if (each.is_directory) {
            const bool may_begin_so =
                name.starts_with(through.prefix) || through.prefix.starts_with(name);
            const bool is_passed = name < through.from && !through.from.starts_with(name);
            if (!may_begin_so || is_passed) continue;
            if (auto ok = visit(name, through); !ok) return ok;
            continue;
        }
        if (!name.starts_with(through.prefix) || (name <= through.from && !through.from.empty()))
            continue;
        if (!check_object_name(name) || each.bytes < header_bytes) continue;
        object_page& page = through.page;
        if (page.objects.size() == through.count_max) {
            page.next = page.objects.back().name;
            through.is_full = true;
            return {};
        }
        page.objects.push_back({name, each.bytes - header_bytes});
    }
    return {};
}

object_result<object_page> directory_objects::list(const std::string& prefix,
                                                   const std::string& from, std::size_t count_max) {
    if (!is_object_name_text(prefix) || count_max == 0 || count_max > object_page_max)
        return object_failure{object_errc::bad_value,
                              "a list takes the beginning of names and 1 to " +
                                  std::to_string(object_page_max) + " objects a page"};
    walk through{prefix, from, count_max, {}};
    if (auto ok = visit("", through); !ok) return ok.error();
    return std::move(through.page);
}

}  // namespace

object_result<std::unique_ptr<object_store>> open_directory_objects(
    file_system& files, const std::string& directory, const directory_objects_options& options) {
    auto store = std::make_unique<directory_objects>(files, directory, options);
    if (auto ok = store->open(); !ok) return ok.error();
    return std::unique_ptr<object_store>(std::move(store));
}

}  // namespace semantic::storage
