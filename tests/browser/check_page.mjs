#!/usr/bin/env node
/* The page in a real browser: every method is in the form with every parameter, an uploaded picture gets a map, a click
 * on a class asks again, a refusal is shown at its field, nothing comes from outside, no error in the console.
 *
 *   node tests/browser/check_page.mjs [BUILD]     starts BUILD/vitrald on a free port
 *   VITRAL_URL=http://host:port/ ...              tests a server that is already there
 *   VITRAL_SCREENSHOTS=DIR                        keeps pictures of the page
 * Prints "skip" and ends with 0 where there is no Chromium. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Browser, findChromium } from './chromium.mjs';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const build = resolve(process.argv[2] || process.env.VITRAL_BUILD || join(root, 'build'));

async function startServer() {
  if (process.env.VITRAL_URL) return { url: process.env.VITRAL_URL, stop: async () => {} };
  const server = spawn(join(build, 'vitrald'), ['--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = new Promise(done => server.once('exit', done));
  const url = await new Promise((found, failed) => {
    let text = '';
    server.stdout.on('data', data => {
      text += data;
      const line = text.match(/listening on (http:\/\/\S+)/);
      if (line) found(`${line[1]}/`);
    });
    server.once('error', failed);
    ended.then(code => failed(new Error(`vitrald ended with ${code} before it was ready`)));
  });
  return {
    url,
    stop: async () => {
      server.kill('SIGTERM');
      assert.equal(await ended, 0, 'vitrald did not drain cleanly');
    },
  };
}

const program = findChromium();
if (!program) {
  console.log('skip: no Chromium');
  process.exit(0);
}

let passed = 0, failed = 0;
const server = await startServer();
const browser = await Browser.start(program);
const origin = new URL(server.url).origin;
const complaints = [], foreign = [], posts = [];
let lastPost = null; /* request id of DevTools */

browser.on((event, params) => {
  if (event === 'Runtime.exceptionThrown') complaints.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
  if (event === 'Log.entryAdded' && params.entry.level === 'error') complaints.push(`${params.entry.text} ${params.entry.url || ''}`);
  if (event === 'Network.requestWillBeSent') {
    const url = new URL(params.request.url);
    if (url.protocol.startsWith('http') && url.origin !== origin) foreign.push(url.href);
    if (params.request.method === 'POST') {
      posts.push(url);
      lastPost = params.requestId;
    }
  }
});

async function check(name, body) {
  try {
    await body();
    passed++;
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.message}`);
  }
}

async function keep(name) {
  if (!process.env.VITRAL_SCREENSHOTS) return;
  mkdirSync(process.env.VITRAL_SCREENSHOTS, { recursive: true });
  writeFileSync(join(process.env.VITRAL_SCREENSHOTS, `${name}.png`), await browser.screenshot());
}

async function open(width, height) {
  await browser.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  await browser.send('Page.navigate', { url: server.url });
  await browser.until('document.body && document.body.dataset.ready', 'the form was never filled');
}

const settled = `document.getElementById('answer').getAttribute('aria-busy') === 'false'`;
const text = id => browser.value(`document.getElementById(${JSON.stringify(id)}).textContent`);
const choose = (id, value) => browser.value(`(() => { const e = document.getElementById(${JSON.stringify(id)}); e.value = ${JSON.stringify(value)};
  e.dispatchEvent(new Event('input', { bubbles: true })); e.dispatchEvent(new Event('change', { bubbles: true })); return e.value; })()`);
/* Opaque pixels of the heat map as the browser sees it. */
const lit = `(() => { const i = document.getElementById('heat'), c = document.createElement('canvas'); c.width = i.naturalWidth; c.height = i.naturalHeight;
  const x = c.getContext('2d'); x.drawImage(i, 0, 0); const d = x.getImageData(0, 0, c.width, c.height).data; let n = 0;
  for (let k = 3; k < d.length; k += 4) n += d[k] > 0; return n; })()`;

const methods = await (await fetch(new URL('methods', server.url))).json();
const models = await (await fetch(new URL('models', server.url))).json();

await check('every method and model is offered', async () => {
  await open(1200, 1000);
  const offered = await browser.value(`[...document.getElementById('method').options].map(o => o.value)`);
  assert.deepEqual([...offered].sort(), methods.map(m => m.name).sort());
  assert.ok(offered.length > 0);
  assert.deepEqual(await browser.value(`[...document.getElementById('model').options].map(o => o.value)`), models.map(m => m.id));
  await keep('start');
});

await check('every parameter has a labelled field and its help', async () => {
  for (const method of methods) {
    await choose('method', method.name);
    const fields = await browser.value(`[...document.querySelectorAll('#params .field')].map(f => ({
      names: [...new Set([...f.querySelectorAll('[data-param]')].map(e => e.dataset.param))],
      label: (f.querySelector('label, legend') || {}).textContent, help: f.querySelector('.help').textContent,
      options: [...f.querySelectorAll('option')].map(o => o.value).concat([...f.querySelectorAll('[type=checkbox]')].map(o => o.value)) }))`);
    assert.deepEqual(fields.map(f => f.names), method.params.map(p => [p.name]), `fields of ${method.name}`);
    method.params.forEach((param, k) => {
      assert.ok(fields[k].label, `${method.name}.${param.name} has no label`);
      assert.ok(fields[k].help.includes(param.help), `${method.name}.${param.name} lacks its help`);
      for (const choice of param.choices || []) assert.ok(fields[k].options.includes(choice), `${method.name}.${param.name} lacks ${choice}`);
    });
  }
});

await check('an uploaded picture gets a prediction and a map', async () => {
  await open(1200, 1000);
  await browser.upload('#file', join(root, 'static/samples/cat.jpg'));
  await browser.until(`${settled} && !document.getElementById('heat').hidden && document.getElementById('heat').complete`, 'no heat map came');
  assert.equal(await browser.value(`document.getElementById('problem').hidden`), true, await text('problem'));
  const size = await browser.value(`['picture', 'heat'].map(id => { const e = document.getElementById(id), r = e.getBoundingClientRect();
    return [e.naturalWidth, e.naturalHeight, Math.round(r.left), Math.round(r.top), Math.round(r.width), Math.round(r.height)]; })`);
  assert.deepEqual(size[1], size[0], 'the heat map does not lie over the picture');
  assert.ok(await browser.value(lit) > 1000, 'the heat map is empty');
  assert.ok(await browser.value(`document.querySelectorAll('#prediction button').length`) > 1, 'no prediction list');
  assert.match(await text('metrics'), /entropy/);
  assert.equal(await browser.value(`document.querySelectorAll('#answer img:not([alt])').length`), 0, 'a picture without alt');
  await keep('answer');
});

await check('the slider changes how strongly the map is laid over', async () => {
  await choose('opacity', '20');
  assert.equal(await browser.value(`getComputedStyle(document.getElementById('heat')).opacity`), '0.2');
});

await check('a click on a class explains that class', async () => {
  const index = await browser.value(`document.querySelectorAll('#prediction button')[1].dataset.index`);
  await browser.value(`document.querySelectorAll('#prediction button')[1].click()`);
  await browser.until(`${settled} && document.querySelector('#prediction [data-index="${index}"]').getAttribute('aria-pressed') === 'true'`, 'the class did not become the target');
  assert.equal(posts.at(-1).searchParams.get('class'), index);
});

await check('a large picture, dropped: the map of the model\'s input lies over the crop', async () => {
  await browser.value(`new Promise(done => {
    const c = document.createElement('canvas'), data = new DataTransfer();
    c.width = 2800; c.height = 1500;
    const x = c.getContext('2d');
    x.fillStyle = 'teal'; x.fillRect(0, 0, 2800, 1500); x.fillStyle = 'orange'; x.fillRect(1100, 500, 700, 500);
    c.toBlob(blob => {
      data.items.add(new File([blob], "it's large.png", { type: 'image/png' }));
      document.getElementById('drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      done();
    });
  })`);
  await browser.until(`${settled} && document.getElementById('heat').complete && document.getElementById('picture').naturalWidth === 2800`, 'no heat map came');
  assert.equal(posts.at(-1).searchParams.get('size'), 'model');
  const { body } = await browser.send('Network.getResponseBody', { requestId: lastPost });
  const { crop, resized } = JSON.parse(body).image.transform;
  const [picture, heat] = await browser.value(`['picture', 'heat'].map(id => { const r = document.getElementById(id).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })`);
  const expected = [0, 1, 2, 3].map(k => (k < 2 ? picture[k] : 0) + crop[k] / resized[k % 2] * picture[2 + k % 2]);
  expected.forEach((value, k) => assert.ok(Math.abs(value - heat[k]) < 1, `the map lies at ${heat}, the crop at ${expected}`));
  assert.ok((await text('curl')).includes(`'img=@it'\\''s large.png'`), await text('curl'));
  await keep('large');
});

await check('every method gives maps at its defaults', async () => {
  for (const method of methods) {
    await choose('method', method.name);
    await browser.until(`${settled}`, `${method.name} never ended`, 60);
    const refused = await browser.value(`document.getElementById('problem').hidden ? '' : document.getElementById('problem').textContent`);
    if (method.cost === null) { /* this model cannot serve it, and the page says why */
      assert.ok(refused.includes(method.name), `${method.name}: ${refused}`);
      continue;
    }
    assert.equal(refused, '', `${method.name} was refused`);
    assert.equal(posts.at(-1).searchParams.get('method'), method.name);
    await browser.until(`document.getElementById('caption').textContent.includes(${JSON.stringify(method.title)})`, `${method.name}: no caption`);
    await keep(`method-${method.name}`);
  }
});

await check('a value out of range is shown at its field', async () => {
  const method = methods.find(m => m.params.some(p => p.type === 'float'));
  const param = method.params.find(p => p.type === 'float');
  await choose('method', method.name);
  await browser.until(settled, 'the method never ended');
  await choose(`p-${param.name}`, '-12345');
  await browser.value(`document.getElementById('go').click()`);
  await browser.until(`${settled} && !document.getElementById('problem').hidden`, 'no problem was shown');
  assert.ok((await text('problem')).includes(param.name), await text('problem'));
  assert.equal(await browser.value(`document.getElementById('p-${param.name}').getAttribute('aria-invalid')`), 'true');
  assert.equal(await browser.value(`document.activeElement.id`), `p-${param.name}`);
  await keep('refused');
  await choose(`p-${param.name}`, '');
  await browser.value(`document.getElementById('go').click()`);
  await browser.until(`${settled} && document.getElementById('problem').hidden`, 'the problem stayed');
});

await check('an input size gives a finer map, and a wrong one is shown at its field', async () => {
  const [patch] = (await (await fetch(`${server.url}models`)).json())[0].patch;
  await choose('image-size', String(13 * patch));
  await browser.value(`document.getElementById('go').click()`);
  await browser.until(`${settled} && document.getElementById('problem').hidden`, 'a problem was shown');
  assert.equal(posts.at(-1).searchParams.get('image_size'), String(13 * patch));
  const { body } = await browser.send('Network.getResponseBody', { requestId: lastPost });
  assert.deepEqual(JSON.parse(body).image.transform.crop.slice(2), [13 * patch, 13 * patch]);
  await choose('image-size', String(13 * patch + 1));
  await browser.value(`document.getElementById('go').click()`);
  await browser.until(`${settled} && !document.getElementById('problem').hidden`, 'no problem was shown');
  assert.ok((await text('problem')).includes(`nearest is ${13 * patch}x${13 * patch}`), await text('problem'));
  assert.equal(await browser.value(`document.activeElement.id`), 'image-size');
  await choose('image-size', '');
  await browser.value(`document.getElementById('go').click()`);
  await browser.until(`${settled} && document.getElementById('problem').hidden`, 'the problem stayed');
});

await check('a file that is no picture is refused in words', async () => {
  await browser.upload('#file', join(root, 'static/app.js'));
  await browser.until(`${settled} && !document.getElementById('problem').hidden`, 'no problem was shown');
  assert.ok((await text('problem')).length > 10);
});

await check('a sample picture is one click away, on a narrow screen too', async () => {
  await open(400, 800);
  assert.ok(await browser.value('document.documentElement.scrollWidth <= innerWidth'), 'the page is wider than the screen');
  await browser.value(`document.querySelector('[data-sample]').click()`);
  await browser.until(`${settled} && !document.getElementById('heat').hidden`, 'no heat map came');
  assert.ok(await browser.value('document.documentElement.scrollWidth <= innerWidth'), 'the answer is wider than the screen');
  await keep('narrow');
});

await check('dark colours', async () => {
  await browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: 'dark' }] });
  const [r, g, b] = await browser.value(`getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)`);
  assert.ok(r + g + b < 200, `the ground is ${r}, ${g}, ${b}`);
  await keep('dark');
});

await check('nothing comes from outside, and nothing went wrong unseen', async () => {
  assert.deepEqual(foreign, []);
  /* the refusals above are logged by the browser as failed loads; the icon is not there */
  assert.deepEqual(complaints.filter(c => !/status of 4\d\d .*(explain|favicon)/.test(c)), []);
});

await browser.stop();
await server.stop();
console.log(`page: ${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
