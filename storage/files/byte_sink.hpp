// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a file is written to piece by piece when it is no file of ours: a connection, a test's
// buffer.

#include <cstddef>
#include <functional>
#include <span>

#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Receives the bytes of a file piece by piece, in order. After an error the writer stops and
/// returns that error.
using byte_sink = std::function<result<void>(std::span<const std::byte>)>;

}  // namespace semantic::storage
