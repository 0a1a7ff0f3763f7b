#pragma once
// What became of memory on disk, in a request's words. Pure.

#include "engine/types/generation.hpp"
#include "storage/types/shortfall.hpp"

namespace semantic::engine {

miss_reason reason_of(storage::shortfall why) noexcept;

}  // namespace semantic::engine
