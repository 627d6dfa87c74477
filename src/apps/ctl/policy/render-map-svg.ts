import { ownValue } from '../../../base/own-value.ts';
import { NOT_KNOWN, pairKey, type ShownCell, type ShownMap } from './shown-map.ts';

/** In pixels. */
const CELL = 26;
const CHARACTER = 7.2;
const MARGIN = 16;
const LINE = 20;
const LONGEST_LABEL = 48;
const COLORS = { all: '#2e7d5b', some: '#e0a526', none: '#f1f3f5', text: '#1c2126', faint: '#66707a', grid: '#ffffff' };

/** Renders a matrix: rows send, columns receive. */
export function renderMapSvg(map: ShownMap): string {
  const { groups, cells, notConsidered, legend } = map;
  const labels = groups.map(({ text }) => shortened(text));
  const labelWidth = Math.max(...labels.map(({ length }) => length), 4) * CHARACTER;
  // Labels of columns are turned by 60 degrees.
  const [left, top] = [MARGIN + labelWidth + 8, MARGIN + LINE + labelWidth * 0.87 + 12];
  const side = groups.length * CELL;
  const unknown = new Set(notConsidered.map(({ from, to }) => pairKey(from, to)));
  const entries = [...(unknown.size === 0 ? [] : [NOT_KNOWN]), ...Object.entries(legend)];
  const legendTop = top + side + MARGIN;
  const legendWidth = Math.max(0, ...entries.map(([, meaning]) => shortened(meaning, 110).length)) * CHARACTER + 60;
  const width = Math.ceil(Math.max(left + side + labelWidth * 0.5 + MARGIN, legendWidth + MARGIN, 420));
  const height = Math.ceil(legendTop + (entries.length + 1) * LINE + MARGIN);
  const at = (place: number): number => place * CELL;
  const empty = groups.flatMap((_, from) =>
    groups.map((_each, to) => {
      const [x, y] = [left + at(to), top + at(from)];
      const isUnknown = unknown.has(pairKey(from, to));
      const mark = isUnknown ? signText({ x: x + CELL / 2, y: y + CELL * 0.66, fill: COLORS.faint }, NOT_KNOWN[0]) : '';
      return `${square({ x, y, fill: COLORS.none })}${mark}`;
    }),
  );
  const filled = cells.map((cell) => drawnCell(cell, { map, x: left + at(cell.to), y: top + at(cell.from) }));
  const rows = labels.map((label, place) =>
    text({ x: left - 8, y: top + at(place) + CELL * 0.66, anchor: 'end' }, label),
  );
  const columns = labels.map((label, place) => {
    const [x, y] = [left + at(place) + CELL * 0.6, top - 8];
    return `<g transform="translate(${fixed(x)} ${fixed(y)}) rotate(-60)">${text({ x: 0, y: 0 }, label)}</g>`;
  });
  // Lines between namespaces.
  const borders = groups.flatMap(({ namespace }, place) => {
    if (place === 0 || namespace === groups[place - 1]?.namespace) return [];
    const [x, y] = [left + at(place), top + at(place)];
    return [line([x, top], [x, top + side]), line([left, y], [left + side, y])];
  });
  const key = [['', 'nothing'], ...entries].map(([sign = '', meaning = ''], place) => {
    const y = legendTop + place * LINE;
    const fill = sign === '' || sign === NOT_KNOWN[0] ? COLORS.none : sign === '*' ? COLORS.all : COLORS.some;
    return `${square({ x: MARGIN, y, fill, size: 16 })}${signText({ x: MARGIN + 8, y: y + 12 }, sign)}${text({ x: MARGIN + 26, y: y + 12 }, shortened(meaning, 110))}`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${String(width)}" height="${String(height)}" viewBox="0 0 ${String(width)} ${String(height)}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" role="img">`,
    '<title>What policies let rows send to columns</title>',
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    text({ x: MARGIN, y: MARGIN + 8, fill: COLORS.faint }, 'rows send to columns'),
    ...empty,
    ...filled,
    ...borders,
    ...rows,
    ...columns,
    ...key,
    '</svg>',
    '',
  ].join('\n');
}

/** Renders a page with the matrix and a list of what is open. */
export function renderMapPage(map: ShownMap): string {
  const { groups, cells } = map;
  const rows = cells.map(({ from, to, traffic, isPartial }) => {
    const what = `${traffic}${isPartial ? ', for some of them' : ''}`;
    return `<tr>${[groups[from]?.text, groups[to]?.text, what].map((each) => `<td>${escaped(each ?? '')}</td>`).join('')}</tr>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>What policies allow</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; color: ${COLORS.text}; margin: 24px; }
figure { margin: 0 0 24px; overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: 4px 16px 4px 0; border-bottom: 1px solid #dde1e5; }
</style>
</head>
<body>
<h1>What policies allow</h1>
<figure>
${renderMapSvg(map)}</figure>
<table>
<thead><tr><th>From</th><th>To</th><th>Traffic</th></tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table>
</body>
</html>
`;
}

function drawnCell(
  { from, to, traffic, isPartial, sign }: ShownCell,
  { map: { groups }, x, y }: { readonly map: ShownMap; readonly x: number; readonly y: number },
): string {
  const fill = sign === '*' ? COLORS.all : COLORS.some;
  const what = `${groups[from]?.text ?? ''} to ${groups[to]?.text ?? ''}: ${traffic}${isPartial ? ', for some of them' : ''}`;
  const mark = sign === '*' ? '' : signText({ x: x + CELL / 2, y: y + CELL * 0.66 }, sign);
  return `<g><title>${escaped(what)}</title>${square({ x, y, fill })}${mark}</g>`;
}

function square({
  x,
  y,
  fill,
  size = CELL,
}: {
  readonly x: number;
  readonly y: number;
  readonly fill: string;
  readonly size?: number;
}): string {
  return `<rect x="${fixed(x)}" y="${fixed(y)}" width="${String(size)}" height="${String(size)}" fill="${fill}" stroke="${COLORS.grid}" stroke-width="2"/>`;
}

function line(from: readonly [number, number], to: readonly [number, number]): string {
  const [x1, y1, x2, y2] = [...from, ...to].map(fixed);
  return `<line x1="${x1 ?? ''}" y1="${y1 ?? ''}" x2="${x2 ?? ''}" y2="${y2 ?? ''}" stroke="${COLORS.faint}"/>`;
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly anchor?: 'end' | 'middle';
  readonly fill?: string;
}

function text({ x, y, anchor, fill = COLORS.text }: Place, label: string): string {
  const anchored = anchor === undefined ? '' : ` text-anchor="${anchor}"`;
  return `<text x="${fixed(x)}" y="${fixed(y)}" fill="${fill}"${anchored}>${escaped(label)}</text>`;
}

function signText(place: Place, sign: string): string {
  return sign === '' || sign === '*' ? '' : text({ ...place, anchor: 'middle' }, sign);
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function shortened(label: string, most: number = LONGEST_LABEL): string {
  return label.length <= most ? label : `${label.slice(0, most - 1)}…`;
}

/** Labels are written by users. */
function escaped(label: string): string {
  const names: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  // XML allows no control characters.
  return label.replaceAll(/[&<>"']/g, (character) => ownValue(names, character) ?? '').replaceAll(/\p{Cc}/gu, ' ');
}
