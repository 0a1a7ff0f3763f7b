// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole agent as one safetensors file, to take elsewhere: every layer's KV as one tensor, its
// tokens and text in the metadata. Stateless. Thread: any. Byte layout: storage/FORMAT.md.

#include <cstddef>
#include <cstdint>

#include "storage/files/byte_sink.hpp"
#include "storage/files/file.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

/// Writes the state's file, piece by piece. Requires: every block, and every recurrent state that
/// it keeps, is in the pool. Returns: bytes written. Errors: those of `sink`, which end it.
result<std::uint64_t> write_agent_file(const agent_state& state, const block_hash& fingerprint,
                                       const kv_layout& layout, const byte_sink& sink);

/// Blocks. Reads a file into frames of the pool; they are published only if the whole file is
/// right. Returns: the agent, under the name `id`, whatever its name in the file. Errors: corrupt,
/// incompatible (format, KV recipe or fingerprint), pool_exhausted, and those of the file.
result<agent_state> read_agent_file(readable_file& file, const agent_id& id,
                                    const block_hash& fingerprint, block_pool& pool);

/// What read_agent_file() would bring.
struct agent_file_size {
    int tokens = 0;
    std::size_t states = 0;  // recurrent ones
};
/// Blocks. Checks what the header alone can show: format, fingerprint, tokens, text, tensors.
/// Errors: as read_agent_file().
result<agent_file_size> check_agent_file(readable_file& file, const block_hash& fingerprint,
                                         const kv_layout& layout);

}  // namespace semantic::storage
