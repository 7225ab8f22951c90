// A headless Chromium, driven over its DevTools protocol through a pair of pipes.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

const OPTIONS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
  '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--hide-scrollbars', '--remote-debugging-pipe'];

/// How many seconds anything may take.
const PATIENCE = 180;

export async function openBrowser(binary) {
  const profile = mkdtempSync(join(tmpdir(), 'limen-browser-'));
  const child = spawn(binary, [...OPTIONS, `--user-data-dir=${profile}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], detached: true });
  const browser = new Browser(child, profile);
  // The page that was opened with it, or is about to be.
  let page;
  while (!page) {
    const { targetInfos } = await browser.call('Target.getTargets');
    page = targetInfos.find((one) => one.type === 'page');
    if (!page) await pause(100);
  }
  await browser.attach(page.targetId);
  return browser;
}

class Browser {
  #child;

  #profile;

  #session;

  #waiting = new Map();

  #number = 0;

  #ended = null;

  /// What went wrong in the page's own scripts.
  errors = [];

  constructor(child, profile) {
    this.#child = child;
    this.#profile = profile;
    let said = '';
    child.stderr.on('data', (data) => { said = (said + data).slice(-2000); });
    const end = (why) => {
      this.#ended ??= new Error(`Chromium ended: ${why} ${said}`);
      for (const { failed } of this.#waiting.values()) failed(this.#ended);
      this.#waiting.clear();
    };
    child.on('error', (problem) => end(problem.message));
    child.on('exit', (code, signal) => end(`code ${code}, signal ${signal}`));
    child.stdio[3].on('error', () => {});
    let rest = '';
    child.stdio[4].setEncoding('utf8').on('data', (data) => {
      const messages = (rest + data).split('\0');
      rest = messages.pop();
      for (const message of messages) this.#hear(JSON.parse(message));
    });
  }

  #hear(message) {
    if (message.method === 'Runtime.exceptionThrown') {
      this.errors.push(message.params.exceptionDetails.exception?.description ?? 'an exception');
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) waiting?.failed(new Error(`${waiting.method}: ${message.error.message}`));
    else waiting?.done(message.result);
  }

  async attach(targetId) {
    const { sessionId } = await this.call('Target.attachToTarget', { targetId, flatten: true });
    this.#session = sessionId;
    await this.call('Runtime.enable');
    await this.call('Page.enable');
  }

  call(method, params = {}) {
    this.#number += 1;
    const id = this.#number;
    return new Promise((done, failed) => {
      if (this.#ended) return failed(this.#ended);
      this.#waiting.set(id, { method, done, failed });
      this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: this.#session })}\0`);
    });
  }

  /// Opens a page anew, also where only its fragment is another.
  async open(url, { width = 1300, height = 1640, scheme = 'light' } = {}) {
    await this.call('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await this.call('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
    await this.call('Page.navigate', { url: 'about:blank' });
    await this.until('the old page is gone', "location.href === 'about:blank'");
    const { errorText } = await this.call('Page.navigate', { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
  }

  async value(expression) {
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', { expression, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /// Waits until an expression is true: far longer than it takes, since machines are slow at times.
  async until(what, expression, seconds = PATIENCE) {
    const deadline = Date.now() + seconds * 1000;
    let last;
    while (Date.now() < deadline) {
      // Between two pages there is nothing that could be asked.
      last = await this.value(expression).catch((problem) => problem.message);
      if (last === true) return;
      await pause(100);
    }
    throw new Error(`not after ${seconds} s: ${what} (${expression} is ${last})`);
  }

  /// Clicks with the mouse, and as slowly as a person: the page may change under the button. What
  /// has moved away before it was pressed is tried again.
  async click(selector) {
    const found = `document.querySelector(${JSON.stringify(selector)})`;
    const middle = `(({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 }))(${found}.getBoundingClientRect())`;
    const mouse = (type, at) => this.call('Input.dispatchMouseEvent', { type, ...at, button: 'left', clickCount: 1 });
    const deadline = Date.now() + PATIENCE * 1000;
    while (Date.now() < deadline) {
      await this.until(`${selector} can be clicked`, `${found} !== null && !${found}.disabled`);
      await this.value(`${found}.scrollIntoView({ block: 'center' })`);
      await mouse('mousePressed', await this.value(middle));
      await pause(600);
      if (await this.value(`${found}?.matches(':active') ?? false`)) {
        await mouse('mouseReleased', await this.value(middle));
        return;
      }
      await mouse('mouseReleased', { x: 1, y: 1 });
    }
    throw new Error(`${selector} cannot be clicked`);
  }

  /// The page from its top, with what is open before it.
  async screenshot(file) {
    await this.value('scrollTo(0, 0)');
    const { data } = await this.call('Page.captureScreenshot');
    writeFileSync(file, Buffer.from(data, 'base64'));
  }

  /// Ends it with all its processes, and removes what they have written. What cannot be removed
  /// is no reason to fail.
  async close() {
    const ended = new Promise((done) => { this.#child.on('exit', done); });
    if (!this.#ended) {
      process.kill(-this.#child.pid, 'SIGKILL');
      await ended;
    }
    for (let tries = 0; tries < 50; tries += 1) {
      try {
        rmSync(this.#profile, { recursive: true, force: true });
        return;
      } catch {
        await pause(100);
      }
    }
  }
}
