// Tables and lists, and the words that the page has for numbers and verdicts.
import { become } from './become.js';

export const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
const percent = (value) => (value === null ? '–' : `${value.toFixed(value > 99.9 ? 0 : 1)} %`);
const milliseconds = (value) => (value === null ? '–' : `${value.toFixed(value < 10 ? 1 : 0)} ms`);

const VERDICTS = { Healthy: ['ok', 'well'], Unhealthy: ['bad', 'not well'], Unknown: ['unsure', 'unknown'] };

/// How a member is, in one word and one colour.
export function toneOf(cluster) {
  if (cluster.edge === 'Unhealthy') return { name: 'bad', text: 'its way in does not answer' };
  if (cluster.endpoints === 'Unhealthy') return { name: 'bad', text: 'nothing there is ready' };
  if (cluster.draining) return { name: 'draining', text: 'draining' };
  if (cluster.api === 'Unhealthy') return { name: 'unsure', text: 'its API does not answer' };
  const known = [cluster.api, cluster.edge, cluster.endpoints].some((one) => one === 'Healthy');
  return known ? { name: 'ok', text: 'well' } : { name: 'unsure', text: 'nothing is known of it' };
}

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== false) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

const acts = new Map();

/// A button that stays the same while what is around it changes, and does what it was last given.
export function button(key, label, text, act) {
  acts.set(key, act);
  return make('button', { 'data-key': key, 'aria-label': label }, text);
}

document.addEventListener('click', (event) => {
  acts.get(event.target.closest?.('button[data-key]')?.dataset.key)?.();
});

function verdict(value) {
  const [tone, text] = VERDICTS[value] ?? VERDICTS.Unknown;
  return make('td', {}, make('span', { class: `verdict ${tone}` }, text));
}

function clusterRow(cluster, actions) {
  const number = (text) => make('td', { class: 'number' }, text);
  const name = make('td', {}, make('b', {}, cluster.name));
  if (cluster.trouble) name.append(make('div', { class: 'trouble' }, cluster.trouble));
  const place = [cluster.region, cluster.zone].filter(Boolean).join(' / ') || '–';
  const { traffic } = cluster;
  return make('tr', { class: toneOf(cluster).name }, name, make('td', {}, place),
    number(rate(traffic.rate)), number(percent(traffic.successPercent)),
    number(milliseconds(traffic.p99Milliseconds)),
    verdict(cluster.api), verdict(cluster.edge), verdict(cluster.endpoints),
    number(String(cluster.leaves)),
    make('td', { class: 'actions' }, ...actions(cluster)));
}

function weightOf(root, target) {
  const groups = root.split?.groups ?? {};
  const clusters = root.split?.clusters ?? {};
  const weight = groups[target.group] ?? clusters[target.cluster];
  return weight === undefined ? '' : `weight ${weight}`;
}

function targetLine(root, target, most) {
  const tone = toneOf({ ...target, draining: target.drainedPercent > 0 });
  const label = [target.cluster, target.group].filter(Boolean).join(' ');
  const notes = [
    target.readyEndpoints === null ? '' : `${target.readyEndpoints} ready`,
    weightOf(root, target),
    target.drainedPercent ? `${target.drainedPercent} % drained` : '',
    target.capacity === null ? '' : `room for ${rate(target.capacity)}/s`,
    ['ok', 'draining'].includes(tone.name) ? '' : tone.text,
  ].filter(Boolean).join(', ');
  const width = most > 0 ? (100 * target.traffic.rate) / most : 0;
  const filled = make('i');
  filled.style.width = `${width}%`;
  return make('div', { class: `target ${tone.name}` },
    make('span', {}, label, make('div', { class: 'trouble' }, notes)),
    make('div', { class: 'bar', 'aria-hidden': 'true' }, filled),
    make('span', { class: 'number' }, `${rate(target.traffic.rate)}/s`));
}

function progress({ phase, percent, message }) {
  const text = { Watching: `canary at ${percent} %`, Promoted: 'canary promoted', RolledBack: 'canary rolled back' }[phase];
  return make('p', { class: `progress ${phase}` }, [text, message].filter(Boolean).join(': '));
}

function rootCard(root, share) {
  const hosts = root.hosts.map((host) => host || 'any host').join(', ') || 'no host';
  const canary = root.split?.canary;
  const card = make('div', { class: 'root' },
    make('header', {}, make('h3', {}, hosts), ...share(root)),
    make('p', { class: 'from' }, `${root.kind || 'GlobalIngress'} ${root.namespace}/${root.name}`
      + (canary ? `; canary ${canary.group}, steps ${canary.steps.join(', ')} %` : '')));
  if (root.canary) card.append(progress(root.canary));
  for (const backend of root.backends) {
    const most = Math.max(...backend.targets.map((target) => target.traffic.rate), 0);
    card.append(make('div', { class: 'trouble' }, backend.name));
    card.append(...backend.targets.map((target) => targetLine(root, target, most)));
  }
  return card;
}

const LEAVES = { Synced: 'ok', Failed: 'bad', Conflict: 'bad', Held: 'draining', Deleting: 'draining' };

function leafMark({ cluster, state, stale, message }) {
  const tone = stale ? 'unsure' : LEAVES[state] ?? 'unsure';
  const words = [state === 'Synced' ? '' : state.toLowerCase(), stale ? 'last known' : ''].filter(Boolean).join(', ');
  return make('span', { class: `verdict leaf ${tone}`, title: message || state },
    words ? `${cluster} (${words})` : cluster);
}

function spreadRow(root) {
  const name = make('td', {}, make('b', {}, `${root.kind} ${[root.namespace, root.name].filter(Boolean).join('/')}`));
  if (root.message) name.append(make('div', { class: 'trouble' }, root.message));
  return make('tr', {}, name, make('td', {}, root.synced),
    make('td', { class: 'leaves' }, ...root.leaves.map(leafMark)));
}

function spreadRows({ shown, more }) {
  const wide = (text) => make('tr', {}, make('td', { colspan: 3, class: 'empty' }, text));
  if (!shown.length) return [wide('Nothing has been submitted yet.')];
  return [...shown.map(spreadRow), ...(more ? [wide(`and ${more} more`)] : [])];
}

function eventLine(event) {
  const at = event.at ? new Date(event.at) : null;
  const count = event.count > 1 ? ` (${event.count} times)` : '';
  return make('li', { class: event.warning ? 'warning' : false },
    make('time', { datetime: event.at ?? '' }, at ? at.toLocaleTimeString() : '–'),
    make('b', {}, event.reason), ` ${event.about}: ${event.message}${count}`);
}

const empty = (text) => make('p', { class: 'empty' }, text);

export function showPanels(view, actions, share) {
  const find = (selector) => document.querySelector(selector);
  const rows = view.clusters.map((cluster) => clusterRow(cluster, actions));
  const none = make('tr', {}, make('td', { colspan: 10, class: 'empty' },
    'No cluster has joined. Try: limen join NAME --kubeconfig FILE'));
  become(find('#clusters tbody'), rows.length ? rows : [none]);
  const { shown, more } = view.roots;
  const roots = [...shown.map((root) => rootCard(root, share)), ...(more ? [empty(`and ${more} more`)] : [])];
  become(find('#roots .list'), roots.length ? roots
    : [empty('No Ingress has a ready target yet.')]);
  become(find('#leaves tbody'), spreadRows(view.leaves));
  const events = view.events.map(eventLine);
  become(find('#events ol'), events.length ? events : [empty('Nothing yet.')]);
}
