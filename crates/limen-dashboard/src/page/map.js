// The map: land as dots, members as circles, gateways as diamonds, requests as arcs.
import { become } from './become.js';
import { NORTH, ROWS, STEP } from './land.js';
import { rate, toneOf } from './panels.js';

const SCALE = 2.6;
const TOP = 78;
const BOTTOM = -56;
const svgns = 'http://www.w3.org/2000/svg';

const x = (longitude) => (longitude + 180) * SCALE;
const y = (latitude) => (TOP - latitude) * SCALE;

function shape(name, attributes, ...children) {
  const element = document.createElementNS(svgns, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function land() {
  const group = shape('g', { class: 'land', 'aria-hidden': 'true' });
  ROWS.forEach((row, index) => {
    let column = 0;
    row.split(' ').map(Number).forEach((length, run) => {
      if (run % 2 === 1) {
        for (let step = column; step < column + length; step += 1) {
          const place = { cx: x(-180 + STEP * (step + 0.5)), cy: y(NORTH - STEP * index), r: 2 };
          group.append(shape('circle', place));
        }
      }
      column += length;
    });
  });
  return group;
}

// A gateway stands a little above its place, which may be a cluster's as well.
function arc(from, to, flow, unit) {
  const [x1, y1, x2, y2] = [x(from.longitude), y(from.latitude) - 7 * unit, x(to.longitude), y(to.latitude)];
  const bend = Math.hypot(x2 - x1, y2 - y1) * 0.3 + 8 * unit;
  const path = `M${x1} ${y1} Q${(x1 + x2) / 2} ${(y1 + y2) / 2 - bend} ${x2} ${y2}`;
  const failing = flow.traffic.successPercent !== null && flow.traffic.successPercent < 99;
  const width = unit * Math.min(10, 1.5 + Math.sqrt(flow.traffic.rate) * 0.5);
  const title = shape('title', {}, `${flow.edge} to ${flow.cluster}: ${rate(flow.traffic.rate)} requests/s`);
  return shape('path', { class: failing ? 'arc failing' : 'arc', d: path, 'stroke-width': width }, title);
}

// Where clients of a region are sent: a ring where they are, and a line if that is not where they are.
function clientsAt(region, to, unit) {
  const [cx, cy] = [x(region.coordinates.longitude), y(region.coordinates.latitude)];
  const sent = region.cluster ? `are sent to ${region.cluster}` : 'are served by nobody';
  const group = shape('g', { class: 'clients' },
    shape('title', {}, `clients in ${region.region} ${sent}`),
    shape('circle', { cx, cy, r: 11 * unit, 'stroke-width': 1.5 * unit }));
  if (to) {
    const [tx, ty] = [x(to.longitude), y(to.latitude)];
    const bend = Math.hypot(tx - cx, ty - cy) * 0.15;
    if (bend > 0) {
      group.append(shape('path', { d: `M${cx} ${cy} Q${(cx + tx) / 2} ${(cy + ty) / 2 + bend} ${tx} ${ty}`,
        'stroke-width': 1.2 * unit, 'stroke-dasharray': `${2 * unit} ${4 * unit}` }));
    }
  }
  return group;
}

// The part of the world that has something in it, in the shape of the whole.
function frame(points) {
  const whole = { left: 0, top: 0, width: 360 * SCALE, height: (TOP - BOTTOM) * SCALE };
  if (points.length === 0) return whole;
  const [xs, ys] = [points.map((at) => x(at.longitude)), points.map((at) => y(at.latitude))];
  const margin = 45 * SCALE;
  const wanted = Math.max(Math.max(...xs) - Math.min(...xs), (Math.max(...ys) - Math.min(...ys)) * (whole.width / whole.height));
  const width = Math.min(whole.width, wanted + 2 * margin);
  const height = (width * whole.height) / whole.width;
  const within = (middle, size, most) => Math.max(0, Math.min(most - size, middle - size / 2));
  return {
    left: within((Math.max(...xs) + Math.min(...xs)) / 2, width, whole.width),
    top: within((Math.max(...ys) + Math.min(...ys)) / 2, height, whole.height),
    width,
    height,
  };
}

// Where a label fits beside its place: right, left, above or below, whichever is free.
function labelAt(cx, cy, length, unit, taken, seen) {
  const [wide, high, gap] = [length * 6.4 * unit, 13 * unit, 13 * unit];
  const boxes = [
    { left: cx + gap, top: cy - high / 2 },
    { left: cx - gap - wide, top: cy - high / 2, ends: true },
    { left: cx - wide / 2, top: cy - gap - high },
    { left: cx - wide / 2, top: cy + gap },
    { left: cx, top: cy + gap },
    { left: cx - wide, top: cy - gap - high },
    { left: cx - wide / 2, top: cy + gap + high },
    { left: cx - wide / 2, top: cy - gap - 2 * high },
    { left: cx, top: cy + gap + 2 * high },
  ].map((box) => ({ ...box, right: box.left + wide, bottom: box.top + high }));
  const inside = (box) => box.left >= seen.left && box.right <= seen.left + seen.width
    && box.top >= seen.top && box.bottom <= seen.top + seen.height;
  const free = (box) => inside(box) && !taken.some((other) => box.left < other.right && other.left < box.right
    && box.top < other.bottom && other.top < box.bottom);
  const box = boxes.find(free) ?? boxes.find(inside) ?? boxes[0];
  taken.push(box);
  const at = box.ends ? { x: box.right, 'text-anchor': 'end' } : { x: box.left };
  return { ...at, y: box.bottom - 3 * unit, 'font-size': 12 * unit };
}

const doing = (edge) => (edge.kind === 'Dns' ? `answers DNS at ${edge.addresses.join(', ')}` : `${rate(edge.traffic.rate)} requests/s`);

export function makeMap(holder) {
  const live = shape('g', {});
  const svg = shape('svg', { role: 'img' }, land(), live);
  holder.append(svg);

  const draw = (view) => {
    const clusters = view.clusters.filter((cluster) => cluster.coordinates);
    const edges = view.edges.filter((edge) => edge.coordinates);
    const seen = frame([...clusters, ...edges].map((place) => place.coordinates));
    svg.setAttribute('viewBox', `${seen.left} ${seen.top} ${seen.width} ${seen.height}`);
    const unit = seen.width / Math.max(holder.clientWidth, 1);
    const box = (item, size) => {
      const [cx, cy] = [x(item.coordinates.longitude), y(item.coordinates.latitude)];
      return { left: cx - size, right: cx + size, top: cy - size, bottom: cy + size };
    };
    const taken = [...clusters, ...edges].map((item) => box(item, 11 * unit));
    const place = (list, name) => list.find((item) => item.name === name)?.coordinates;
    const arcs = view.flows
      .filter((flow) => flow.traffic.rate > 0)
      .map((flow) => [place(edges, flow.edge), place(clusters, flow.cluster), flow])
      .filter(([from, to]) => from && to)
      .map(([from, to, flow]) => arc(from, to, flow, unit));
    const circles = clusters.map((cluster) => {
      const [cx, cy] = [x(cluster.coordinates.longitude), y(cluster.coordinates.latitude)];
      const tone = toneOf(cluster);
      const sent = cluster.traffic.rate > 0 ? ` ${rate(cluster.traffic.rate)}/s` : '';
      const label = labelAt(cx, cy, cluster.name.length + sent.length, unit, taken, seen);
      return shape('g', { class: `place ${tone.name}` },
        shape('title', {}, `${cluster.name}: ${tone.text}${sent}`),
        shape('circle', { cx, cy, r: 7 * unit }),
        shape('text', label, cluster.name, shape('tspan', { class: 'rate' }, sent)));
    });
    const rings = view.clients.map((region) => clientsAt(region, region.cluster && place(clusters, region.cluster), unit));
    const diamonds = edges.map((edge) => {
      // A DNS server stands below its place, so that a gateway in the same place stays to be seen.
      const above = edge.kind === 'Dns' ? -12 : 7;
      const [cx, cy] = [x(edge.coordinates.longitude), y(edge.coordinates.latitude) - above * unit];
      const [side, turned] = [9 * unit, `rotate(45 ${cx} ${cy})`];
      return shape('g', { class: edge.silent ? 'gateway silent' : 'gateway' },
        shape('title', {}, `${edge.name}: ${edge.silent ? 'silent' : doing(edge)}`),
        shape('rect', { x: cx - side / 2, y: cy - side / 2, width: side, height: side, transform: turned }));
    });
    become(live, [...rings, ...circles, ...arcs, ...diamonds]);
    const nowhere = view.clusters.length - clusters.length;
    svg.setAttribute('aria-label', `World map with ${clusters.length} clusters and ${edges.length} edges`
      + (nowhere ? `; ${nowhere} clusters have no coordinates` : ''));
  };
  let last = null;
  // Sizes are in pixels, so they depend on how wide the map is.
  new ResizeObserver(() => { if (last) draw(last); }).observe(holder);
  return (view) => {
    last = view;
    draw(view);
  };
}
