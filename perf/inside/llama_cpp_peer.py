# SPDX-License-Identifier: Apache-2.0
"""llama.cpp through its C API, as the package llama-cpp-python imports it: what the scripts that
compare with it have in common."""

import ctypes
import os
import pathlib
import sys

MODELS = ['smollm2-135m', 'gemma3-270m', 'qwen2.5-coder-0.5b', 'qwen2.5-coder-1.5b']


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def add_options(parser):
    parser.add_argument('--llama-cpp', default=os.environ.get('SEMANTIC_LLAMA_CPP', ''))
    parser.add_argument('--models', default=os.environ.get('SEMANTIC_REAL_MODELS',
                                                           '~/.semantic/models'))
    parser.add_argument('--tokens', type=int, default=4096)
    parser.add_argument('--threads', type=int, default=2)


def open_peer(place):
    """Returns (llama_cpp, numpy), the former silent; ends the program if `place` has them not."""
    if not place:
        skip('neither --llama-cpp nor SEMANTIC_LLAMA_CPP says where llama_cpp can be imported from')
    sys.path.insert(0, str(pathlib.Path(place).expanduser()))
    try:
        import llama_cpp
        import numpy
    except (ImportError, OSError, RuntimeError, FileNotFoundError) as error:
        skip(f'{place}: {error}')
    # The library keeps a pointer to it.
    open_peer.silence = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(open_peer.silence, ctypes.c_void_p(0))
    return llama_cpp, numpy


def files_there(names, folder):
    """Returns pairs (name, GGUF file) of the models that are there, and names the others; ends the
    program if none is there."""
    folder = pathlib.Path(folder).expanduser()
    files = {name: folder / f'{name}.gguf' for name in names or MODELS}
    there = {name: file for name, file in files.items() if file.exists()}
    if not there:
        skip(f'none of the models is in {folder}')
    for name in files.keys() - there.keys():
        print(f'left out: {name} is not in {folder}', file=sys.stderr)
    return there.items()


class Model:
    """A file's weights and vocabulary."""

    def __init__(self, api, file):
        self.api = api
        params = api.llama_model_default_params()
        # Weights that are packed anew for AMX end in an illegal instruction on virtual machines
        # that announce it and keep no tiles.
        params.use_extra_bufts = False
        self.model = api.llama_model_load_from_file(str(file).encode(), params)
        if not self.model:
            raise RuntimeError(f'llama.cpp does not load {file}')
        self.vocab = api.llama_model_get_vocab(self.model)
        self.width = api.llama_vocab_n_tokens(self.vocab)

    def close(self):
        self.api.llama_model_free(self.model)

    def has_template(self):
        return self.api.llama_model_chat_template(self.model, None) is not None

    def tokenize(self, text, first, special):
        """`first`: with the token that the model wants in front; `special`: special tokens are read
        as such."""
        data = text.encode()
        room = len(data) + 8
        ids = (self.api.llama_token * room)()
        count = self.api.llama_tokenize(self.vocab, data, len(data), ids, room, first, special)
        if count < 0:
            raise RuntimeError('llama.cpp does not tokenise this')
        return list(ids[:count])


class Context:
    """One sequence of a model: `tokens` at most, `step` at most at once. `settings`: fields of
    llama_context_params."""

    def __init__(self, model, tokens, step, threads, **settings):
        self.api = model.api
        params = self.api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = tokens, step, step
        params.n_threads = params.n_threads_batch = threads
        for name, value in settings.items():
            setattr(params, name, value)
        self.context = self.api.llama_init_from_model(model.model, params)
        if not self.context:
            raise RuntimeError(f'llama.cpp does not take {settings} for this model')
        self.batch = self.api.llama_batch_init(step, 0, 1)

    def close(self):
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)

    def forget(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def decode(self, ids, position, first_wanted):
        """Runs ids at `position`; logits are there from ids[first_wanted] on."""
        self.batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            self.batch.token[i], self.batch.pos[i] = token, position + i
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, 0
            self.batch.logits[i] = i >= first_wanted
        if self.api.llama_decode(self.context, self.batch) != 0:
            raise RuntimeError('llama_decode failed')

    def logits(self, numpy, i, width):
        """Those behind token i of the last decode; valid until the next one."""
        row = self.api.llama_get_logits_ith(self.context, i)
        return numpy.ctypeslib.as_array(row, shape=(width,))
