// The form that asks why a client goes where it goes.
import { ask } from './ask.js';
import { make } from './panels.js';

const percent = (share) => `${(share * 100).toFixed(1)} %`;

function step({ rule, detail, kept, dropped }) {
  return make('li', {}, make('b', {}, rule), ` ${detail}`,
    make('div', { class: 'trouble' }, `keeps ${kept.join(', ') || 'nothing'}`),
    ...dropped.map(({ cluster, reason }) => make('div', { class: 'trouble' }, `drops ${cluster}: ${reason}`)));
}

function explanation(why) {
  const odds = why.odds.map(({ cluster, group, share }) => make('tr', {},
    make('td', {}, [cluster, group].filter(Boolean).join(' ')), make('td', { class: 'number' }, percent(share))));
  return [
    make('p', {}, `${why.rule || 'The default'} of ${why.global}, backend ${why.backend}, as seen by ${why.gateway}: `,
      make('b', {}, why.cluster ? `goes to ${why.cluster}` : 'nothing can serve it')),
    make('ol', {}, ...why.steps.map(step)),
    make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'Cluster'), make('th', { class: 'number' }, 'Share'))),
      make('tbody', {}, ...odds)),
  ];
}

export function showExplanations(section) {
  const result = section.querySelector('.result');
  section.querySelector('form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const query = new URLSearchParams(new FormData(event.target));
    try {
      result.replaceChildren(...explanation(await ask(`api/explain?${query}`)));
    } catch (problem) {
      result.replaceChildren(make('p', { class: 'error' }, problem.message));
    }
  });
}
