// How traffic to a root is shared, changed through a preview that follows the form.
import { ask } from './ask.js';
import { button, make } from './panels.js';
import { preview } from './preview.js';

const percent = (share) => (share === undefined ? '–' : `${(share * 100).toFixed(0)} %`);

const clustersOf = (root) => [...new Set(root.backends.flatMap((backend) => backend.targets.map((target) => target.cluster)))];

function pick(value, text, checked) {
  return make('label', { class: 'pick' },
    make('input', { type: 'radio', name: 'how', value, checked }), text);
}

// What the root does now is where the form begins.
function form(root) {
  const now = root.split?.canary || root.canary ? 'canary' : (Object.keys(root.split?.clusters ?? {}).length ? 'weights' : 'nearest');
  const number = (name, value, most) => make('input', { type: 'number', name, min: 0, max: most, value });
  const weights = clustersOf(root).map((cluster) => make('label', {}, cluster,
    number(`weight ${cluster}`, root.split?.clusters?.[cluster] ?? 1, 1000000)));
  const trial = clustersOf(root).map((cluster) => make('label', { class: 'pick' },
    make('input', { type: 'checkbox', name: 'trial', value: cluster }), `${cluster} runs what is new`));
  return make('div', { class: 'share' },
    make('fieldset', {}, make('legend', {}, 'Clients go'),
      pick('nearest', 'to the nearest cluster', now === 'nearest'),
      pick('weights', 'to clusters by weight', now === 'weights'),
      pick('canary', 'to a canary, more and more while it does well', now === 'canary')),
    make('fieldset', { 'data-of': 'weights' }, make('legend', {}, 'Weights'), ...weights),
    make('fieldset', { 'data-of': 'canary' }, make('legend', {}, 'Canary'), ...trial,
      make('label', {}, 'Shares in percent, step by step', make('input', { name: 'steps', value: '5, 25, 50' })),
      make('label', {}, 'Seconds for each step', number('stepSeconds', 60, 86400)),
      make('label', {}, 'Good answers in percent, at least', number('minSuccess', 99, 100))));
}

function read(holder) {
  const value = (name) => holder.querySelector(`[name="${CSS.escape(name)}"]`).value;
  const how = holder.querySelector('[name="how"]:checked').value;
  if (how === 'nearest') return 'nearest';
  if (how === 'weights') {
    const inputs = [...holder.querySelectorAll('[name^="weight "]')];
    return { weights: Object.fromEntries(inputs.map((input) => [input.name.slice(7), Number(input.value) || 0])) };
  }
  return { canary: {
    clusters: [...holder.querySelectorAll('[name="trial"]:checked')].map((input) => input.value),
    steps: value('steps').split(',').map(Number).filter((step) => step > 0),
    stepSeconds: Number(value('stepSeconds')) || 60,
    minSuccessPercent: Number(value('minSuccess')),
  } };
}

// Shares of clusters, now and then, side by side.
function comparison({ before, after, policy, creates, gateway }) {
  const sum = (odds, name) => {
    const own = odds.filter((one) => one.cluster === name);
    return own.length ? own.reduce((total, one) => total + one.share, 0) : undefined;
  };
  const names = [...new Set([...before, ...after].map((one) => one.cluster))].sort();
  const row = (name) => make('tr', {}, make('td', {}, name),
    make('td', { class: 'number' }, percent(sum(before, name))),
    make('td', { class: 'number' }, percent(sum(after, name))));
  const head = make('tr', {}, make('th', {}, 'Cluster'), make('th', { class: 'number' }, 'Now'),
    make('th', { class: 'number' }, 'Then'));
  return [
    make('table', {}, make('thead', {}, head), make('tbody', {}, ...names.map(row))),
    make('p', { class: 'hint' }, `As ${gateway} sees it. ${creates ? 'Makes' : 'Changes'} the TrafficPolicy ${policy}.`),
  ];
}

function change(root) {
  const holder = form(root);
  const wish = (previewed) => ({ namespace: root.namespace, global: root.name, how: read(holder), preview: previewed });
  const show = () => {
    const how = holder.querySelector('[name="how"]:checked').value;
    for (const set of holder.querySelectorAll('[data-of]')) set.hidden = set.dataset.of !== how;
  };
  holder.addEventListener('input', show);
  show();
  preview({
    title: `Share traffic to ${root.namespace}/${root.name}`,
    verb: 'Change',
    form: holder,
    find: async () => comparison(await ask('api/share', wish(true))),
    act: () => ask('api/share', wish(false)),
  });
}

export function shareButton(root) {
  const name = `${root.namespace}/${root.name}`;
  return [button(`Share ${name}`, `Share traffic to ${name}`, 'Share …', () => change(root))];
}
