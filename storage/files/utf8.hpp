#pragma once
// Whether bytes are text. Pure.

#include <string_view>

namespace semantic::storage {

/// Whether `text` is well-formed UTF-8: no surrogates, no overlong forms.
bool is_utf8(std::string_view text);

}  // namespace semantic::storage
