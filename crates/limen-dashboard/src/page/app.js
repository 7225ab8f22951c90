// Logging in, staying connected, and saying so when that fails.
import { makeMap } from './map.js';
import { makeActions } from './actions.js';
import { ask } from './ask.js';
import { showExplanations } from './explain.js';
import { showPanels } from './panels.js';
import { shareButton } from './share.js';

const find = (selector) => document.querySelector(selector);
const STALE_AFTER = 12_000;

let showMap = null;
let stream = null;
let heard = 0;

function state(name, text) {
  const shown = find('#state');
  if (shown.dataset.state === name && shown.textContent === text) return;
  shown.dataset.state = name;
  find('#board').classList.toggle('old', name === 'away');
  shown.textContent = text;
}

function showLogin() {
  stream?.close();
  stream = null;
  find('#board').hidden = true;
  find('#login').hidden = false;
  find('#logout').hidden = true;
  find('#user').textContent = '';
  state('off', 'not logged in');
  find('#token').focus();
}

function showBoard({ user, mayChange, mayShare, play }) {
  const actions = makeActions(mayChange, play);
  const share = mayShare ? shareButton : () => [];
  find('#login').hidden = true;
  find('#board').hidden = false;
  find('#logout').hidden = false;
  find('#user').textContent = user;
  showMap ??= makeMap(find('#map'));
  state('stale', 'connecting');
  stream = new EventSource('api/live');
  stream.onmessage = (message) => {
    heard = Date.now();
    const { view, missing, awaySince } = JSON.parse(message.data);
    if (awaySince !== null) {
      const since = new Date(awaySince * 1000).toLocaleTimeString();
      state('away', `the hub is away; what you see is of ${since}`);
    } else {
      state(missing.length ? 'stale' : 'live', missing.length ? 'in part' : 'live');
    }
    find('#missing').hidden = missing.length === 0;
    find('#missing').textContent = missing.map((line) => `Not shown: ${line}`).join('\n');
    showMap(view);
    showPanels(view, actions, share);
  };
  stream.onerror = async () => {
    state('away', 'the dashboard is away; what you see is old');
    // A session that has ended looks like a broken stream; asking tells them apart.
    await ask('api/me').catch((error) => { if (error.status === 401) showLogin(); });
  };
}

setInterval(() => {
  if (stream && heard && Date.now() - heard > STALE_AFTER) {
    const seconds = Math.round((Date.now() - heard) / 1000);
    state('away', `nothing heard for ${seconds} s; what you see is old`);
  }
}, 1000);

find('#login form').addEventListener('submit', async (event) => {
  event.preventDefault();
  await logIn(find('#token').value);
});

async function logIn(token) {
  const error = find('#login .error');
  error.textContent = '';
  try {
    // A token has no blanks in it, and a kubeconfig always does.
    const text = token.trim();
    const me = await ask('api/login', /\s/.test(text) ? { kubeconfig: text } : { token: text });
    find('#token').value = '';
    showBoard(me);
  } catch (problem) {
    showLogin();
    error.textContent = problem.message;
  }
}

find('#logout').addEventListener('click', async () => {
  await ask('api/logout', {}).catch(() => {});
  showLogin();
});

showExplanations(find('#explain'));

// A link with a token in its fragment logs in; the fragment never leaves the browser.
const given = new URLSearchParams(location.hash.slice(1)).get('token');
if (given) {
  history.replaceState(null, '', location.pathname);
  await logIn(given);
} else {
  await ask('api/me').then(showBoard).catch(showLogin);
}
