// What a person does on the page, done by a script.
import { spawn } from 'node:child_process';
import { mkdtempSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openBrowser } from './chromium.mjs';

const [,, limen, chromium, out] = process.argv;
const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });
const say = (text) => console.log(`  ${text}`);

async function federation() {
  const folder = mkdtempSync(join(tmpdir(), 'limen-up-'));
  const child = spawn(limen, ['up', '--port-base', '0', '--data-dir', folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  let ended = false;
  child.on('exit', () => { ended = true; });
  const file = join(folder, 'up.json');
  while (!existsSync(file)) {
    if (ended) throw new Error('limen up ended before it was ready');
    await pause(100);
  }
  await pause(100);
  const stop = async () => {
    child.kill('SIGTERM');
    while (!ended) await pause(50);
    rmSync(folder, { recursive: true, force: true });
  };
  return { ...JSON.parse(readFileSync(file)), stop };
}

// Clients that never stop asking; what fails is counted.
function clients(address) {
  const counts = { good: 0, bad: 0 };
  let going = true;
  const one = async () => {
    while (going) {
      await fetch(`http://${address}/`).then((answer) => {
        counts[answer.ok ? 'good' : 'bad'] += 1;
        return answer.text();
      }).catch(() => { counts.bad += 1; });
      await pause(20);
    }
  };
  const all = Promise.all([one(), one(), one(), one()]);
  return { counts, stop: async () => { going = false; await all; } };
}

const row = (name) => `[...document.querySelectorAll('#clusters tbody tr')].find((row) => row.querySelector('b')?.textContent === '${name}')`;
const rate = (name) => `Number(${row(name)}.children[2].textContent)`;
const button = (text, name) => `document.querySelector('[data-key="${text} ${name}"]')`;

async function confirm(browser, label) {
  await browser.until('the preview can be confirmed', "document.querySelector('#preview').open && !document.querySelector('#preview .main').disabled");
  const shown = await browser.value("document.querySelector('#preview .body').textContent");
  if (!shown) throw new Error(`the preview of ${label} says nothing`);
  say(`preview of ${label}: ${shown}`);
  await browser.value("document.querySelector('#preview .main').click()");
}

// Half and half through the preview, and back to the nearest.
async function shareByWeight(browser, first, second) {
  const share = `document.querySelector('[data-key="Share default/hello"]')`;
  const set = (name, value) => `(() => { const input = document.querySelector('#preview [name="${name}"]'); input.value = '${value}'; input.dispatchEvent(new Event('input', { bubbles: true })); })()`;
  const choose = (how) => `document.querySelector('#preview [name="how"][value="${how}"]').click()`;
  const then = (name) => `[...document.querySelectorAll('#preview tbody tr')].find((row) => row.firstChild.textContent === '${name}')?.lastChild.textContent`;
  await browser.value(`${share}.click()`);
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
  await browser.until('both have the same', near(first, second), 60);
  say('half and half; screenshot weights.png');
  await browser.screenshot(join(out, 'weights.png'));
  await browser.value(`${share}.click()`);
  await browser.until('the form is there', "document.querySelector('#preview').open");
  await browser.value(choose('nearest'));
  await browser.until('the preview shows the nearest', `${then(first)} === '100 %'`);
  await confirm(browser, 'nearest');
  await browser.until('the nearest has everything', `${rate(first)} > 1 && ${rate(second)} < 1`, 60);
}

async function story(up, browser) {
  const names = up.clusters.map((cluster) => cluster.name);
  await browser.open(up.dashboard);
  await browser.until('the page is live', "document.querySelector('#state').dataset.state === 'live'");
  await browser.until('all clusters are on the map', `document.querySelectorAll('#map .place').length === ${names.length}`);
  const busiest = async () => {
    for (const name of names) if (await browser.value(rate(name)) > 1) return name;
    return null;
  };
  let first = null;
  for (let tries = 0; !first && tries < 150; tries += 1) {
    first = await busiest();
    if (!first) await pause(200);
  }
  if (!first) throw new Error('no cluster shows traffic');
  await browser.until('clients of each region are on the map', `document.querySelectorAll('#map .clients').length === ${new Set(up.clusters.map((cluster) => cluster.region)).size}`);
  await browser.until('the DNS server is on the map', "[...document.querySelectorAll('#map .gateway title')].some((title) => title.textContent.includes('answers DNS'))");
  await browser.until('an arc shows traffic', "document.querySelectorAll('#map .arc').length > 0");
  say(`${first} serves; screenshot before.png`);
  await browser.screenshot(join(out, 'before.png'));

  await browser.value(`${button('Kill', first)}.click()`);
  await confirm(browser, `kill ${first}`);
  const others = names.filter((name) => name !== first);
  const moved = others.map((name) => `${rate(name)} > 1`).join(' || ');
  await browser.until('traffic moves to another cluster', `${rate(first)} < 1 && (${moved})`, 60);
  await browser.until('the page can bring it back', `${button('Bring back', first)} !== null`, 60);
  await browser.until('the timeline tells of it', `[...document.querySelectorAll('#events li.warning')].some((line) => line.textContent.includes('Cluster/${first}'))`);
  say('traffic moved; screenshot killed.png');
  await browser.screenshot(join(out, 'killed.png'));

  await browser.value(`${button('Bring back', first)}.click()`);
  await confirm(browser, `bring back ${first}`);
  await browser.until('traffic comes back', `${rate(first)} > 1`, 90);
  await browser.value(`${button('Drain', first)}.click()`);
  await browser.until('the preview is shown', "document.querySelector('#preview').open");
  await pause(300);
  await browser.screenshot(join(out, 'preview.png'));
  await confirm(browser, `drain ${first}`);
  await browser.until('traffic leaves it', `${rate(first)} < 1 && (${moved})`, 60);
  say('drained; screenshot drained.png');
  await browser.screenshot(join(out, 'drained.png'));
  await browser.value(`${button('Undrain', first)}.click()`);
  await confirm(browser, `undrain ${first}`);
  await browser.until('traffic comes back', `${rate(first)} > 1`, 60);

  await shareByWeight(browser, first, others[0]);

  await browser.value("document.querySelector('#explain [name=where]').value = 'any.example/'; document.querySelector('#explain form').requestSubmit()");
  await browser.until('an explanation is shown', `document.querySelector('#explain .result').textContent.includes('goes to ${first}')`);
  say(`explained: any.example/ goes to ${first}`);

  await browser.open(up.dashboard.replace('/#', '/?dark#'), { scheme: 'dark' });
  await browser.until('the page is live again', "document.querySelector('#state').dataset.state === 'live'");
  await pause(500);
  await browser.screenshot(join(out, 'dark.png'));
  await browser.open(up.dashboard.replace('/#', '/?narrow#'), { width: 420, height: 1400, scheme: 'dark' });
  await browser.until('the page is live again', "document.querySelector('#state').dataset.state === 'live'");
  await pause(500);
  await browser.screenshot(join(out, 'narrow-dark.png'));
  const wide = await browser.value('document.documentElement.scrollWidth > innerWidth');
  if (wide) throw new Error('the page is wider than a narrow screen');
  if (browser.errors.length) throw new Error(`the page failed: ${browser.errors.join('; ')}`);
}

const up = await federation();
say(`limen up is ready at ${up.hub}`);
const browser = await openBrowser(chromium);
const load = clients(up.gateway.http);
let failed = null;
await story(up, browser).catch(async (problem) => {
  failed = problem;
  await browser.screenshot(join(out, 'failed.png')).catch(() => {});
});
await load.stop();
browser.close();
await up.stop();
say(`clients: ${load.counts.good} good answers, ${load.counts.bad} bad`);
if (!failed && load.counts.bad > 0) failed = new Error(`${load.counts.bad} requests failed`);
if (failed) {
  console.error(`browser: ${failed.message}; see ${out}`);
  process.exit(1);
}
console.log('browser: all seen');
