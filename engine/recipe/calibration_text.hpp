#pragma once
// The text that recipes are measured on: prose, talk, code, numbers and four scripts, so that no
// model meets only what it finds easy. A change of one byte changes what models choose, and with
// that their caches: calibration_version says so.

#include <string_view>

namespace semantic::engine {

std::string_view calibration_text() noexcept;

}  // namespace semantic::engine
