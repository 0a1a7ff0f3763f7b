// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the sources of shared_agents say of manifests in common. Pure.

#include <string>
#include <string_view>

#include "storage/files/checksum.hpp"
#include "storage/objects/object_store.hpp"

namespace semantic::storage::manifest_versions {

/// Whether `newer` is `older` with more records after it. A manifest only grows, so this means that
/// it was made from `older`. Both are the bytes of whole files.
inline bool is_ancestor(std::string_view older, std::string_view newer) {
    return newer.starts_with(older);
}

inline std::string sum_of(std::string_view bytes) { return checksum128(bytes).hex(); }

inline object_failure unavailable(const char* why) { return {object_errc::unavailable, why}; }

}  // namespace semantic::storage::manifest_versions
