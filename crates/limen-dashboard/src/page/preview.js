// The dialog that shows what would happen before it does. There is one for all buttons, so that
// what was asked for an earlier opening may come when another is shown: it must not touch that.
import { make } from './panels.js';

const dialog = document.querySelector('#preview');
const part = (selector) => dialog.querySelector(selector);
const main = part('button.main');

// What the dialog is open for, and how often something was looked up for it.
let shown = null;
let looks = 0;

async function look(find, outcome) {
  looks += 1;
  const mine = looks;
  main.disabled = true;
  const [found, problem] = await find().then((parts) => [parts, ''], (error) => [[], error.message]);
  // A slower answer about an older form, or about something else, says nothing of this.
  if (mine !== looks) return;
  outcome.replaceChildren(...found);
  part('.error').textContent = problem;
  main.disabled = problem !== '';
}

// Says what went wrong, once nothing else is shown.
function complain(title, problem) {
  if (dialog.open) {
    dialog.addEventListener('close', () => complain(title, problem), { once: true });
    return;
  }
  part('h2').textContent = `${title}: it failed`;
  part('.body').replaceChildren();
  part('.error').textContent = problem.message;
  main.disabled = true;
  dialog.showModal();
}

dialog.addEventListener('close', () => {
  // It has been opened for something else meanwhile.
  if (dialog.open) return;
  const closed = shown;
  shown = null;
  looks += 1;
  if (closed && dialog.returnValue === 'act') closed.act().catch((problem) => complain(closed.title, problem));
});

/// Shows what `find` says would happen, and acts only on the button that says so. What `find` says
/// follows the form, if there is one.
export function preview({ title, verb, form = null, find, act }) {
  const outcome = make('div', { class: 'outcome', 'aria-live': 'polite' }, make('p', {}, 'Looking ...'));
  shown = { title, act };
  part('h2').textContent = title;
  part('.error').textContent = '';
  part('.body').replaceChildren(...(form ? [form] : []), outcome);
  main.textContent = verb;
  form?.addEventListener('input', () => look(find, outcome));
  dialog.returnValue = 'cancel';
  dialog.showModal();
  look(find, outcome);
}
