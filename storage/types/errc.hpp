// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can go wrong below the engine, and the result type that carries it upward.
// Every failure has a kind that callers act on and a sentence that names the file, tensor or number
// at fault.

#include <boost/system/result.hpp>

#include <string>

namespace semantic::storage {

enum class errc {
    not_found = 1,   // no such file, agent or block
    corrupt,         // the bytes contradict their own checksum, header or length
    incompatible,    // written for another model, recipe or format version
    io,              // the operating system refused a read or a write
    out_of_space,    // the disk or the quota is full
    pool_exhausted,  // no free frames; nothing was taken
    locked,          // another process owns the directory
    bad_value,       // an argument outside its documented range
};

/// The name of `code` as it appears in logs and metrics, for example "pool_exhausted".
const char* to_string(errc code) noexcept;

struct failure {
    errc code;
    std::string what;  // one sentence, no trailing newline
};

template <class T>
using result = boost::system::result<T, failure>;

/// Called by boost::system::result when value() is asked of a failure: throws std::runtime_error
/// with its code and sentence.
[[noreturn]] void throw_exception_from_error(const failure& f, const boost::source_location& where);

}  // namespace semantic::storage
