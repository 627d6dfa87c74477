import { blockAt, type MappedBlock, type MappedPool, type State, STATES } from './address-map.ts';
import { isDetailed, levelOf, poolSummary, SIGNS } from './render-map.ts';

/** Lengths are pixels. */
const WIDTH = 1120;
const MARGIN = 28;
const CELL = 11;
const GAP = 1;
const TILE_GAP = 22;
const TITLE = 26;
const LABEL = 30;
const COLOURS: Readonly<Record<State, string>> = {
  free: '#e6ebf1',
  own: '#2f6fb0',
  borrowed: '#e69f00',
  tunnel: '#7a5195',
  preallocated: '#9ecae9',
  reserved: '#aab2bd',
  leaked: '#d62728',
};
const FONT = 'ui-sans-serif, system-ui, Helvetica, Arial, sans-serif';
/** Blocks in a line of a pool that is drawn with a cell per block. */
const BLOCKS_PER_LINE = 64;

/** A part of the picture, and its height. */
interface Part {
  readonly svg: string;
  readonly height: number;
}

/** Draws the pools as a self-contained SVG with a tooltip for each cell. */
export function drawSvg(pools: readonly MappedPool[]): string {
  let y = MARGIN;
  const parts: string[] = [];
  for (const part of [drawLegend(), ...pools.map(drawPool)]) {
    parts.push(`<g transform="translate(${String(MARGIN)} ${String(y)})">${part.svg}</g>`);
    y += part.height + TILE_GAP;
  }
  const height = y + MARGIN - TILE_GAP;
  const size = `width="${String(WIDTH)}" height="${String(height)}" viewBox="0 0 ${String(WIDTH)} ${String(height)}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${FONT}">
<rect width="100%" height="100%" fill="#ffffff"/>
${parts.join('\n')}
</svg>
`;
}

/** Draws the pools as an HTML page. */
export function drawHtml(pools: readonly MappedPool[]): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Addresses of netplug</title>
<style>body { margin: 0; background: #f4f6f8 } svg { display: block; margin: 24px auto; max-width: 100%; height: auto }</style>
${drawSvg(pools)}</html>
`;
}

function drawLegend(): Part {
  let x = 0;
  const entries = STATES.map((state) => {
    const at = x;
    x += CELL + 8 + SIGNS[state].means.length * 6.2 + 20;
    return `${rect({ x: at, y: 0, fill: COLOURS[state] })}${text(SIGNS[state].means, { x: at + CELL + 6, y: 10, size: 12 })}`;
  });
  return { svg: entries.join(''), height: CELL };
}

function drawPool(pool: MappedPool): Part {
  const { svg, height } = isDetailed(pool) ? drawTiles(pool) : drawGrid(pool);
  const title = text(poolSummary(pool), { x: 0, y: 14, size: 14, weight: 600 });
  return { svg: `${title}<g transform="translate(0 ${String(TITLE)})">${svg}</g>`, height: TITLE + height };
}

/** A tile for each block, a cell for each of its addresses. */
function drawTiles({ blocks }: MappedPool): Part {
  let [x, y, line] = [0, 0, 0];
  const tiles = blocks.map((block) => {
    const columns = 2 ** Math.ceil(Math.log2(block.addresses.length) / 2);
    const rows = Math.ceil(block.addresses.length / columns);
    const width = Math.max(columns * (CELL + GAP), 130);
    const height = LABEL + rows * (CELL + GAP);
    if (x > 0 && x + width > WIDTH - 2 * MARGIN) [x, y, line] = [0, y + line + TILE_GAP, 0];
    const tile = `<g transform="translate(${String(x)} ${String(y)})">${drawTile(block, columns)}</g>`;
    x += width + TILE_GAP;
    line = Math.max(line, height);
    return tile;
  });
  return { svg: tiles.join('\n'), height: y + line };
}

function drawTile({ cidr, node, addresses }: MappedBlock, columns: number): string {
  const cells = addresses.map(({ address, state, holder }, index) =>
    rect({
      x: (index % columns) * (CELL + GAP),
      y: LABEL + Math.floor(index / columns) * (CELL + GAP),
      fill: COLOURS[state],
      title: `${address}: ${SIGNS[state].means}${holder === undefined ? '' : `, ${holder}`}`,
    }),
  );
  const labels = [
    text(cidr, { x: 0, y: 10, size: 11, weight: 600 }),
    text(node ?? '(no node)', { x: 0, y: 23, size: 11, fill: '#5b6673' }),
  ];
  return [...labels, ...cells].join('');
}

/** Draws a cell for each block, darker when fuller; omits lines without a claimed block. */
function drawGrid(pool: MappedPool): Part {
  const { blocks } = pool;
  const perLine = BigInt(BLOCKS_PER_LINE);
  const lines = [...new Set(blocks.map(({ place = 0n }) => place / perLine))].sort((a, b) => (a < b ? -1 : 1));
  const rowOf = new Map(lines.map((line, index) => [line, index]));
  const left = 130;
  const titles = lines.map((line, index) =>
    text(blockAt(pool, line * perLine), { x: 0, y: index * (CELL + GAP) + 10, size: 10, fill: '#5b6673' }),
  );
  const cells = blocks.map((block) => {
    const { place = 0n, addresses, cidr, node } = block;
    const isLeaked = addresses.some(({ state }) => state === 'leaked');
    const used = addresses.filter(({ state }) => state !== 'free').length;
    return rect({
      x: left + Number(place % perLine) * (CELL + GAP),
      y: (rowOf.get(place / perLine) ?? 0) * (CELL + GAP),
      fill: isLeaked ? COLOURS.leaked : COLOURS.own,
      opacity: isLeaked ? 1 : 0.2 + (0.8 * levelOf(block)) / 7,
      title: `${cidr} of ${node ?? 'no node'}: ${String(used)} of ${String(addresses.length)} in use${isLeaked ? ', an address looks leaked' : ''}`,
    });
  });
  const height = lines.length * (CELL + GAP);
  const back = `<rect x="${String(left)}" width="${String(BLOCKS_PER_LINE * (CELL + GAP))}" height="${String(height)}" fill="#f2f5f8"/>`;
  return { svg: [back, ...titles, ...cells].join(''), height };
}

function rect(shape: { x: number; y: number; fill: string; opacity?: number; title?: string }): string {
  const { x, y, fill, opacity = 1, title } = shape;
  const place = `x="${String(x)}" y="${String(y)}" width="${String(CELL)}" height="${String(CELL)}" rx="2"`;
  const paint = `fill="${fill}"${opacity === 1 ? '' : ` fill-opacity="${opacity.toFixed(2)}"`}`;
  return title === undefined
    ? `<rect ${place} ${paint}/>`
    : `<rect ${place} ${paint}><title>${escape(title)}</title></rect>`;
}

function text(
  words: string,
  {
    x,
    y,
    size,
    weight = 400,
    fill = '#1c2733',
  }: { x: number; y: number; size: number; weight?: number; fill?: string },
): string {
  return `<text x="${String(x)}" y="${String(y)}" font-size="${String(size)}" font-weight="${String(weight)}" fill="${fill}">${escape(words)}</text>`;
}

function escape(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
