#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden models of plain families that no other reference had when they were added: random
weights, and what they give in float64 by the few lines below, which share no code with the engine.

    make_plain.py NAME FOLDER [FILE.gguf]

FOLDER gets config.json, model.safetensors, expected.safetensors and expected.json, as those that
transformers computed have them; FILE the same weights as llama.cpp's converter lays them out. The
arithmetic was read in transformers' modeling_olmo2.py, modeling_arcee.py and modeling_exaone4.py.
"""

import json
import pathlib
import struct
import sys

import numpy as np

VOCABULARY, TOKENS, ANSWER = 320, 331, 24
PROMPTS = (5, 40, 300, 331)
POSITIONS = [0, 1, 2, 3, 4, 5, 31, 39, 40, 62, 63, 64, 65, 99, 127, 128, 129, 191, 192, 255, 256,
             257, 299, 300, 319, 329, 330]
COMMON = {'hidden_size': 128, 'intermediate_size': 192, 'num_attention_heads': 2,
          'num_key_value_heads': 1, 'num_hidden_layers': 4, 'vocab_size': VOCABULARY,
          'max_position_embeddings': 4096, 'rms_norm_eps': 1e-06, 'tie_word_embeddings': False,
          'attention_bias': False, 'eos_token_id': 2, 'bos_token_id': 1, 'torch_dtype': 'bfloat16'}
MODELS = {
    'olmo2': {'model_type': 'olmo2', 'architectures': ['Olmo2ForCausalLM'], 'hidden_act': 'silu',
              'rope_theta': 500000.0, **COMMON},
    'arcee': {'model_type': 'arcee', 'architectures': ['ArceeForCausalLM'], 'hidden_act': 'relu2',
              'head_dim': 64, 'mlp_bias': False, 'rope_theta': 10000.0,
              'rope_scaling': {'rope_type': 'yarn', 'factor': 20.0, 'beta_fast': 32.0,
                               'beta_slow': 1.0, 'mscale': 1.0,
                               'original_max_position_embeddings': 128}, **COMMON},
    'exaone4': {'model_type': 'exaone4', 'architectures': ['Exaone4ForCausalLM'],
                'hidden_act': 'silu', 'head_dim': 64, 'sliding_window': 64,
                'sliding_window_pattern': 'LLLG', 'rope_theta': 1000000.0,
                'layer_types': ['sliding_attention'] * 3 + ['full_attention'],
                'rope_scaling': {'rope_type': 'llama3', 'factor': 16.0, 'low_freq_factor': 1.0,
                                 'high_freq_factor': 4.0,
                                 'original_max_position_embeddings': 128}, **COMMON},
}


class Shape:
    """What a config says."""

    def __init__(self, config):
        self.kind = config['model_type']
        self.layers, self.hidden = config['num_hidden_layers'], config['hidden_size']
        self.heads, self.kv_heads = config['num_attention_heads'], config['num_key_value_heads']
        self.dim, self.inner = self.hidden // self.heads, config['intermediate_size']
        self.eps, self.theta = config['rms_norm_eps'], config['rope_theta']
        self.scaling = config.get('rope_scaling')
        self.pre_norms = self.kind == 'arcee'
        self.joint_norm = self.kind == 'olmo2'
        self.gated = self.kind != 'arcee'
        self.windows = [config['sliding_window'] if each == 'sliding_attention' else 0
                        for each in config.get('layer_types', ['full_attention'] * self.layers)]

    def turns(self, layer):
        return self.kind != 'exaone4' or self.windows[layer] > 0

    def matrices(self, layer):
        at, kv = f'model.layers.{layer}.', self.kv_heads * self.dim
        all_of = {'self_attn.q_proj': (self.heads * self.dim, self.hidden),
                  'self_attn.k_proj': (kv, self.hidden), 'self_attn.v_proj': (kv, self.hidden),
                  'self_attn.o_proj': (self.hidden, self.heads * self.dim),
                  'mlp.up_proj': (self.inner, self.hidden),
                  'mlp.down_proj': (self.hidden, self.inner)}
        if self.gated:
            all_of['mlp.gate_proj'] = (self.inner, self.hidden)
        return {at + name: shape for name, shape in all_of.items()}

    def norms(self, layer):
        at = f'model.layers.{layer}.'
        both = {'post_attention_layernorm': self.hidden}
        both['input_layernorm' if self.pre_norms else 'post_feedforward_layernorm'] = self.hidden
        if not self.pre_norms:
            joint = self.joint_norm
            both['self_attn.q_norm'] = self.heads * self.dim if joint else self.dim
            both['self_attn.k_norm'] = self.kv_heads * self.dim if joint else self.dim
        return {at + name: (width,) for name, width in both.items()}


def as_bf16(values):
    """The bits of the nearest BF16 numbers, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def random_weights(shape, seed):
    random = np.random.default_rng(seed)
    shapes = {'model.embed_tokens': (VOCABULARY, shape.hidden),
              'lm_head': (VOCABULARY, shape.hidden), 'model.norm': (shape.hidden,)}
    for layer in range(shape.layers):
        shapes |= shape.matrices(layer) | shape.norms(layer)
    weights = {}
    for name, extents in sorted(shapes.items()):
        drawn = random.standard_normal(extents)
        if len(extents) == 1:
            values = 1 + 0.2 * drawn
        else:
            values = drawn * {'model.embed_tokens': 1.0, 'lm_head': 0.3}.get(
                name, 1.5 / np.sqrt(extents[1]))
        weights[name + '.weight'] = as_bf16(values)
    return weights


def frequencies(shape):
    """And the amplitude of cosines and sines."""
    dim, scaling = shape.dim, shape.scaling
    plain = shape.theta ** (-np.arange(0, dim, 2) / dim)
    if scaling is None:
        return plain, 1.0
    factor, original = scaling['factor'], scaling['original_max_position_embeddings']
    if scaling['rope_type'] == 'llama3':
        low, high = scaling['low_freq_factor'], scaling['high_freq_factor']
        turns = original * plain / (2 * np.pi)
        smooth = (turns - low) / (high - low)
        blended = (1 - smooth) * plain / factor + smooth * plain
        return np.where(turns < low, plain / factor, np.where(turns > high, plain, blended)), 1.0

    def dimension(turns):
        return dim * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(shape.theta))

    low = max(np.floor(dimension(scaling['beta_fast'])), 0)
    high = min(np.ceil(dimension(scaling['beta_slow'])), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp), 0.1 * np.log(factor) + 1.0


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rounded_to_4_bits(x):
    """The affine rule of groups of 64 (tests/golden/kv_q4_group64.safetensors)."""
    groups = x.reshape(-1, 64).astype(np.float32)
    low, high = groups.min(1, keepdims=True), groups.max(1, keepdims=True)
    use_low = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / 15, np.float32(1e-7))
    scale = np.where(use_low, scale, -scale)
    edge = np.where(use_low, low, high)
    first = np.round(edge / scale)
    scale = np.where(first != 0, edge / np.where(first != 0, first, 1), scale)
    bias = np.where(first != 0, edge, 0)
    levels = np.clip(np.round((groups - bias) / scale), 0, 15)
    made = levels * scale.astype(np.float16) + bias.astype(np.float16)
    return made.reshape(x.shape).astype(np.float64)


class Model:
    def __init__(self, shape, weights):
        self.shape = shape
        self.weights = {name: widen(bits) for name, bits in weights.items()}
        self.frequencies, self.amplitude = frequencies(shape)

    def turn(self, x):
        angles = np.arange(len(x))[:, None] * self.frequencies
        cosines, sines = (self.amplitude * each(angles)[:, None] for each in (np.cos, np.sin))
        left, right = np.split(x, 2, -1)
        return np.concatenate([left * cosines - right * sines, right * cosines + left * sines], -1)

    def attend(self, layer, x, rounds):
        s, w = self.shape, self.weights
        at = f'model.layers.{layer}.self_attn.'
        q, k, v = (x @ w[f'{at}{name}_proj.weight'].T for name in 'qkv')
        if s.joint_norm:
            q, k = norm(q, w[at + 'q_norm.weight'], s.eps), norm(k, w[at + 'k_norm.weight'], s.eps)
        q, k, v = (each.reshape(len(x), -1, s.dim) for each in (q, k, v))
        if not s.joint_norm and not s.pre_norms:
            q, k = norm(q, w[at + 'q_norm.weight'], s.eps), norm(k, w[at + 'k_norm.weight'], s.eps)
        if s.turns(layer):
            q, k = self.turn(q), self.turn(k)
        if rounds:
            k, v = rounded_to_4_bits(k), rounded_to_4_bits(v)
        ages = np.arange(len(x))[:, None] - np.arange(len(x))
        seen = (ages >= 0) & ((ages < s.windows[layer]) if s.windows[layer] else True)
        out = np.empty_like(q)
        for head in range(s.heads):
            kv = head * s.kv_heads // s.heads
            scores = np.where(seen, q[:, head] @ k[:, kv].T / np.sqrt(s.dim), -np.inf)
            odds = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = odds / odds.sum(-1, keepdims=True) @ v[:, kv]
        return out.reshape(len(x), -1) @ w[at + 'o_proj.weight'].T

    def feed(self, layer, x):
        w, at = self.weights, f'model.layers.{layer}.mlp.'
        up = x @ w[at + 'up_proj.weight'].T
        if self.shape.gated:
            gate = x @ w[at + 'gate_proj.weight'].T
            up = up * gate / (1 + np.exp(-gate))
        else:
            up = np.maximum(up, 0) ** 2
        return up @ w[at + 'down_proj.weight'].T

    def logits(self, ids, rounds=False):
        s, w = self.shape, self.weights
        x = w['model.embed_tokens.weight'][ids]
        for layer in range(s.layers):
            at = f'model.layers.{layer}.'
            attended = w[at + 'post_attention_layernorm.weight']
            if s.pre_norms:
                x = x + self.attend(layer, norm(x, w[at + 'input_layernorm.weight'], s.eps), rounds)
                x = x + self.feed(layer, norm(x, attended, s.eps))
            else:
                x = x + norm(self.attend(layer, x, rounds), attended, s.eps)
                x = x + norm(self.feed(layer, x), w[at + 'post_feedforward_layernorm.weight'],
                             s.eps)
        return norm(x, w['model.norm.weight'], s.eps) @ w['lm_head.weight'].T

    def greedy(self, prompt):
        ids, margin = list(prompt), np.inf
        for _ in range(ANSWER):
            last = self.logits(ids)[-1]
            second, first = np.sort(last)[-2:]
            margin = min(margin, float(first - second))
            ids.append(int(last.argmax()))
        return {'prompt_tokens': len(prompt), 'new_tokens': ids[len(prompt):],
                'min_top2_margin': margin}


def write_safetensors(path, tensors):
    """tensors: name to (dtype, array)."""
    header, body = {}, b''
    for name, (dtype, array) in tensors.items():
        data = array.tobytes()
        header[name] = {'dtype': dtype, 'shape': list(array.shape),
                        'data_offsets': [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)


GGUF_NAMES = {'input_layernorm': 'attn_norm', 'post_feedforward_layernorm': 'post_ffw_norm',
              'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k',
              'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output',
              'self_attn.q_norm': 'attn_q_norm', 'self_attn.k_norm': 'attn_k_norm',
              'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}


class Gguf:
    """A file's metadata and tensors, BF16 matrices and F32 vectors."""

    def __init__(self):
        self.pairs, self.infos, self.data = [], [], b''

    @staticmethod
    def text(value):
        return struct.pack('<Q', len(value.encode())) + value.encode()

    def add(self, key, value):
        kind, packed = ((8, self.text(value)) if isinstance(value, str) else
                        (6, struct.pack('<f', value)) if isinstance(value, float) else
                        (9, struct.pack('<IQ', 7, len(value)) + bytes(value))
                        if isinstance(value, list) else (4, struct.pack('<I', value)))
        self.pairs.append(self.text(key) + struct.pack('<I', kind) + packed)

    def tensor(self, name, array, kind):
        extents = array.shape[::-1]
        self.infos.append(self.text(name) + struct.pack('<I', len(extents)) +
                          struct.pack(f'<{len(extents)}QIQ', *extents, kind, len(self.data)))
        self.data += array.tobytes()
        self.data += b'\0' * (-len(self.data) % 32)

    def bytes(self):
        head = (b'GGUF' + struct.pack('<IQQ', 3, len(self.infos), len(self.pairs)) +
                b''.join(self.pairs) + b''.join(self.infos))
        return head + b'\0' * (-len(head) % 32) + self.data


def write_gguf(path, config, shape, weights):
    file, kind = Gguf(), shape.kind
    file.add('general.architecture', kind)
    for key, value in {
            'block_count': shape.layers, 'context_length': config['max_position_embeddings'],
            'embedding_length': shape.hidden, 'feed_forward_length': shape.inner,
            'attention.head_count': shape.heads, 'attention.head_count_kv': shape.kv_heads,
            'attention.key_length': shape.dim, 'attention.value_length': shape.dim,
            'attention.layer_norm_rms_epsilon': float(shape.eps),
            'rope.freq_base': float(shape.theta), 'rope.dimension_count': shape.dim,
            'vocab_size': VOCABULARY}.items():
        file.add(f'{kind}.{key}', value)
    if any(shape.windows):
        file.add(f'{kind}.attention.sliding_window', max(shape.windows))
        file.add(f'{kind}.attention.sliding_window_pattern', [each > 0 for each in shape.windows])
    scaling = shape.scaling or {}
    if scaling.get('rope_type') == 'yarn':
        file.add(f'{kind}.rope.scaling.type', 'yarn')
        file.add(f'{kind}.rope.scaling.factor', float(scaling['factor']))
        file.add(f'{kind}.rope.scaling.original_context_length',
                 scaling['original_max_position_embeddings'])
    file.add('general.file_type', 32)
    file.add('tokenizer.ggml.model', 'none')
    if scaling.get('rope_type') == 'llama3':
        plain = shape.theta ** (-np.arange(0, shape.dim, 2) / shape.dim)
        file.tensor('rope_freqs.weight', (plain / frequencies(shape)[0]).astype(np.float32), 0)
    for name, bits in weights.items():
        stem = name.removesuffix('.weight')
        made = {'model.embed_tokens': 'token_embd', 'lm_head': 'output',
                'model.norm': 'output_norm'}.get(stem)
        if made is None:
            number, part = stem.removeprefix('model.layers.').split('.', 1)
            after = 'ffn_norm' if shape.pre_norms else 'post_attention_norm'
            made = f'blk.{number}.' + GGUF_NAMES.get(part, after)
        if kind == 'arcee' and bits.ndim == 2 and stem.endswith(('q_proj', 'k_proj')):
            # The rows of a head by turns from its two halves.
            bits = bits.reshape(-1, 2, shape.dim // 2, shape.hidden).swapaxes(1, 2).reshape(
                bits.shape)
        if bits.ndim == 1:
            file.tensor(made + '.weight', widen(bits).astype(np.float32), 0)
        else:
            file.tensor(made + '.weight', np.ascontiguousarray(bits), 30)
    path.write_bytes(file.bytes())


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    config = MODELS[name]
    shape = Shape(config)
    weights = random_weights(shape, 11)
    ids = np.random.default_rng(12).integers(3, VOCABULARY, TOKENS)
    model = Model(shape, weights)
    logits = model.logits(ids)[POSITIONS]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'config.json').write_text(json.dumps(config, indent=2) + '\n')
    write_safetensors(folder / 'model.safetensors',
                      {each: ('BF16', bits) for each, bits in weights.items()})
    write_safetensors(folder / 'expected.safetensors', {
        'input_ids': ('I64', ids.astype(np.int64)),
        'positions': ('I64', np.array(POSITIONS, dtype=np.int64)),
        'logits': ('F32', logits.astype(np.float32)),
        'logits_q4kv': ('F32', model.logits(ids, True)[POSITIONS].astype(np.float32))})
    (folder / 'expected.json').write_text(json.dumps({
        'reference': 'tests/golden/models/make_plain.py, float64', 'n_tokens': TOKENS,
        'greedy': [model.greedy(ids[:count]) for count in PROMPTS],
        'logit_std': float(logits.std())}) + '\n')
    if len(sys.argv) > 3:
        write_gguf(pathlib.Path(sys.argv[3]), config, shape, weights)


if __name__ == '__main__':
    main()
