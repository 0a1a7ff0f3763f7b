// SPDX-License-Identifier: Apache-2.0
#pragma once
// The signature of a thinking block: opaque to the client, who sends it back with the block. It
// shows that the reasoning is word for word what this server said, so that the prompt has it as
// the memory does. It protects from mistakes, not from attacks. Pure.

#include <optional>
#include <string>
#include <string_view>

namespace semantic::protocol {

/// Returns: the signature of a block whose text the client gets.
std::string signature_of(std::string_view thinking);

/// Returns: the signature of a block whose text the client does not want to see. It contains the
/// text, so that the reasoning comes back with the conversation.
std::string carrying_signature_of(std::string_view thinking);
/// Returns: the text in such a signature; nothing when it is of another kind or damaged.
std::optional<std::string> carried_by(std::string_view signature);

/// Whether the signature can be that of this text. False only for a signature of this server over
/// another text; signatures of other servers, and none, are accepted.
bool may_be_signed(std::string_view thinking, std::string_view signature);

}  // namespace semantic::protocol
