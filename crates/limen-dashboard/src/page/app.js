// Logging in, staying connected, and saying so when that fails.
import { makeMap } from './map.js';
import { makeActions } from './actions.js';
import { ask } from './ask.js';
import { showExplanations } from './explain.js';
import { showPanels } from './panels.js';
import { shareButton } from './share.js';

const find = (selector) => document.querySelector(selector);
const STALE_AFTER = 12_000;
const AGAIN_AFTER = 2_000;

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

function hangUp() {
  stream?.close();
  stream = null;
}

function showLogin({ message = '', certificate = null } = {}) {
  hangUp();
  find('#preview').close();
  find('#board').hidden = true;
  find('#login').hidden = false;
  find('#logout').hidden = true;
  find('#user').textContent = '';
  state('off', 'not logged in');
  find('#login .error').textContent = message;
  find('#certificate').hidden = certificate === null;
  find('#certificate').textContent = `Log in as ${certificate}, by certificate`;
  find('#token').focus();
}

function showBoard({ user, mayChange, mayShare, play }) {
  const actions = makeActions(mayChange, play);
  const share = mayShare ? shareButton : () => [];
  find('#login').hidden = true;
  find('#board').hidden = false;
  find('#logout').hidden = false;
  find('#user').textContent = mayChange || mayShare ? user : `${user} (may only look)`;
  showMap ??= makeMap(find('#map'));
  hangUp();
  // Nobody looks, and a browser has few connections for all its tabs.
  if (document.hidden) {
    state('stale', 'asleep');
    return;
  }
  state('stale', 'connecting');
  heard = Date.now();
  stream = new EventSource('api/live');
  stream.onmessage = ({ data }) => {
    heard = Date.now();
    show(JSON.parse(data), actions, share);
  };
  stream.onerror = () => {
    state('away', 'the dashboard is away; what you see is old');
    // The browser tries again by itself, unless it was refused: then we ask why.
    if (stream.readyState === EventSource.CLOSED) setTimeout(start, AGAIN_AFTER);
  };
}

function show({ view, missing, awaySince, unknown }, actions, share) {
  if (unknown) {
    start();
    return;
  }
  if (awaySince !== null) {
    const since = new Date(awaySince * 1000).toLocaleTimeString();
    state('away', `the hub is away; what you see is of ${since}`);
  } else {
    state(missing.length ? 'stale' : 'live', missing.length ? 'in part' : 'live');
  }
  find('#missing').hidden = missing.length === 0 || awaySince !== null;
  find('#missing').textContent = missing.map((line) => `Not shown: ${line}`).join('\n');
  showMap(view);
  showPanels(view, actions, share);
}

setInterval(() => {
  if (stream && Date.now() - heard > STALE_AFTER) {
    const seconds = Math.round((Date.now() - heard) / 1000);
    state('away', `nothing heard for ${seconds} s; what you see is old`);
  }
}, 1000);

async function logIn(wish) {
  find('#login .error').textContent = '';
  try {
    const me = await ask('api/login', wish);
    find('#token').value = '';
    showBoard(me);
  } catch (problem) {
    showLogin({ message: problem.message, certificate: await certificate() });
  }
}

// A token has no blanks in it, and a kubeconfig always does.
const credential = (text) => (/\s/.test(text) ? { kubeconfig: text } : { token: text });

const certificate = () => ask('api/me').then(() => null, ({ said }) => said?.certificate ?? null);

// Goes on with the session that there is, or asks for a login.
async function start() {
  try {
    showBoard(await ask('api/me'));
  } catch ({ status, message, said }) {
    if (status === 401) {
      const known = said.certificate ?? null;
      showLogin({ message: said.session || stream ? message : '', certificate: known });
    } else {
      state('away', message);
      setTimeout(start, AGAIN_AFTER);
    }
  }
}

find('#login form').addEventListener('submit', async (event) => {
  event.preventDefault();
  await logIn(credential(find('#token').value.trim()));
});

find('#certificate').addEventListener('click', () => logIn('certificate'));

find('#logout').addEventListener('click', async () => {
  await ask('api/logout', {}).catch(() => {});
  showLogin({ certificate: await certificate() });
});

document.addEventListener('visibilitychange', () => {
  if (find('#board').hidden) return;
  if (document.hidden) {
    hangUp();
    state('stale', 'asleep');
  } else {
    start();
  }
});

// The hub, or the dashboard, does not know us any more.
document.addEventListener('unknown', start);

showExplanations(find('#explain'));

// A link with a token in its fragment logs in; the fragment never leaves the browser.
const given = new URLSearchParams(location.hash.slice(1)).get('token');
if (given) {
  history.replaceState(null, '', location.pathname);
  await logIn({ token: given });
} else {
  await start();
}
