/* The page: a form made from GET methods, one POST explain per question, and the heat map laid over the picture.
 *
 * Everything about methods and parameters (names, ranges, defaults, help) comes from the server. An input that is left
 * alone is not sent, so that a method's own rules for defaults hold. All addresses are relative: the page works below
 * any path. Text from the server is only ever put in as text. */

const $ = id => document.getElementById(id);

const state = {
  methods: [],
  models: [],
  file: null,       /* Blob with a name */
  pictureUrl: null, /* object URLs that are ours to revoke */
  heatUrls: [],
  heatSize: '',     /* `size` that the shown answer was asked with */
  running: null,    /* AbortController of the question in flight */
  answer: null,
  shown: 0,         /* which of answer.maps */
};

/* ---- small things ---- */

function make(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null) continue;
    if (name in node && !name.includes('-')) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function show(node, visible) {
  node.hidden = !visible;
}

function digits(value) {
  if (value === null || value === undefined) return 'undefined';
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

function words(name) {
  return name.replaceAll('_', ' ');
}

function say(text) {
  $('status').textContent = text;
}

class Problem extends Error {
  constructor(problem, retryAfter) {
    super(problem.detail || problem.title);
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

async function ask(path, options) {
  const response = await fetch(new URL(path, document.baseURI), options);
  const text = await response.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    /* not from the service itself: a proxy's page */
  }
  if (!response.ok || body === null) {
    const plain = { title: `The server answered ${response.status}`, detail: response.statusText };
    throw new Problem(body || plain, response.headers.get('Retry-After'));
  }
  return body;
}

/* ---- the form ---- */

function currentMethod() {
  return state.methods.find(m => m.name === $('method').value);
}

/* One parameter: a control that sends nothing as long as it is left alone. */
function paramField(param) {
  const id = `p-${param.name}`, helpId = `${id}-help`;
  const standard = param.default === null || param.default === undefined ? '' : String(param.default);
  const title = words(param.name) + (param.unit ? ` (${param.unit})` : '');
  const listed = ['enum', 'bool', 'enum_list'].includes(param.type); /* the control itself shows what is allowed */
  const about = [param.help, param.allowed && !listed ? `Allowed: ${param.allowed}.` : ''].filter(Boolean).join('. ');
  const help = make('p', { id: helpId, className: 'help' }, about);
  if (param.type === 'enum_list' && param.choices) {
    const boxes = param.choices.map(choice =>
      make('label', {}, make('input', { type: 'checkbox', value: choice, 'data-param': param.name }), choice));
    const unset = standard ? `None ticked: ${standard}. ` : '';
    help.textContent = unset + about;
    return make('fieldset', { className: 'field', 'aria-describedby': helpId },
      make('legend', {}, title), make('div', { className: 'choices' }, ...boxes), help);
  }
  let input;
  if (param.type === 'enum' || param.type === 'bool') {
    const choices = param.type === 'bool' ? ['true', 'false'] : param.choices;
    const unset = make('option', { value: '' }, standard ? `default: ${standard}` : 'default');
    input = make('select', {}, unset, ...choices.map(choice => make('option', { value: choice }, choice)));
  } else {
    input = make('input', { type: 'text', placeholder: standard, autocomplete: 'off', spellcheck: false });
    if (param.choices) {
      const list = make('datalist', { id: `${id}-list` }, ...param.choices.map(choice => make('option', { value: choice })));
      input.setAttribute('list', list.id);
      help.append(list);
    } else if (['int', 'float', 'seed'].includes(param.type)) {
      input.inputMode = param.type === 'float' ? 'decimal' : 'numeric';
    }
  }
  input.id = id;
  input.setAttribute('data-param', param.name);
  input.setAttribute('aria-describedby', helpId);
  return make('div', { className: 'field' }, make('label', { htmlFor: id }, title), input, help);
}

function buildParams() {
  const method = currentMethod();
  if (!method) return;
  const cost = method.cost === null || method.cost === undefined ? '' : ` Costs ${digits(method.cost)} forward pass${method.cost === 1 ? '' : 'es'}.`;
  $('method-summary').textContent = 
    `${method.summary}${method.notes ? ` ${method.notes}` : ''}${cost} Source: ${method.source}.`;
  $('params').replaceChildren(...method.params.map(paramField));
  show($('params-box'), method.params.length > 0);
  show($('versus-field'), method.class_specific);
}

function buildMethods() {
  const families = new Map();
  for (const method of state.methods) {
    if (!families.has(method.family)) families.set(method.family, []);
    families.get(method.family).push(method);
  }
  $('method').replaceChildren(...[...families].map(([family, methods]) =>
    make('optgroup', { label: family }, ...methods.map(m => make('option', { value: m.name }, m.title)))));
  if (state.methods.some(m => m.name === 'grad_rollout')) $('method').value = 'grad_rollout';
  buildParams();
}

function buildModels() {
  $('model').replaceChildren(...state.models.map(m => make('option', { value: m.id, selected: m.default }, m.id)));
  describeModel();
}

function describeModel() {
  const model = state.models.find(m => m.id === $('model').value);
  if (!model) return;
  const size = [].concat(model.image_size).join(' × ');
  $('model-summary').textContent =
    `${model.architecture}: ${size} pixels, ${model.layers} layers, ${model.heads} heads, ${model.classes} classes.`;
  const patch = [...new Set([].concat(model.patch))].join(' and ');
  show($('texts-field'), model.classes === 0); /* a model without classes of its own may be CLIP */
  $('image-size').placeholder = `${[].concat(model.image_size).join('x')}: the model's own`;
  $('image-size-help').textContent = `Height x width, multiples of ${patch}. More pixels give a finer map.`;
}

let suggestionTimer = 0;

async function suggest(text) {
  const query = text.split(',').pop().trim();
  try {
    const wanted = new URLSearchParams({ limit: 30, model: $('model').value });
    if (query) wanted.set('q', query);
    const labels = await ask(`labels?${wanted}`);
    const count = new Map();
    for (const { label } of labels) count.set(label, (count.get(label) || 0) + 1);
    $('class-list').replaceChildren(...labels.map(({ index, label, synonym }) => /* a label of several classes is refused */
      count.get(label) > 1 ? make('option', { value: String(index), label: synonym || label })
        : make('option', { value: label, label: synonym || String(index) })));
  } catch {
    $('class-list').replaceChildren(); /* suggestions are a convenience */
  }
}

function suggestSoon(event) {
  clearTimeout(suggestionTimer);
  suggestionTimer = setTimeout(suggest, 150, event.target.value);
}

/* ---- the question ---- */

function question() {
  const query = new URLSearchParams({ method: $('method').value });
  const put = (name, value) => value.trim() !== '' && query.set(name, value.trim());
  put('class', $('class').value);
  if (currentMethod()?.class_specific) put('versus', $('versus').value);
  const model = state.models.find(m => m.id === $('model').value);
  if (model && !model.default) put('model', model.id);
  put('image_size', $('image-size').value);
  if (!$('texts-field').hidden) put('texts', $('texts').value);
  const lists = new Map();
  for (const input of $('params').querySelectorAll('[data-param]')) {
    const name = input.dataset.param;
    if (input.type !== 'checkbox') put(name, input.value);
    else if (input.checked) lists.set(name, [...(lists.get(name) || []), input.value]);
  }
  for (const [name, values] of lists) query.set(name, values.join(','));
  return query;
}

function curlLine(query) {
  const quote = text => `'${text.replaceAll("'", "'\\''")}'`;
  const name = state.file ? state.file.name || 'x.jpg' : 'x.jpg';
  const url = new URL(`explain?${query}`, document.baseURI).href.replaceAll('%2C', ',').replaceAll("'", '%27');
  return `curl -F ${quote(`img=@${name}`)} ${quote(url)}`;
}

/* Heat maps in the pixels of the picture, or, where that would be too much to draw and send, in those of the model's
 * input, which the page then lays over the part that the model saw. */
async function askForMaps(query, form, signal) {
  await $('picture').decode().catch(() => {}); /* one that this browser cannot read has no size here */
  const sizes = $('picture').naturalWidth * $('picture').naturalHeight > 4e6 ? ['model'] : ['original', 'model'];
  for (const size of sizes) {
    query.set('output', 'heatmap');
    query.set('size', size);
    try {
      return [size, await ask(`explain?${query}`, { method: 'POST', body: form, signal })];
    } catch (error) {
      const smaller = error.problem?.code === 'too_expensive' && error.problem.param === 'output';
      if (!smaller || size === sizes.at(-1)) throw error;
    }
  }
}

async function explain() {
  const method = currentMethod();
  if (!method) return;
  if (!state.file && method.needs_image) {
    say('Choose a picture first, or try one of the samples.');
    $('file').focus();
    return;
  }
  if (state.running) state.running.abort();
  const run = state.running = new AbortController();
  const query = question();
  const line = curlLine(query);
  const form = new FormData();
  if (state.file) form.append('img', state.file, state.file.name || 'picture');
  clearProblem();
  say(`Asking ${method.title} …`);
  $('answer').setAttribute('aria-busy', 'true');
  if ($('answer').getBoundingClientRect().top > 0.8 * innerHeight) $('answer').scrollIntoView();
  try {
    const [size, answer] = await askForMaps(query, form, run.signal);
    if (run !== state.running) return;
    state.answer = answer;
    state.heatSize = size;
    showAnswer(line);
  } catch (error) {
    if (error.name !== 'AbortError' && run === state.running) showProblem(error);
  } finally {
    if (run === state.running) {
      state.running = null;
      $('answer').setAttribute('aria-busy', 'false');
    }
  }
}

/* ---- the picture ---- */

function takePicture(file) {
  state.file = file;
  if (state.pictureUrl) URL.revokeObjectURL(state.pictureUrl);
  state.pictureUrl = URL.createObjectURL(file);
  clearAnswer();
  $('picture').src = state.pictureUrl;
  $('picture').alt = `The picture ${file.name || ''}`.trim();
  $('file-name').textContent = file.name || 'dropped picture';
  show($('stage-box'), true);
  $('class').value = '';
  $('versus').value = '';
  explain();
}

async function takeSample(name) {
  try {
    const response = await fetch(new URL(`ui/samples/${name}`, document.baseURI));
    if (!response.ok) throw new Problem({ title: `The sample ${name} is not there (${response.status})` });
    const blob = await response.blob();
    takePicture(new File([blob], name, { type: blob.type }));
  } catch (error) {
    showProblem(error);
  }
}

/* ---- the answer ---- */

function clearAnswer() {
  state.answer = null;
  for (const url of state.heatUrls) URL.revokeObjectURL(url);
  state.heatUrls = [];
  $('heat').removeAttribute('src');
  for (const id of ['heat', 'view', 'maps', 'notes', 'warnings', 'prediction-box', 'metrics-box', 'curl-box']) show($(id), false);
  $('caption').textContent = '';
}

function clearProblem() {
  show($('problem'), false);
  for (const input of document.querySelectorAll('[aria-invalid]')) input.removeAttribute('aria-invalid');
}

function showProblem(error) {
  const problem = error.problem || { title: 'The server cannot be reached', detail: error.message };
  const lines = [make('p', {}, make('strong', {}, problem.title || 'It did not work'))];
  if (problem.detail && problem.detail !== problem.title) lines.push(make('p', {}, problem.detail));
  if (problem.allowed && !problem.detail?.includes(problem.allowed)) lines.push(make('p', {}, `Allowed for ${problem.param}: ${problem.allowed}`));
  if (error.retryAfter) lines.push(make('p', {}, `Try again in ${error.retryAfter} s.`));
  $('problem').replaceChildren(...lines);
  show($('problem'), true);
  say('');
  if (!problem.param) return;
  const input = document.querySelector(`[data-param="${CSS.escape(problem.param)}"], [name="${CSS.escape(problem.param)}"]`);
  if (!input) return;
  input.setAttribute('aria-invalid', 'true');
  if (input.dataset.param) $('params-box').open = true;
  input.focus();
}

function pngUrl(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const url = URL.createObjectURL(new Blob([bytes], { type: 'image/png' }));
  state.heatUrls.push(url);
  return url;
}

function mapName(map) {
  const parts = [];
  if (map.target && state.answer.maps.some(m => m.target && m.target.index !== map.target.index)) parts.push(map.target.label);
  if (map.part) parts.push(map.part);
  for (const key of ['layer', 'head', 'channel']) if (map[key] !== null && map[key] !== undefined) parts.push(`${key} ${map[key]}`);
  return parts.join(', ') || words(map.method);
}

function mapCaption(map) {
  const method = state.methods.find(m => m.name === map.method);
  const about = map.target ? ` for ${map.target.label}` + (map.versus ? ` rather than ${map.versus.label}` : '') : '';
  const name = state.answer.maps.length > 1 ? ` (${mapName(map)})` : '';
  return `${method ? method.title : map.method}${about}${name}`;
}

function showMap(k) {
  state.shown = k;
  const map = state.answer.maps[k];
  const heat = $('heat');
  show(heat, Boolean(map.heatmap));
  if (map.heatmap) heat.src = state.heatUrls[k];
  heat.alt = `Heat map: ${mapCaption(map)}` + (map.empty ? ', empty' : '');
  const specific = state.methods.find(m => m.name === map.method)?.class_specific;
  $('caption').textContent = mapCaption(map) + (specific === false && state.answer.image ? ': the same for every class' : '') + '.';
  $('maps').querySelectorAll('button').forEach((button, i) => button.setAttribute('aria-pressed', String(i === k)));

  const rows = [['grid', map.grid.join(' × ')], ['smallest value', digits(map.min)], ['largest value', digits(map.max)]];
  for (const [name, value] of Object.entries(map.metrics || {})) rows.push([words(name), digits(value)]);
  for (const [name, value] of Object.entries(map.params || {})) rows.push([words(name), Array.isArray(value) ? value.join(', ') : String(value)]);
  $('metrics').replaceChildren(...rows.map(([name, value]) =>
    make('tr', {}, make('th', { scope: 'row' }, name), make('td', {}, value))));
  show($('metrics-box'), true);
  $('notes').replaceChildren(...(map.notes || []).map(note => make('li', {}, note)));
  show($('notes'), (map.notes || []).length > 0);
}

/* Puts a node over a part (x, y, w, h) of a picture of width x height, whatever size that is shown in. */
function lay(node, [x, y, w, h], width, height) {
  node.style.left = `${100 * x / width}%`;
  node.style.top = `${100 * y / height}%`;
  node.style.width = `${100 * w / width}%`;
  node.style.height = `${100 * h / height}%`;
}

function layHeat(node, image) {
  if (image && state.heatSize === 'model') lay(node, image.transform.crop, ...image.transform.resized);
  else lay(node, [0, 0, 1, 1], 1, 1);
}

function showView(image) {
  const view = $('view');
  const [x, y, w, h] = image ? image.transform.visible : [0, 0, 0, 0];
  const part = Boolean(image) && w > 0 && h > 0 && (w < image.width || h < image.height);
  show(view, part);
  if (part) lay(view, [x, y, w, h], image.width, image.height);
}

function showPrediction(answer) {
  const targets = new Set(answer.maps.filter(m => m.target).map(m => m.target.index));
  $('prediction').replaceChildren(...answer.prediction.map(p => {
    const known = p.probability !== null && p.probability !== undefined;
    const value = known ? `${(100 * p.probability).toFixed(1)} %` : digits(p.logit);
    const button = make('button', { type: 'button', 'data-index': String(p.index), 'aria-pressed': String(targets.has(p.index)) },
      make('span', {}, p.label, ' ', make('span', { className: 'index' }, String(p.index))),
      make('span', { className: 'value' }, value));
    if (known) button.append(make('meter', { min: 0, max: 1, value: p.probability, 'aria-hidden': 'true' }));
    button.addEventListener('click', () => {
      $('class').value = String(p.index);
      explain();
    });
    return make('li', {}, button);
  }));
  show($('prediction-box'), answer.prediction.length > 0);
}

function showAnswer(line) {
  const answer = state.answer;
  const old = state.heatUrls;
  state.heatUrls = [];
  for (const map of answer.maps) if (map.heatmap) pngUrl(map.heatmap); else state.heatUrls.push(null);

  $('warnings').replaceChildren(...answer.warnings.map(w => make('li', {}, w.detail)));
  show($('warnings'), answer.warnings.length > 0);
  show($('maps'), answer.maps.length > 1);
  $('maps').replaceChildren(...(answer.maps.length > 1 ? answer.maps : []).map((map, k) => {
    const thumb = make('span', { className: 'thumb' });
    if (state.pictureUrl && answer.image) thumb.append(make('img', { src: state.pictureUrl, alt: '' }));
    if (map.heatmap) {
      const heat = make('img', { src: state.heatUrls[k], alt: '', className: 'heat' });
      layHeat(heat, answer.image);
      thumb.append(heat);
    }
    const button = make('button', { type: 'button' }, thumb, mapName(map) + (map.empty ? ' (empty)' : ''));
    button.addEventListener('click', () => showMap(k));
    return button;
  }));
  show($('stage-box'), Boolean(answer.image));
  layHeat($('heat'), answer.image);
  showView(answer.image);
  showPrediction(answer);
  if (answer.maps.length > 0) showMap(0);
  for (const url of old) if (url) URL.revokeObjectURL(url);
  $('curl').textContent = line;
  show($('curl-box'), true);
  const time = answer.timing_ms?.total;
  say(`Done${time === undefined ? '' : ` in ${Math.round(time)} ms`} with the model “${answer.model}”${answer.cached ? ', from memory' : ''}.`);
}

function setOpacity() {
  const value = $('opacity').value;
  $('heat').style.opacity = String(value / 100);
  $('opacity-value').textContent = `${value} %`;
}

/* ---- wiring ---- */

function connect() {
  $('request').addEventListener('submit', event => {
    event.preventDefault();
    explain();
  });
  $('method').addEventListener('change', () => {
    buildParams();
    if (state.file || !currentMethod()?.needs_image) explain();
  });
  $('model').addEventListener('change', () => {
    describeModel();
    suggest('');
    $('image-size').value = ''; /* another model has other patches */
    $('class').value = ''; /* and other classes */
    $('versus').value = '';
    if (state.file) explain();
  });
  for (const id of ['class', 'versus']) {
    $(id).addEventListener('input', suggestSoon);
    $(id).addEventListener('focus', suggestSoon);
  }
  $('opacity').addEventListener('input', setOpacity);
  $('file').addEventListener('change', () => $('file').files.length && takePicture($('file').files[0]));
  for (const button of $('samples').querySelectorAll('button'))
    button.addEventListener('click', () => takeSample(button.dataset.sample));
  $('picture').addEventListener('error', () => { /* the server may read what this browser does not */
    if (state.file) say('This browser cannot show that picture.');
  });

  /* The whole window takes a dropped file, so that a near miss does not leave the page. */
  const drop = $('drop');
  const files = event => event.dataTransfer && [...event.dataTransfer.types].includes('Files');
  addEventListener('dragover', event => {
    if (!files(event)) return;
    event.preventDefault();
    drop.classList.add('over');
  });
  addEventListener('dragleave', event => event.relatedTarget || drop.classList.remove('over'));
  addEventListener('drop', event => {
    if (!files(event)) return;
    event.preventDefault();
    drop.classList.remove('over');
    if (event.dataTransfer.files.length) takePicture(event.dataTransfer.files[0]);
  });
}

async function start() {
  connect();
  setOpacity();
  try {
    [state.methods, state.models] = await Promise.all([ask('methods'), ask('models')]);
    buildMethods();
    buildModels();
    suggest('');
    document.body.dataset.ready = 'true';
  } catch (error) {
    showProblem(error);
  }
}

start();
