// Buttons beside a cluster. What changes traffic is previewed before it acts.
import { ask } from './ask.js';
import { button, make } from './panels.js';
import { preview } from './preview.js';

function drain(cluster) {
  const seconds = make('input', { type: 'number', min: 0, max: 86400, value: 0, id: 'over' });
  const wish = (previewed) => ({
    cluster: cluster.name, overSeconds: Number(seconds.value) || 0, keep: 1, preview: previewed,
  });
  const find = async () => {
    const { backends } = await ask('api/drain', wish(true));
    const rate = cluster.traffic.rate.toFixed(1);
    return [
      make('p', {}, `${backends === 1 ? '1 backend leaves' : `${backends} backends leave`} ${cluster.name}; ${rate} requests/s move to the next nearest clusters. Requests under way finish.`),
      make('label', { for: 'over' }, 'Over how many seconds (0 is at once)'), seconds,
    ];
  };
  preview({ title: `Drain ${cluster.name}?`, verb: 'Drain', find, act: () => ask('api/drain', wish(false)) });
}

function undrain(cluster) {
  const find = async () => [make('p', {}, 'Clients that are nearest to it are sent there again.')];
  const act = () => ask('api/undrain', { cluster: cluster.name });
  preview({ title: `Give traffic back to ${cluster.name}?`, verb: 'Undrain', find, act });
}

function trouble(cluster, what) {
  const kill = what === 'kill';
  const title = kill ? `Kill ${cluster.name}?` : `Bring ${cluster.name} back?`;
  const text = kill
    ? 'Its API, its way in and its pods end at once, as in a power cut.'
    : 'It starts again with what it had stored.';
  const act = () => ask('api/play', { cluster: cluster.name, what });
  preview({ title, verb: kill ? 'Kill' : 'Bring back', find: async () => [make('p', {}, text)], act });
}

export function makeActions(mayChange, play) {
  if (!mayChange) return () => [];
  const action = (cluster, text, act) => button(`${text} ${cluster.name}`, `${text} ${cluster.name}`, text, () => act(cluster));
  return (cluster) => {
    const buttons = [cluster.draining
      ? action(cluster, 'Undrain', undrain) : action(cluster, 'Drain', drain)];
    if (play) {
      const gone = cluster.api === 'Unhealthy' || cluster.edge === 'Unhealthy';
      buttons.push(' ', gone ? action(cluster, 'Bring back', (one) => trouble(one, 'restore'))
        : action(cluster, 'Kill', (one) => trouble(one, 'kill')));
    }
    return buttons;
  };
}
