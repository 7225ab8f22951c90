// A headless Chromium, driven over its DevTools protocol.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

export async function openBrowser(binary) {
  const profile = mkdtempSync(join(tmpdir(), 'limen-browser-'));
  const options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0',
    `--user-data-dir=${profile}`, 'about:blank'];
  const child = spawn(binary, options, { stdio: ['ignore', 'ignore', 'pipe'] });
  const endpoint = await new Promise((found, failed) => {
    let said = '';
    child.on('error', failed);
    child.on('exit', () => failed(new Error(`${binary} ended: ${said}`)));
    child.stderr.on('data', (data) => {
      said += data;
      const address = said.match(/DevTools listening on (ws:\S+)/);
      if (address) found(address[1]);
    });
  });
  const pages = async () => (await (await fetch(`http://${new URL(endpoint).host}/json`)).json());
  let page;
  while (!page) {
    page = (await pages()).find((one) => one.type === 'page');
    if (!page) await pause(100);
  }
  const socket = new WebSocket(page.webSocketDebuggerUrl);
  await new Promise((opened) => { socket.onopen = opened; });
  const close = () => {
    socket.close();
    child.removeAllListeners('exit');
    child.on('exit', () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
    child.kill();
  };
  return new Browser(socket, close);
}

class Browser {
  #socket;

  #waiting = new Map();

  #number = 0;

  /// What went wrong in the page's own scripts.
  errors = [];

  constructor(socket, close) {
    this.#socket = socket;
    this.close = close;
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.method === 'Runtime.exceptionThrown') {
        this.errors.push(message.params.exceptionDetails.exception?.description ?? 'an exception');
      }
      this.#waiting.get(message.id)?.(message);
      this.#waiting.delete(message.id);
    };
  }

  call(method, params = {}) {
    this.#number += 1;
    const id = this.#number;
    this.#socket.send(JSON.stringify({ id, method, params }));
    return new Promise((done, failed) => {
      this.#waiting.set(id, ({ result, error }) => (error ? failed(new Error(`${method}: ${error.message}`)) : done(result)));
    });
  }

  async open(url, { width = 1300, height = 1500, scheme = 'light' } = {}) {
    await this.call('Runtime.enable');
    await this.call('Page.enable');
    await this.call('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await this.call('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
    await this.call('Page.navigate', { url });
  }

  async value(expression) {
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', { expression, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /// Waits until an expression is true.
  async until(what, expression, seconds = 30) {
    for (let tries = 0; tries < seconds * 5; tries += 1) {
      if (await this.value(expression).catch(() => false)) return;
      await pause(200);
    }
    throw new Error(`not after ${seconds} s: ${what}`);
  }

  async screenshot(file) {
    const { data } = await this.call('Page.captureScreenshot');
    writeFileSync(file, Buffer.from(data, 'base64'));
  }
}
