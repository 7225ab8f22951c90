// Asks the dashboard; what it refuses becomes an error with its words.
export async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(said.message ?? answer.statusText), { status: answer.status });
  return said;
}
