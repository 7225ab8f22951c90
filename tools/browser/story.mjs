// What a person does on the page, done by a script.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openBrowser } from './chromium.mjs';

const [,, limen, chromium, out] = process.argv;
const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });
const say = (text) => console.log(`  ${text}`);

async function federation() {
  const folder = mkdtempSync(join(tmpdir(), 'limen-up-'));
  const child = spawn(limen, ['up', '--port-base', '0', '--data-dir', folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((done) => { child.on('exit', (code) => done(code ?? 'a signal')); });
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  // All addresses are written down before this is said.
  const ready = new Promise((done) => {
    let said = '';
    child.stdout.on('data', (data) => {
      said += data;
      if (said.includes('Press Ctrl-C')) done(null);
    });
  });
  const code = await Promise.race([ready, ended]);
  if (code !== null) throw new Error(`limen up ended with ${code} before it was ready`);
  return { ...JSON.parse(readFileSync(join(folder, 'up.json'))), stop };
}

// Clients that never stop asking; what fails is counted.
function clients(address) {
  const counts = { good: 0, bad: 0 };
  let why = '';
  const failed = (reason) => {
    counts.bad += 1;
    why ||= reason;
  };
  let going = true;
  const one = async () => {
    while (going) {
      await fetch(`http://${address}/`).then(async (answer) => {
        const text = await answer.text();
        if (answer.ok) counts.good += 1;
        else failed(`${answer.status} ${text}`);
      }).catch((problem) => failed(problem.cause?.message ?? problem.message));
      await pause(20);
    }
  };
  const all = Promise.all([one(), one(), one(), one()]);
  return { counts, why: () => why, stop: async () => { going = false; await all; } };
}

const LIVE = "document.querySelector('#state').dataset.state === 'live'";
const row = (name) => `[...document.querySelectorAll('#clusters tbody tr')].find((row) => row.querySelector('b')?.textContent === '${name}')`;
const rate = (name) => `Number(${row(name)}.children[2].textContent)`;
const button = (text, name) => `[data-key="${text} ${name}"]`;

async function confirm(browser, label) {
  await browser.until('the preview can be confirmed', "document.querySelector('#preview').open && !document.querySelector('#preview .main').disabled");
  const shown = await browser.value("[...document.querySelectorAll('#preview .body p')].map((line) => line.textContent).join(' ')");
  if (!shown) throw new Error(`the preview of ${label} says nothing`);
  say(`preview of ${label}: ${shown}`);
  await browser.click('#preview .main');
  await browser.until('the preview is closed', "!document.querySelector('#preview').open");
}

// Half and half through the preview, and back to the nearest.
async function shareByWeight(browser, first, second) {
  const share = button('Share', 'default/hello');
  const set = (name, value) => `(() => { const input = document.querySelector('#preview [name="${name}"]'); input.value = '${value}'; input.dispatchEvent(new Event('input', { bubbles: true })); })()`;
  const choose = (how) => `document.querySelector('#preview [name="how"][value="${how}"]').click()`;
  const then = (name) => `[...document.querySelectorAll('#preview tbody tr')].find((row) => row.firstChild.textContent === '${name}')?.lastChild.textContent`;
  await browser.click(share);
  await browser.until('the form is there', "document.querySelector('#preview').open");
  await browser.value(choose('canary'));
  await browser.until('a canary nobody runs is refused', "document.querySelector('#preview .main').disabled && document.querySelector('#preview .error').textContent.includes('canary')");
  await browser.value(`document.querySelector('#preview [name="trial"][value="${second}"]').click()`);
  await browser.until('the preview shows the first step', `${then(second)} === '5 %'`);
  await browser.screenshot(join(out, 'canary-preview.png'));
  await browser.value(choose('weights'));
  for (const input of await browser.value("[...document.querySelectorAll('#preview [name^=weight]')].map((input) => input.name)")) {
    await browser.value(set(input, input === `weight ${first}` || input === `weight ${second}` ? 1 : 0));
  }
  await browser.until('the preview shows halves', `${then(first)} === '50 %' && ${then(second)} === '50 %'`);
  await browser.screenshot(join(out, 'weights-preview.png'));
  await confirm(browser, 'weights');
  const near = (one, other) => `${rate(one)} > 1 && ${rate(other)} > 1 && ${rate(one)} < 2 * ${rate(other)} && ${rate(other)} < 2 * ${rate(one)}`;
  await browser.until('both have the same', near(first, second));
  say('half and half; screenshot weights.png');
  await browser.screenshot(join(out, 'weights.png'));
  await browser.click(share);
  await browser.until('the form is there', "document.querySelector('#preview').open");
  await browser.value(choose('nearest'));
  await browser.until('the preview shows the nearest', `${then(first)} === '100 %'`);
  await confirm(browser, 'nearest');
  await browser.until('the nearest has everything', `${rate(first)} > 1 && ${rate(second)} < 1`);
}

// What was cancelled before its preview was there does nothing, however late that comes and whatever
// is confirmed after it.
async function cancelEarly(browser, first, second) {
  await browser.value(`(() => {
    const real = window.fetch;
    window.held = [];
    window.acted = [];
    window.fetch = async (path, options) => {
      const wish = JSON.parse(options?.body ?? '{}');
      const late = wish.preview && window.held !== null;
      if (late) await new Promise((go) => { window.held.push(go); });
      else if (options?.body) window.acted.push([path, wish.cluster ?? wish.global].join(' '));
      const answer = await real(path, options);
      if (late) setTimeout(() => { window.answered = (window.answered ?? 0) + 1; }, 100);
      return answer;
    };
  })()`);
  const answer = async (number) => {
    await browser.value(`window.held[${number - 1}]()`);
    await browser.until(`answer ${number} has come`, `window.answered === ${number}`);
  };
  const look = async (key, number) => {
    await browser.click(key);
    await browser.until('the preview is asked for', `window.held.length === ${number} && document.querySelector('#preview').open`);
  };
  const cancel = async () => {
    await browser.click('#preview [value="cancel"]');
    await browser.until('the preview is closed', "!document.querySelector('#preview').open");
  };
  const acted = async (...expected) => {
    const found = await browser.value('window.acted');
    if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`asked for ${found.join(', ')}, not for ${expected.join(', ')}`);
  };
  await look(button('Drain', first), 1);
  await cancel();
  await look(button('Drain', second), 2);
  await answer(1);
  const shown = await browser.value("[document.querySelector('#preview .body').textContent, document.querySelector('#preview .main').disabled].join()");
  if (shown !== 'Looking ...,true') throw new Error(`the preview of another cluster shows ${shown}`);
  await answer(2);
  await confirm(browser, `drain ${second}`);
  await browser.until(`${second} can be undrained`, `document.querySelector('${button('Undrain', second)}') !== null`);
  await acted(`api/drain ${second}`);
  await look(button('Share', 'default/hello'), 3);
  await cancel();
  await answer(3);
  await browser.click(button('Undrain', second));
  await confirm(browser, `undrain ${second}`);
  await browser.until(`${second} can be drained`, `document.querySelector('${button('Drain', second)}') !== null`);
  await acted(`api/drain ${second}`, `api/undrain ${second}`);
  await browser.value('window.held = null');
  say('what was cancelled did nothing');
}

// A tab that nobody sees takes no connection, and wakes up when it is seen.
async function hideAndShow(browser) {
  const seen = (hidden) => `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`;
  await browser.value('(() => { const { close } = EventSource.prototype; window.hungUp = 0; EventSource.prototype.close = function count() { window.hungUp += 1; close.call(this); }; })()');
  await browser.value(seen(true));
  await browser.until('the tab sleeps', "window.hungUp === 1 && document.querySelector('#state').textContent === 'asleep'");
  await browser.value(seen(false));
  await browser.until('the tab is awake', LIVE);
  say('a hidden tab takes no connection');
}

// What nothing is known of is not shown as well.
async function showUnknown(browser) {
  await browser.value("void import('/panels.js').then(({ toneOf }) => { window.tone = toneOf({ api: 'Unknown', edge: 'Unknown', endpoints: 'Unknown' }).name; })");
  await browser.until('a cluster of which nothing is known is not green', "window.tone === 'unsure'", 30);
}

// Who has gone is asked who they are, and told when nobody knows them.
async function logOut(browser) {
  await browser.click('#logout');
  await browser.until('the page asks for a login', "!document.querySelector('#login').hidden && document.querySelector('#board').hidden");
  await browser.value("document.querySelector('#token').value = 'nobody-has-this'; document.querySelector('#login form').requestSubmit()");
  await browser.until('a wrong token is refused', "document.querySelector('#login .error').textContent.includes('does not know this token')");
  say('logged out, and a wrong token is refused; screenshot login.png');
  await browser.screenshot(join(out, 'login.png'));
}

async function story(up, browser) {
  const names = up.clusters.map((cluster) => cluster.name);
  // Clients come in where the first cluster is.
  const [first, ...others] = names;
  await browser.open(up.dashboard);
  await browser.until('the page is live', LIVE);
  await browser.until('all clusters are on the map', `document.querySelectorAll('#map .place').length === ${names.length}`);
  await browser.until('the nearest cluster has all traffic', `${rate(first)} > 1 && ${others.map((name) => `${rate(name)} < 1`).join(' && ')}`);
  const regions = new Set(up.clusters.map((cluster) => cluster.region)).size;
  await browser.until('clients of each region are on the map', `document.querySelectorAll('#map .clients').length === ${regions}`);
  await browser.until('the DNS server is on the map', "[...document.querySelectorAll('#map .gateway title')].some((title) => title.textContent.includes('answers DNS'))");
  await browser.until('an arc shows traffic', "document.querySelectorAll('#map .arc').length > 0");
  say(`${first} serves; screenshot before.png`);
  await browser.screenshot(join(out, 'before.png'));

  await browser.click(button('Kill', first));
  await confirm(browser, `kill ${first}`);
  const moved = others.map((name) => `${rate(name)} > 1`).join(' || ');
  await browser.until('traffic moves to another cluster', `${rate(first)} < 1 && (${moved})`);
  await browser.until('the page can bring it back', `document.querySelector('${button('Bring back', first)}') !== null`);
  await browser.until('the timeline tells of it', `[...document.querySelectorAll('#events li.warning')].some((line) => line.textContent.includes('Cluster/${first}'))`);
  await browser.until('the hub misses its API', `${row(first)}.children[5].textContent === 'not well'`);
  await browser.until('its leaves are what was last known', `[...document.querySelectorAll('#leaves .leaf')].some((leaf) => leaf.textContent === '${first} (last known)')`);
  say('traffic moved; screenshot killed.png');
  await browser.screenshot(join(out, 'killed.png'));

  await browser.click(button('Bring back', first));
  await confirm(browser, `bring back ${first}`);
  await browser.until('traffic comes back', `${rate(first)} > 1`);
  await browser.click(button('Drain', first));
  await browser.until('the preview says what leaves', "document.querySelector('#preview .body').textContent.includes('move to the next nearest')");
  await browser.screenshot(join(out, 'preview.png'));
  await confirm(browser, `drain ${first}`);
  await browser.until('traffic leaves it', `${rate(first)} < 1 && (${moved})`);
  say('drained; screenshot drained.png');
  await browser.screenshot(join(out, 'drained.png'));
  await browser.click(button('Undrain', first));
  await confirm(browser, `undrain ${first}`);
  await browser.until('traffic comes back', `${rate(first)} > 1`);

  await cancelEarly(browser, first, others[0]);
  await shareByWeight(browser, first, others[0]);
  await showUnknown(browser);
  await hideAndShow(browser);

  await browser.value("document.querySelector('#explain [name=where]').value = 'any.example/'; document.querySelector('#explain form').requestSubmit()");
  await browser.until('an explanation is shown', `document.querySelector('#explain .result').textContent.includes('goes to ${first}')`);
  say(`explained: any.example/ goes to ${first}`);

  const look = async (name, size) => {
    await browser.open(up.dashboard, { scheme: 'dark', ...size });
    await browser.until('the page is live again', LIVE);
    await browser.until('the map is drawn', "document.querySelectorAll('#map .arc').length > 0");
    await browser.screenshot(join(out, name));
  };
  await look('dark.png', {});
  await look('narrow-dark.png', { width: 420, height: 1400 });
  const wide = await browser.value('document.documentElement.scrollWidth > innerWidth');
  if (wide) throw new Error('the page is wider than a narrow screen');
  await logOut(browser);
  if (browser.errors.length) throw new Error(`the page failed: ${browser.errors.join('; ')}`);
}

const up = await federation();
say(`limen up is ready at ${up.hub}`);
let failed = null;
let load = null;
let browser = null;
try {
  browser = await openBrowser(chromium);
  load = clients(up.gateway.http);
  await story(up, browser);
} catch (problem) {
  failed = problem;
  await browser?.screenshot(join(out, 'failed.png')).catch(() => {});
}
await load?.stop();
await up.stop();
await browser?.close();
if (load) {
  say(`clients: ${load.counts.good} good answers, ${load.counts.bad} bad`);
  if (!failed && load.counts.bad > 0) failed = new Error(`${load.counts.bad} requests failed: ${load.why()}`);
}
if (failed) {
  console.error(`browser: ${failed.message}; see ${out}`);
  process.exit(1);
}
console.log('browser: all seen');
