// Buttons beside a cluster. What changes traffic is previewed before it acts.
import { ask } from './ask.js';
import { button, make } from './panels.js';

const dialog = document.querySelector('#preview');
const part = (selector) => dialog.querySelector(selector);

// Shows what would happen; acts only on the button that says so.
async function preview(title, button, look, act) {
  part('h2').textContent = title;
  part('.error').textContent = '';
  part('.body').replaceChildren(make('p', {}, 'Looking ...'));
  const main = part('button.main');
  main.textContent = button;
  main.disabled = true;
  dialog.returnValue = 'cancel';
  dialog.showModal();
  try {
    part('.body').replaceChildren(...await look());
    main.disabled = false;
  } catch (problem) {
    part('.body').replaceChildren();
    part('.error').textContent = problem.message;
  }
  await new Promise((closed) => { dialog.addEventListener('close', closed, { once: true }); });
  if (dialog.returnValue !== 'act') return;
  await act().catch((problem) => {
    part('h2').textContent = `${title}: it failed`;
    part('.error').textContent = problem.message;
    main.disabled = true;
    dialog.showModal();
  });
}

function drain(cluster) {
  const seconds = make('input', { type: 'number', min: 0, max: 86400, value: 0, id: 'over' });
  const wish = (previewed) => ({
    cluster: cluster.name, overSeconds: Number(seconds.value) || 0, keep: 1, preview: previewed,
  });
  return preview(`Drain ${cluster.name}?`, 'Drain', async () => {
    const { backends } = await ask('api/drain', wish(true));
    const rate = cluster.traffic.rate.toFixed(1);
    return [
      make('p', {}, `${backends === 1 ? '1 backend leaves' : `${backends} backends leave`} ${cluster.name}; ${rate} requests/s move to the next nearest clusters. Requests under way finish.`),
      make('label', { for: 'over' }, 'Over how many seconds (0 is at once)'), seconds,
    ];
  }, () => ask('api/drain', wish(false)));
}

function undrain(cluster) {
  return preview(`Give traffic back to ${cluster.name}?`, 'Undrain', async () => [
    make('p', {}, 'Clients that are nearest to it are sent there again.'),
  ], () => ask('api/undrain', { cluster: cluster.name }));
}

function trouble(cluster, what) {
  const kill = what === 'kill';
  const title = kill ? `Kill ${cluster.name}?` : `Bring ${cluster.name} back?`;
  const text = kill
    ? 'Its API, its way in and its pods end at once, as in a power cut.'
    : 'It starts again with what it had stored.';
  return preview(title, kill ? 'Kill' : 'Bring back', async () => [make('p', {}, text)],
    () => ask('api/play', { cluster: cluster.name, what }));
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
