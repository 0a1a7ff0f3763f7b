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

/// What a failure of a file or its system is to an object store: locked is unavailable.
object_failure of_file(const failure& f);

/// What is known of an object.
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

/// When put() may write.
struct put_condition {
    enum class kind { always, if_absent, if_version };
    kind when = kind::always;
    std::string version;  // for if_version
};

inline put_condition always() { return {}; }
inline put_condition if_absent() { return {put_condition::kind::if_absent, {}}; }
/// Only over an object that is there and has this version.
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

    /// Replaces `bytes` by the whole object, whose checksum has been compared.
    /// Errors: not_found, corrupt; then `bytes` is empty.
    virtual object_result<object_info> get(const std::string& name, std::string& bytes) = 0;

    /// Fills `target` from `offset`. The bytes are as the store sent them: only get() compares the
    /// checksum. Errors: not_found; corrupt when the header is; bad_value when `target` is empty or
    /// the object ends before its end.
    virtual object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                                 std::span<std::byte> target) = 0;

    /// Puts `bytes` in the place of the object at once, or makes it. When put() returns, they last,
    /// and every later get() from anywhere sees them. Of several that write at once on the same
    /// condition one succeeds. Returns: the new version. Errors: precondition_failed, then the
    /// object is not this call's (where an answer of a bucket's was lost, it may have been for a
    /// moment, until another writer who had seen it replaced it); bad_value beyond
    /// object_bytes_max. After unavailable or io the object is the old or the new one, and nobody
    /// knows which.
    virtual object_result<std::string> put(const std::string& name, std::string_view bytes,
                                           const put_condition& condition) = 0;

    /// Returns: for each name what is known of the object, nothing where there is none.
    virtual object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) = 0;

    /// An object that there is not is no error.
    virtual object_result<void> remove(const std::string& name) = 0;

    /// Objects whose names begin with `prefix`, at most `count_max` of them (1 to object_page_max;
    /// there may be fewer on a page that is not the last). `from`: empty, or `next` of the page
    /// before. Files and objects that bear no name of this interface are left out.
    virtual object_result<object_page> list(const std::string& prefix, const std::string& from,
                                            std::size_t count_max) = 0;
};

/// Errors: bad_value, saying why `name` is none.
object_result<void> check_object_name(std::string_view name);

/// Whether every byte of `text` may occur in a name.
bool is_object_name_text(std::string_view text);

/// Blocks. Writes and removes an object below `probe/` to see that the store holds writers to their
/// conditions: one that ignores them would let two of them overwrite each other. Errors: io, saying
/// which condition was ignored, or not understood; those of put and remove.
object_result<void> check_conditions(object_store& store);

}  // namespace semantic::storage
