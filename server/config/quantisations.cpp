// SPDX-License-Identifier: Apache-2.0
#include "server/config/quantisations.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace semantic::server {

namespace {

// The forms in the order of preference: first those of Q4_K_M's size, then larger ones, which take
// more memory, and last smaller ones, which cost quality of answers.
constexpr std::array<std::string_view, 35> by_preference{
    "Q4_K_M",  "Q4_K_XL",   "Q4_K_L", "Q4_K",    "Q4_K_S",  "IQ4_NL", "IQ4_XS", "Q4_1",  "Q4_0",
    "MXFP4",   "MXFP4_MOE", "Q5_K_S", "Q5_K_M",  "Q5_K_XL", "Q5_K",   "Q5_0",   "Q5_1",  "Q6_K",
    "Q6_K_L",  "Q6_K_XL",   "Q8_0",   "Q8_K_XL", "BF16",    "F16",    "FP16",   "F32",   "FP32",
    "Q3_K_XL", "Q3_K_L",    "Q3_K_M", "Q3_K_S",  "Q2_K_XL", "Q2_K_L", "Q2_K",   "Q2_K_S"};

std::string upper(std::string_view text) {
    std::string copy(text);
    for (char& c : copy) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return copy;
}

bool is_divider(char c) { return c == '-' || c == '.' || c == '_' || c == '/'; }

}  // namespace

std::string quantisation_of(std::string_view stem) {
    const std::string whole = upper(stem);
    std::string_view found;
    for (const std::string_view form : by_preference) {
        const bool is_longer = form.size() > found.size();
        if (is_longer && whole.ends_with(form) &&
            (whole.size() == form.size() || is_divider(whole[whole.size() - form.size() - 1])))
            found = form;
    }
    return std::string(found);
}

std::optional<std::size_t> preferred_quantisation(std::span<const std::string> stems) {
    std::optional<std::size_t> best;
    std::size_t least = by_preference.size();
    for (std::size_t i = 0; i < stems.size(); ++i) {
        const std::string form = quantisation_of(stems[i]);
        const auto at = static_cast<std::size_t>(
            std::find(by_preference.begin(), by_preference.end(), form) - by_preference.begin());
        if (at >= least) continue;
        least = at;
        best = i;
    }
    return best;
}

bool is_meant(std::string_view stem, std::string_view asked) {
    const std::string whole = upper(stem), wanted = upper(asked);
    if (whole == wanted) return true;
    if (wanted.empty() || !whole.ends_with(wanted)) return false;
    return is_divider(whole[whole.size() - wanted.size() - 1]);
}

}  // namespace semantic::server
