// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named objects in a store that several machines share, as one small interface: a directory
// (directory_objects) or a bucket (s3_objects). An object is replaced as a whole and read as it was
// written; who changes one that others change too says which version it has seen.
// Thread: every method is safe from any thread, and blocks, for as long as the store's own bounds
// on tries and time allow.

#include <boost/system/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/types/errc.hpp"

namespace semantic::storage {

enum class object_errc {
    not_found = 1,        // no object of that name
    precondition_failed,  // the object is not, or not any more, as the caller said
    unavailable,          // the store does not answer, or is busy: a later try may succeed
    denied,               // the credentials are missing, wrong, or not good for this
    io,                   // the store or the file system refused for another reason
    corrupt,              // the bytes contradict their own checksum, header or length
    bad_value,            // an argument outside its documented range
};

/// The name of `code` as it appears in logs, for example "precondition_failed".
const char* to_string(object_errc code) noexcept;

struct object_failure {
    object_errc code;
    std::string what;  // one sentence, no trailing newline; never a credential
};

template <class T>
using object_result = boost::system::result<T, object_failure>;

[[noreturn]] void throw_exception_from_error(const object_failure& f,
                                             const boost::source_location& where);

/// Returns: the failure of a file or file system as that of an object store; "locked" becomes
/// "unavailable".
object_failure of_file(const failure& f);

/// Size and version of an object.
struct object_info {
    std::uint64_t bytes = 0;
    std::string version;  // differs whenever the bytes do; means something to its own store only
};

struct listed_object {
    std::string name;
    std::uint64_t bytes = 0;
};

struct object_page {
    std::vector<listed_object> objects;  // in the order of the bytes of their names
    std::string next;                    // what list() takes for the next page; empty: no more
};

/// The condition under which put() writes.
struct put_condition {
    enum class kind { always, if_absent, if_version };
    kind when = kind::always;
    std::string version;  // for if_version
};

/// Whatever is there.
inline put_condition always() { return {}; }
/// Only where there is no object.
inline put_condition if_absent() { return {put_condition::kind::if_absent, {}}; }
/// Only over an existing object that has this version.
inline put_condition if_version(std::string version) {
    return {put_condition::kind::if_version, std::move(version)};
}

inline constexpr std::size_t object_name_bytes_max = 512;
inline constexpr std::size_t object_name_part_bytes_max = 128;
inline constexpr std::uint64_t object_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::size_t object_page_max = 1000;

/// Names are parts of 1 to 128 letters, digits, '.', '_' and '-', none beginning with '.', joined
/// by '/', at most 512 bytes in all. No name is the beginning of another one's parts: where `a/b`
/// is an object, `a` is none. Errors of every method: unavailable, denied, io; bad_value for a
/// name that is none.
class object_store {
  public:
    virtual ~object_store() = default;

    /// Reads a whole object into `bytes` and compares its checksum. Returns: its size and version.
    /// Errors: not_found, corrupt; then `bytes` is empty.
    virtual object_result<object_info> get(const std::string& name, std::string& bytes) = 0;

    /// Fills `target` with the object's bytes from `offset` on, without comparing a checksum, which
    /// only get() does. Errors: not_found; corrupt when the header is damaged; bad_value when
    /// `target` is empty or goes beyond the object's end.
    virtual object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                                 std::span<std::byte> target) = 0;

    /// Replaces or creates an object atomically, if the condition holds. When it returns, the bytes
    /// are stored durably and every later get() from anywhere sees them. Of several writers that
    /// write at once on the same condition one succeeds. Returns: the new version. Errors:
    /// precondition_failed, then nothing of this call stays (where a bucket's answer was lost, the
    /// object may have been this call's for a moment, until another writer replaced it); bad_value
    /// beyond object_bytes_max. After unavailable or io the object is the old or the new one, and
    /// nobody knows which.
    virtual object_result<std::string> put(const std::string& name, std::string_view bytes,
                                           const put_condition& condition) = 0;

    /// Returns: for each name what is known of the object, nothing where there is none.
    virtual object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) = 0;

    /// Removes an object; success also where there is none.
    virtual object_result<void> remove(const std::string& name) = 0;

    /// Returns: a page of the objects whose names begin with `prefix`, at most `count_max` (1 to
    /// object_page_max); also a page that is not the last may have fewer. `from`: empty for the
    /// first page, else `next` of the page before. Files and objects with impossible names are left
    /// out.
    virtual object_result<object_page> list(const std::string& prefix, const std::string& from,
                                            std::size_t count_max) = 0;
};

/// Errors: bad_value, saying why `name` is no object name.
object_result<void> check_object_name(std::string_view name);

/// Whether every byte of `text` may occur in a name.
bool is_object_name_text(std::string_view text);

/// Blocks. Writes and removes an object below `probe/` to find out whether the store obeys
/// conditions; in one that ignores them two writers would overwrite each other. Errors: io, naming
/// the condition that was ignored or not understood; those of put and remove.
object_result<void> check_conditions(object_store& store);

}  // namespace semantic::storage
