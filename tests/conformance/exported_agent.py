# SPDX-License-Identifier: Apache-2.0
"""An exported agent, opened by the safetensors package: names, types, shapes, values, metadata."""

import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    from safetensors import safe_open
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOKENS = 21
# Of the storage tests' model: heads of layer 0 and 1, elements of a key and of a value.
HEADS, K_DIM, V_DIM, GROUP = [1, 2], [16, 16], [16, 32], 16

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "agent.safetensors")
    subprocess.run(
        [sys.argv[1], "--gtest_filter=agent_file_test.tensors_have_the_published_*"],
        env={**os.environ, "AGENT_FILE": path},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    raw = open(path, "rb").read()
    data_at = 8 + struct.unpack("<Q", raw[:8])[0]
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}

assert metadata["format"] == "semantic-agent-cache", metadata["format"]
assert metadata["token_count"] == str(TOKENS)
assert len(metadata["token_ids"].split(",")) == TOKENS
lengths = [int(each) for each in metadata["token_bytes"].split(",")]
assert sum(lengths) == len(metadata["text"].encode()), "the text is that of the tokens"

assert len(tensors) == 12, sorted(tensors)
for layer in range(2):
    for side, dim in (("k", K_DIM[layer]), ("v", V_DIM[layer])):
        name = f"layer_{layer}_{side}"
        weights, scales = tensors[f"{name}_weights"], tensors[f"{name}_scales"]
        assert weights.dtype == numpy.uint32 and scales.dtype == numpy.float16
        assert weights.shape == (1, HEADS[layer], TOKENS, dim // 8), weights.shape
        assert scales.shape == (1, HEADS[layer], TOKENS, dim // GROUP), scales.shape
        assert tensors[f"{name}_biases"].shape == scales.shape
# The first tensor of the file is layer 0's keys, and its bytes are the first of the data.
first = tensors["layer_0_k_weights"].tobytes()
assert raw[data_at : data_at + len(first)] == first
print("an exported agent opens in numpy with the published names, types and shapes")
