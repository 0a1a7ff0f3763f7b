// SPDX-License-Identifier: Apache-2.0
// Models with their exchange, and what the running one is.

import { call } from './api.js';
import { attempt } from './agents_view.js';
import { at, bytes, count, h, notice, set_text, several } from './dom.js';

export class ModelsView {
  constructor(state) {
    this.state = state;
  }

  draw() {
    const { model } = this.state;
    if (!model) return;
    set_text(at('model'), model.running ?? '');
    const target = model.target ? `, then ${model.target}` : '';
    const part = model.phase === 'loading' ? ` ${Math.round(model.fraction * 100)} %` : '';
    const why = model.why ? `. ${model.why}` : '';
    const name = model.running ?? 'no model';
    set_text(at('model-phase'), `${name}: ${model.phase}${part}${target}${why}`);
    at('model-list').replaceChildren(...model.known.map((known) => this.#line(known, model)));
    if (model.phase === 'ready') this.#describe(model.running);
    else this.described = undefined; // its recipe may be another one afterwards
  }

  /** What the running model is: its context, and what its agents' memories take. */
  async #describe(name) {
    if (name === this.described) return;
    this.described = name;
    try {
      const { data } = await (await call('GET', '/v1/models')).json();
      const found = data.find((each) => each.id === name);
      if (this.described !== name) return;
      at('model-facts').replaceChildren(...(found ? facts(found) : []));
    } catch (error) {
      this.described = undefined;
      notice(error.message);
    }
  }

  #line(known, model) {
    if (known.id === model.running) return h('li', {}, h('strong', {}, known.id), 'runs');
    const swap = () =>
      attempt(async () => {
        notice(`${known.id} is being loaded`);
        await call('POST', '/admin/models/swap', { model_id: known.id }, { is_admin: true });
        notice(`${known.id} runs`);
      });
    return h(
      'li',
      {},
      known.id,
      h('button', { type: 'button', 'aria-label': `Run ${known.id}`, onclick: swap }, 'Run'),
      known.failure ? h('span', { class: 'hint' }, known.failure) : null,
    );
  }
}

/** Terms and their values, as children of a list of definitions. */
function facts(model) {
  const fact = (term, text) => (text ? [h('dt', {}, term), h('dd', {}, text)] : []);
  const { context_length, kv_recipe, kv_recipe_reason, kv_bytes_per_token } = model;
  const why = kv_recipe_reason ? `: ${kv_recipe_reason}` : '';
  return [
    ...fact('Context', context_length && several(context_length, 'token')),
    ...fact('Keys and values', kv_recipe && `${kv_recipe}${why}`),
    ...fact('Of a token', kv_bytes_per_token && `${bytes(kv_bytes_per_token)} in the pool`),
    ...fact(
      'The pool holds',
      model.agents_4k &&
        `${several(model.agents_4k, 'agent')} of 4,096 tokens, ` +
          `${count(model.agents_16k)} of 16,384`,
    ),
  ];
}
