// Asks the dashboard; what it refuses becomes an error with its words.
export async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, options).catch(() => {
    throw new Error('the dashboard does not answer; is limen running?');
  });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  // Whoever was known and is not any more has to log in before anything else.
  if (answer.status === 401 && !/^api\/(me|login)$/.test(path)) document.dispatchEvent(new Event('unknown'));
  throw Object.assign(new Error(said.message ?? answer.statusText), { status: answer.status, said });
}
