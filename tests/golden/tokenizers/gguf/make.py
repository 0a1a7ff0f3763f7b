#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files beside this one, with the packages gguf and tokenizers (seen with 0.19.0 and 0.23.3).
usage: make.py   (in its folder)

qwen2.gguf             ../qwen2/tokenizer.json as llama.cpp's converter writes it, with padded ids and tokens that are no longer special
sentencepiece.gguf     pieces with scores, as of Gemma: user-defined blanks, no blank in front
sentencepiece-prefix.gguf   the same as of Llama 2: a blank in front of every section
cases.json             for each of them, and for qwen2.gguf under every other pre-tokenizer, the ids that the package tokenizers gives
                       for the tokenizer.json that these models are published with"""
import json, random
import gguf, tokenizers

ADDED = dict(single_word=False, lstrip=False, rstrip=False, normalized=False)
BYTES = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}
NFC = {'type': 'NFC'}
DECODED = 100   # of the texts


def split(pattern):
    return {'type': 'Split', 'pattern': {'Regex': pattern}, 'behavior': 'Isolated', 'invert': False}


DIGITS = {'type': 'Digits', 'individual_digits': True}
TAIL = r'|\s*[\r\n]+|\s+(?!\S)|\s+'
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r'[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]', r'[\p{Ll}\p{Lm}\p{Lo}\p{M}]'
HEAD = r'[^\r\n\p{L}\p{N}]?'
# the letters of deepseek-llm, as ranges of code points
LETTERS = '''41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C 38E-3A1 3A3-3F5 3F7-481
48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D
1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102
2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE
2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3
104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943'''
letters = ''.join('-'.join(chr(int(end, 16)) for end in part.split('-')) for part in LETTERS.split())
HAN = '[一-龥ࠀ-一가-\ud7ff]+'
# pre -> normalizer, what cuts, ignore_merges, adds a first token
PRES = {
    'gpt-2': (None, [BYTES | {'use_regex': True}], False, False),
    'smollm': (None, [DIGITS, BYTES | {'use_regex': True}], False, False),
    'llama-bpe': (None, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL), BYTES], True, True),
    'smaug-bpe': (None, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL), BYTES], True, False),
    'olmo': (NFC, [BYTES | {'use_regex': True}], False, False),
    'dbrx': (None, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL) | {'behavior': 'Removed', 'invert': True}, BYTES], False, False),
    'lfm2': (None, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL), BYTES], False, True),
    'glm4': (None, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL), BYTES], True, False),
    'seed-coder': (None, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+' + TAIL), BYTES], False, False),
    'qwen2': (NFC, [split(SHORT + '|' + HEAD + r'\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL), BYTES], False, False),
    'qwen35': (NFC, [split(SHORT + '|' + HEAD + r'[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*' + TAIL), BYTES], False, False),
    'gpt-4o': (None, [split(f'{HEAD}{UPPER}*{LOWER}+{SHORT}?|{HEAD}{UPPER}+{LOWER}*{SHORT}?' + r'|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*' + TAIL), BYTES], False, False),
    'tekken': (None, [split(f'{HEAD}{UPPER}*{LOWER}+|{HEAD}{UPPER}+{LOWER}*' + r'|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*' + TAIL), BYTES], True, True),
    'deepseek-llm': (None, [split(r'[\r\n]'), split(r'\s?[' + letters + ']+'), split(r'\s?[!-/:-~！-／：-～‘-‟　-。]+'), split(r'\s+$'), split(HAN), DIGITS, BYTES], False, False),
    'deepseek-coder': (None, [split(r'[\r\n]'), split(r'\s?\p{L}+'), split(r'\s?\p{P}+'), split(HAN), DIGITS, BYTES], False, False),
    'deepseek-v3': (None, [split(r'\p{N}{1,3}'), split('[一-龥\u3040-\u309f\u30a0-\u30ff]+'),
                           split(r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*''' + TAIL), BYTES], False, False),
}


def texts():
    parts = ['the', 'Agent', 'HTTPServer', 'camelCase', "I'LL", "don't", "it's", ' ', '  ', '    ', '\n', '\n\n', '\r\n', '\t', ' \n', '1', '234', '56789', '½', '٣',
             '!', '...', '--', '/', '//', '(x)', '_', '{', '"', '=>', 'é', 'e\u0301', 'ß', 'Ω', '\u212a', 'Straße', 'Привет', 'мир', 'ё', '日', '本語', '中文字', 'ひらがな', 'カナ',
             '한국어', 'हिन्दी', 'नमस्ते', 'مرحبا', 'العربية', 'שלום', 'ภาษา', '🙂', '👩‍💻', '🇩🇪', '，', '。', '！', '“', '”', '‘', '　', '\u00a0', '\u180e', '\u2028', 'ǅ', 'ʰ', 'ª',
             '<|im_end|>', '<|im_start|>', '<tool_call>', '<|fim_prefix|>', '<|', '|>', '<unk>', '<0x41>', '▁', '\u1e9b\u0323']
    rng = random.Random(20)
    out = [p for p in parts] + ['', ' a', 'a ', 'def f(x):\n    return x + 1\n', 'Line\n\n\nLine', 'a' * 70, ' ' * 20 + 'x', '   ']
    out += [''.join(rng.choice(parts) for _ in range(rng.randint(2, 14))) for _ in range(130)]
    return out


def ids_of(file, all_texts):
    made = tokenizers.Tokenizer.from_str(json.dumps(file))
    ids = [made.encode(t, add_special_tokens=False).ids for t in all_texts]
    return {'ids': ids, 'first_with_special': made.encode(all_texts[0]).ids,
            'decoded': [made.decode(i, skip_special_tokens=False) for i in ids[:DECODED]], 'without_special': [made.decode(i, skip_special_tokens=True) for i in ids[:DECODED]]}


def before(token, id):
    return {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': token, 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}],
            'pair': [{'Sequence': {'id': 'A', 'type_id': 0}}, {'Sequence': {'id': 'B', 'type_id': 1}}], 'special_tokens': {token: {'id': token, 'ids': [id], 'tokens': [token]}}}


def write(path, pairs):
    out = gguf.GGUFWriter(path, 'llama')
    for key, value in pairs.items():
        key = 'tokenizer.ggml.' + key
        if isinstance(value, bool): out.add_bool(key, value)
        elif isinstance(value, str): out.add_string(key, value)
        elif isinstance(value, int): out.add_uint32(key, value)
        else: out.add_array(key, value)
    out.write_header_to_file(); out.write_kv_data_to_file(); out.close()


def byte_level(all_texts):
    file = json.load(open('../qwen2/tokenizer.json'))
    size = len(file['model']['vocab'])
    # In vocab and added_tokens both, as SmolLM2 has them; what follows is added alone, as Qwen has it.
    more = [('<tool_call>', False), ('</tool_call>', False), ('<|fim_prefix|>', False), ('<|box|>', True)]
    file['added_tokens'] += [dict(id=size + i, content=t, special=s, **ADDED) for i, (t, s) in enumerate(more)]
    tokens = [None] * (size + len(more) + 5)
    types = [gguf.TokenType.UNUSED] * len(tokens)
    for token, id in file['model']['vocab'].items(): tokens[id], types[id] = token, gguf.TokenType.NORMAL
    for t in file['added_tokens']:
        # what the converter takes for a control token
        looks = t['content'].startswith('<|') and t['content'].endswith('|>')
        tokens[t['id']] = t['content']
        types[t['id']] = gguf.TokenType.CONTROL if t['special'] or looks else gguf.TokenType.USER_DEFINED
    tokens = [f'[PAD{i}]' if t is None else t for i, t in enumerate(tokens)]
    write('qwen2.gguf', {'model': 'gpt2', 'pre': 'qwen2', 'tokens': tokens, 'token_type': [int(t) for t in types], 'merges': [' '.join(m) for m in file['model']['merges']],
                         'eos_token_id': 2, 'bos_token_id': 0})
    out = {}
    for pre, (normalizer, cuts, ignores, bos) in PRES.items():
        file['normalizer'] = normalizer
        file['pre_tokenizer'] = {'type': 'Sequence', 'pretokenizers': cuts}
        file['model']['ignore_merges'] = ignores
        file['post_processor'] = before('<|endoftext|>', 0) if bos else None
        # what is special depends on who published it: Qwen alone says so of <|fim_prefix|>
        for t in file['added_tokens'][-4:]: t['special'] = t['content'] == '<|box|>' or (t['content'] == '<|fim_prefix|>' and not pre.startswith('qwen'))
        out[pre] = ids_of(file, all_texts)
    return out


def merges_of(vocab, scores):
    """What transformers makes of SentencePiece: all ways to make a piece of two, best score first, then the longer left half."""
    rules = []
    for piece, score in scores.items():
        local = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        rules += [(l, r, score) for l, r in sorted(local, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
    rules.sort(key=lambda v: (v[2], len(v[0]), len(v[1])), reverse=True)
    return [[l, r] for l, r, _ in rules]


def pieces(name, prefixed, all_texts):
    trained = json.load(open('../gemma3/tokenizer.json'))['model']
    first = ['<pad>', '<eos>', '<bos>', '<unk>', '<mask>', '<start_of_turn>', '<end_of_turn>', '<unused0>']
    added = [(t, t not in ('<mask>', '<unused0>')) for t in first]
    named = [f'<0x{b:02X}>' for b in range(256)]
    blanks = [] if prefixed else ['▁' * n for n in range(2, 9)] + ['\n' * n for n in range(2, 5)]
    ranks = {''.join(m): i for i, m in reversed(list(enumerate(trained['merges'])))}
    merged = [t for t in sorted(ranks, key=ranks.get) if t not in blanks][:700]
    single = sorted({c for t in merged for c in t} | set('▁\naeiou0123456789日中'))
    tokens = first + named + blanks + merged + single
    vocab = {t: i for i, t in enumerate(tokens)}
    scores = {t: 0.5 for t in blanks} | {t: -float(i) for i, t in enumerate(merged)} | {t: -float(len(merged) + i) for i, t in enumerate(single)}
    N = gguf.TokenType
    types = {t: N.CONTROL for t in first} | {t: N.BYTE for t in named} | {t: N.USER_DEFINED for t in blanks} | {'<unk>': N.UNKNOWN}
    write(name + '.gguf', {'model': 'llama', 'pre': 'default', 'tokens': [t.replace('▁', ' ') if t in blanks else t for t in tokens],
                           'scores': [float({None: -1000.0}.get(t, -1000.0 if t in blanks else scores.get(t, 0.0))) for t in tokens], 'token_type': [int(types.get(t, N.NORMAL)) for t in tokens],
                           'bos_token_id': 2, 'eos_token_id': 1, 'unknown_token_id': 3, 'padding_token_id': 0, 'add_bos_token': True, 'add_eos_token': False, 'add_space_prefix': prefixed})
    replace = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}
    back = [{'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'}]
    file = {'version': '1.0', 'truncation': None, 'padding': None,
            'added_tokens': [dict(id=i, content=t, special=s, **ADDED) for i, (t, s) in enumerate(added)] + [dict(id=vocab[t], content=t, special=False, **ADDED) for t in blanks],
            'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': '▁'}, replace]} if prefixed else replace,
            'pre_tokenizer': None if prefixed else {'type': 'Split', 'pattern': {'String': ' '}, 'behavior': 'MergedWithPrevious', 'invert': False},
            'post_processor': before('<bos>', 2),
            'decoder': {'type': 'Sequence', 'decoders': back + [{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}] * prefixed},
            'model': {'type': 'BPE', 'dropout': None, 'unk_token': '<unk>', 'continuing_subword_prefix': None, 'end_of_word_suffix': None, 'fuse_unk': True, 'byte_fallback': True,
                      'ignore_merges': False, 'vocab': vocab, 'merges': merges_of(vocab, scores)}}
    return ids_of(file, all_texts)


all_texts = texts()
cases = {'texts': all_texts, 'qwen2.gguf': byte_level(all_texts), 'sentencepiece.gguf': pieces('sentencepiece', False, all_texts),
         'sentencepiece-prefix.gguf': pieces('sentencepiece-prefix', True, all_texts)}
with open('cases.json', 'w') as out: json.dump(cases, out, ensure_ascii=False, separators=(',', ':'))
