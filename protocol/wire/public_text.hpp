// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a sentence for the log a client may read: no client learns where this server's files lie.

#include <string>
#include <string_view>

#include "storage/types/errc.hpp"

namespace semantic::protocol {

/// Whether clients may read the failure's sentence. If not, from_storage() uses a sentence of its
/// own, and this one belongs in the log.
bool is_public(const storage::failure& fault);

/// Returns: the text with each path shortened to its last name.
std::string without_directories(std::string_view text);

}  // namespace semantic::protocol
