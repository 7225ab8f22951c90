// Makes what is shown like something else, touching only what differs: an element that somebody
// hovers over, has focused or is just clicking stays the same one.

const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName
  && one.dataset?.key === other.dataset?.key;

function copyAttributes(from, to) {
  for (const { name } of [...to.attributes]) if (!from.hasAttribute(name)) to.removeAttribute(name);
  for (const { name, value } of from.attributes) {
    if (to.getAttribute(name) === value) continue;
    // The page's own policy allows no style attributes, but styles that a script sets.
    if (name === 'style') to.style.cssText = value;
    else to.setAttribute(name, value);
  }
}

function resemble(to, from) {
  if (to.nodeType === Node.TEXT_NODE) {
    if (to.data !== from.data) to.data = from.data;
    return;
  }
  copyAttributes(from, to);
  become(to, [...from.childNodes]);
}

/// Gives an element these children.
export function become(holder, children) {
  children.forEach((child, index) => {
    const there = holder.childNodes[index];
    if (!there) holder.append(child);
    else if (alike(there, child)) resemble(there, child);
    else there.replaceWith(child);
  });
  while (holder.childNodes.length > children.length) holder.lastChild.remove();
}
