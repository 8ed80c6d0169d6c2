/* A headless Chromium under control: the DevTools protocol over a pipe (NUL-terminated JSON on descriptors 3 and 4),
 * which needs no package and no port. Only the process that is started here is ever ended. */
import { spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export function findChromium() {
  const names = process.env.CHROMIUM ? [process.env.CHROMIUM] : ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  return names.find(name => {
    try {
      accessSync(name, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

export class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'vitral-page-'));
    browser.process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      '--no-first-run', '--disable-background-networking', '--force-color-profile=srgb', '--remote-debugging-pipe',
      `--user-data-dir=${browser.profile}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.next = 1;
    browser.waiting = new Map();
    browser.listeners = [];
    const ended = new Promise(done => browser.process.once('exit', done));
    browser.ended = ended;
    ended.then(() => browser.fail(new Error('Chromium ended')));
    let rest = Buffer.alloc(0);
    browser.process.stdio[4].on('data', data => {
      rest = Buffer.concat([rest, data]);
      for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) browser.receive(JSON.parse(rest.subarray(0, end)));
    });
    browser.process.stdio[3].on('error', () => {}); /* told by 'exit' */
    const { targetInfos } = await browser.send('Target.getTargets');
    const page = targetInfos.find(target => target.type === 'page');
    const { sessionId } = await browser.send('Target.attachToTarget', { targetId: page.targetId, flatten: true });
    browser.session = sessionId;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network', 'DOM']) await browser.send(`${domain}.enable`);
    return browser;
  }

  fail(error) {
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  receive(message) {
    const call = this.waiting.get(message.id);
    if (!call) return this.listeners.forEach(listener => listener(message.method, message.params));
    this.waiting.delete(message.id);
    if (message.error) call.reject(new Error(`${call.method}: ${message.error.message}`));
    else call.resolve(message.result);
  }

  send(method, params = {}) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { method, resolve, reject });
      this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + '\0');
    });
  }

  on(listener) {
    this.listeners.push(listener);
  }

  /* Value of an expression in the page; a promise is awaited. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`in the page: ${exceptionDetails.exception?.description || exceptionDetails.text}`);
    return result.value;
  }

  /* Waits until an expression is true in the page. */
  async until(expression, what, seconds = 20) {
    const end = Date.now() + seconds * 1000;
    while (!await this.value(`Boolean(${expression})`)) {
      if (Date.now() > end) throw new Error(`waited ${seconds} s in vain: ${what}`);
      await new Promise(done => setTimeout(done, 50));
    }
  }

  /* Gives a file to an <input type=file>, as a person would. */
  async upload(selector, file) {
    const { root } = await this.send('DOM.getDocument');
    const { nodeId } = await this.send('DOM.querySelector', { nodeId: root.nodeId, selector });
    await this.send('DOM.setFileInputFiles', { nodeId, files: [file] });
  }

  async screenshot() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true });
    return Buffer.from(data, 'base64');
  }

  async stop() {
    this.session = undefined;
    this.send('Browser.close').catch(() => {});
    const late = setTimeout(() => this.process.kill('SIGKILL'), 5000);
    await this.ended;
    clearTimeout(late);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
