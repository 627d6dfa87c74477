import type { Paint, Style } from '../screen.ts';
import { counted } from '../../../base/counted.ts';
import { blockAt, type MappedBlock, type MappedPool, type State, STATES } from './address-map.ts';

/** Signs that stand for an address, and their meaning. */
export const SIGNS: Readonly<Record<State, { readonly sign: string; readonly style: Style; readonly means: string }>> =
  {
    free: { sign: '·', style: 'dim', means: 'free' },
    own: { sign: '█', style: 'bold', means: 'held on the node of the block' },
    borrowed: { sign: '▒', style: 'cyan', means: 'borrowed by another node' },
    tunnel: { sign: 'T', style: 'bold', means: 'a tunnel device' },
    preallocated: { sign: '○', style: 'dim', means: 'pre-allocated' },
    reserved: { sign: '-', style: 'dim', means: 'reserved' },
    leaked: { sign: '!', style: 'red', means: 'looks leaked' },
  };
/** A block by how much of it is not free, from nothing to all. */
const LEVELS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const UNCLAIMED = '·';
/** Cells in a line. */
const WIDTH = 64;
/** Larger pools are drawn with a cell per block. */
const MOST_ADDRESSES = 4096;

/** Pools in text: a cell per address where there are few, else one per block. */
export function renderMap(pools: readonly MappedPool[], paint: Paint): string {
  const texts = pools.map((pool) => renderPool(pool, paint));
  return `${texts.join('\n')}\n${legend(pools, paint)}`;
}

/** Whether the pool is drawn address by address. */
export function isDetailed({ blocks }: MappedPool): boolean {
  return blocks.reduce((sum, { addresses }) => sum + addresses.length, 0) <= MOST_ADDRESSES;
}

/** The headline of a pool: how many blocks are claimed, and how many addresses of these are in which state. */
export function poolSummary({ name, cidr, blockSize, places, blocks }: MappedPool): string {
  const addresses = blocks.flatMap((block) => block.addresses);
  const states = STATES.flatMap((state) => {
    const count = addresses.filter((each) => each.state === state).length;
    return count === 0 ? [] : [`${String(count)} ${state}`];
  });
  const claimed = `${String(blocks.length)} of ${counted(places, 'block')} of /${String(blockSize)} claimed`;
  return [`pool "${name}" ${cidr}: ${claimed}`, ...states].join(', ');
}

function renderPool(pool: MappedPool, paint: Paint): string {
  const lines = isDetailed(pool) ? addressLines(pool, paint) : blockLines(pool, paint);
  return `${paint('bold', poolSummary(pool))}\n${lines.map((line) => `  ${line}\n`).join('')}`;
}

function addressLines({ blocks }: MappedPool, paint: Paint): readonly string[] {
  const titles = blocks.map((block) => [block.cidr, block.node ?? '(no node)'] as const);
  const widths = [0, 1].map((column) => Math.max(0, ...titles.map((title) => (title[column] ?? '').length)));
  return blocks.flatMap(({ addresses }, index) => {
    const [cidr, node] = titles[index] ?? ['', ''];
    const title = `${cidr.padEnd(widths[0] ?? 0)}  ${node.padEnd(widths[1] ?? 0)}  `;
    const cells = addresses.map(({ state }) => paint(SIGNS[state].style, SIGNS[state].sign));
    return pieces(cells).map((piece, line) => (line === 0 ? title : ' '.repeat(title.length)) + piece.join(''));
  });
}

/** Lines without a claimed block are left out, and counted. */
function blockLines(pool: MappedPool, paint: Paint): readonly string[] {
  const { blocks, places } = pool;
  const byLine = new Map<bigint, MappedBlock[]>();
  for (const block of blocks) {
    const line = (block.place ?? 0n) / BigInt(WIDTH);
    byLine.set(line, [...(byLine.get(line) ?? []), block]);
  }
  const lines: string[] = [];
  let next = 0n;
  const skip = (to: bigint): void => {
    if (to > next) lines.push(paint('dim', `… ${counted((to - next) * BigInt(WIDTH), 'unclaimed block')}`));
  };
  const titleOf = (line: bigint): string => blockAt(pool, line * BigInt(WIDTH));
  const titleWidth = Math.max(0, ...[...byLine.keys()].map((line) => titleOf(line).length));
  for (const [line, there] of [...byLine].sort(([a], [b]) => (a < b ? -1 : 1))) {
    skip(line);
    next = line + 1n;
    const inLine = new Map(there.map((block) => [Number((block.place ?? 0n) % BigInt(WIDTH)), block]));
    const width = Number(places - line * BigInt(WIDTH) < BigInt(WIDTH) ? places - line * BigInt(WIDTH) : BigInt(WIDTH));
    const cells = Array.from({ length: width }, (_, index) => blockCell(inLine.get(index), paint));
    lines.push(`${titleOf(line).padEnd(titleWidth)}  ${cells.join('')}`);
  }
  const end = (places + BigInt(WIDTH) - 1n) / BigInt(WIDTH);
  skip(end);
  return lines;
}

function blockCell(block: MappedBlock | undefined, paint: Paint): string {
  if (block === undefined) return paint('dim', UNCLAIMED);
  if (block.addresses.some(({ state }) => state === 'leaked')) return paint('red', '!');
  return paint('bold', LEVELS[levelOf(block)] ?? '');
}

/** Returns a level from 0, nothing used, to 7, nothing free. */
export function levelOf({ addresses }: MappedBlock): number {
  const used = addresses.filter(({ state }) => state !== 'free').length;
  return Math.round((used / addresses.length) * (LEVELS.length - 1));
}

function legend(pools: readonly MappedPool[], paint: Paint): string {
  const perAddress = STATES.map((state) => `${paint(SIGNS[state].style, SIGNS[state].sign)} ${SIGNS[state].means}`);
  const perBlock = [
    `${UNCLAIMED} unclaimed`,
    `${LEVELS.join('')} more and more of the block in use`,
    '! with an address that looks leaked',
  ];
  return [
    ...(pools.some(isDetailed) ? [`an address each: ${perAddress.join(', ')}\n`] : []),
    ...(pools.every(isDetailed) ? [] : [`a block each: ${perBlock.join(', ')}\n`]),
  ].join('');
}

function pieces(cells: readonly string[]): readonly (readonly string[])[] {
  const count = Math.ceil(cells.length / WIDTH);
  return Array.from({ length: count }, (_, index) => cells.slice(index * WIDTH, (index + 1) * WIDTH));
}
